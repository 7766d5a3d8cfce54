function _fleet_completion
    set -l line (commandline -cp | string collect)
    set -l offered (env _FLEET_COMPLETE=complete_fish "_FLEET_LINE=$line" fleet 2>/dev/null)
    if test -z "$offered"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $offered
    end
end

complete --command fleet --no-files --arguments '(_fleet_completion)'
