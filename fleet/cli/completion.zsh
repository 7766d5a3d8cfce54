#compdef fleet

_fleet_completion() {
    local answer line
    local -a offered shown
    answer=$(
        env _FLEET_COMPLETE=complete_zsh _FLEET_WORD="$PREFIX" \
            _FLEET_LINE="${words[1,CURRENT-1]} $QIPREFIX$PREFIX" fleet 2>/dev/null
    )
    if [[ -z $answer ]]; then
        _files
        return
    fi
    for line in "${(@f)answer}"; do
        offered+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
    done
    compadd -Q -d shown -a offered
}

if [[ $funcstack[1] == _fleet ]]; then  # this is a file _fleet of $fpath
    _fleet_completion
else
    compdef _fleet_completion fleet
fi
