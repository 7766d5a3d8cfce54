# How busy and warm a Linux host is: sh text, a framed section on stdout. Asked before a run, and by itself after.

section() {
	echo "$MARK $1"
}

get() { # the first line of file $1 into $v, or nothing
	v=
	if [ -r "$1" ]; then read -r v <"$1"; fi
	return 0
}

load() {
	section load
	grep -s -E '^(cpu|procs_running) |^[0-9]+[.]' proc/loadavg proc/stat /dev/null
	for file in sys/class/thermal/thermal_zone*/temp sys/class/hwmon/hwmon*/temp*_input; do
		get "$file"
		[ -n "$v" ] && echo "$file:$v"
	done
}

load_only() {
	cd "$ROOT/" || return
	section begin
	load
	section end
}
