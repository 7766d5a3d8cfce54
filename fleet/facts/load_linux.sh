# How busy and warm a Linux host is: sh text, a framed section on stdout. Part of the probe, and alone after a run.

section() {
	echo "$MARK $1"
}

# The first line of file $1 into $v, or nothing.
get() {
	v=
	read -r v <"$1"
	return 0
}

# No process is started: the first line of each file is enough. Printed at once, since sshd makes a packet of each
# write.
load() {
	set -- "$MARK load"
	for file in proc/loadavg proc/stat sys/class/thermal/thermal_zone*/temp sys/class/hwmon/hwmon*/temp*_input; do
		get "$file"
		[ -n "$v" ] && set -- "$@" "$file:$v"
	done
	printf '%s\n' "$@"
}

# The CPU time of the machine and of each process: what has ended meanwhile is left out. One shell reads all and one
# `printf` writes it, as above.
ticks() {
	echo "$MARK $1"
	for file in proc/stat proc/[0-9]*/stat; do
		get "$file"
		[ -n "$v" ] && echo "$file:$v"
	done
}

usage_only() {
	cd "$ROOT/" || return
	section begin
	before=$(ticks before)
	sleep 1
	printf '%s\n' "$before" "$(ticks after)"
	section end
}

load_only() {
	cd "$ROOT/" || return
	section begin
	load
	section end
}
