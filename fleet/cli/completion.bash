_fleet_completion() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        [[ -z $word ]] || COMPREPLY+=("$word")
    done < <(
        env _FLEET_COMPLETE=complete_bash _FLEET_WORD="$2" \
            _FLEET_LINE="${COMP_LINE:0:COMP_POINT}" fleet 2>/dev/null
    )
}

complete -o default -F _fleet_completion fleet
