# What a host is, in one question: sh text that answers in framed sections on stdout; begun by load.sh.
# POSIX sh and the tools of any small Linux (busybox included); the variables above were set by probe.py.
# It runs as one function, called in the last line, so that half a script does nothing. A QNX host is asked by
# probe_qnx.sh instead. Few processes are started: each costs the host as much as all the shell does by itself.

system() {
	section system
	all=$(uname -nrvm)
	rest=${all#* }
	echo "uname_s $kernel"
	echo "uname_r ${rest%% *}"
	rest=${rest#* }
	echo "uname_v ${rest% *}"
	echo "uname_m ${rest##* }"
	echo "uname_n ${all%% *}"
	echo "user $user"
	echo "page_bytes $(getconf PAGESIZE || getconf PAGE_SIZE)"
	echo "word_bits $(getconf LONG_BIT)"
	[ -e .dockerenv ] && echo "container docker"
	[ -e run/.containerenv ] && echo "container podman"
	[ -e proc/device-tree/model ] && echo "device_tree $(tr -d '\000' <proc/device-tree/model)"
	libc=$(getconf GNU_LIBC_VERSION)
	echo "libc ${libc:-$(ldd --version 2>&1 | head -n 2 | tr '\n' ' ')}"
}

# One grep prints all single values as path:value; /dev/null makes it name the file even when only one is there.
files() {
	section files
	grep -s . etc/machine-id proc/sys/kernel/random/boot_id proc/uptime proc/cmdline \
		proc/self/cgroup proc/sys/kernel/numa_balancing proc/sys/kernel/sched_rt_runtime_us \
		sys/kernel/mm/transparent_hugepage/enabled sys/devices/system/cpu/cpuidle/current_driver \
		sys/devices/system/clocksource/clocksource0/current_clocksource sys/hypervisor/type \
		sys/class/dmi/id/sys_vendor sys/class/dmi/id/product_name sys/class/dmi/id/board_vendor \
		sys/class/dmi/id/board_name sys/class/dmi/id/bios_vendor sys/class/dmi/id/bios_version \
		sys/class/dmi/id/bios_date sys/devices/system/cpu/online sys/devices/system/cpu/present \
		sys/devices/system/cpu/possible sys/devices/system/cpu/isolated sys/devices/system/cpu/nohz_full \
		sys/devices/system/cpu/smt/active sys/devices/system/cpu/intel_pstate/no_turbo \
		sys/devices/system/cpu/cpufreq/boost sys/devices/cpu_core/cpus sys/devices/cpu_atom/cpus \
		sys/devices/system/cpu/vulnerabilities/* sys/devices/system/node/node[0-9]*/cpulist \
		/dev/null
	grep -s -E '^(PRETTY_NAME=|Cpus_allowed_list|MemTotal)' etc/os-release proc/self/status proc/meminfo /dev/null
}

# The first CPU whole; of the others only what can differ, for 576 CPUs write 1.5 MB there.
cpuinfo() {
	section cpuinfo
	sed '/^[[:space:]]*$/q' proc/cpuinfo
	section cpus
	grep -E '^(processor|CPU implementer|CPU variant|CPU part|CPU revision|Model|Hardware)[[:space:]]*:' proc/cpuinfo
}

# A group is told once, by its lowest CPU, and no process is started per CPU. The kernel answers a CPU mask
# only when it is read in one piece, which grep does and the shell's own read does not.
there() { # whether the first file of a pattern exists
	[ -e "$1" ]
}

topology() {
	section topology
	cpus=sys/devices/system/cpu
	{
		grep -s . $cpus/cpu[0-9]*/topology/*_list /dev/null
		there $cpus/cpu[0-9]*/cpu_capacity && grep -s . $cpus/cpu[0-9]*/cpu_capacity /dev/null
		grep -s . $cpus/cpu[0-9]*/cache/index[0-9]*/shared_cpu_list /dev/null
	} |
		sed -n -e 's#^[^:]*/cpu\([0-9]*\)/topology/\([a-z_]*\)_list:\(\1\([,-].*\)*\)$#\2 \3#p' \
			-e 's#^[^:]*/cpu\([0-9]*\)/cpu_capacity:#capacity \1 #p' \
			-e 's#^\([^:]*/cpu\([0-9]*\)/cache/index[0-9]*\)/shared_cpu_list:\(\2\([,-].*\)*\)$#cache \1 \3#p' |
		while read -r what cache list; do
			[ "$what" = cache ] || { echo "$what $cache${list:+ $list}" && continue; }
			get "$cache/level" && level=$v
			get "$cache/type" && type=$v
			get "$cache/size" && size=$v
			get "$cache/coherency_line_size"
			echo "cache ${level:--} ${type:--} ${size:--} ${v:--} $list"
		done
	for policy in "$cpus"/cpufreq/policy[0-9]*; do
		get "$policy/scaling_governor" && governor=$v
		get "$policy/scaling_driver" && driver=$v
		get "$policy/cpuinfo_max_freq" && khz=$v
		get "$policy/affected_cpus"
		[ -n "$v" ] && echo "policy ${governor:--} ${driver:--} ${khz:--} $v"
	done
}

# What disturbs a measurement, each value once and not once per CPU: idle states, throttling, quotas, irqbalance.
noise() {
	section noise
	cpus=sys/devices/system/cpu
	if there $cpus/cpu[0-9]*/cpuidle/state[0-9]*/name; then
		for part in name latency disable; do
			grep -s . $cpus/cpu[0-9]*/cpuidle/state[0-9]*/$part /dev/null
		done | sed 's#^[^:]*/state\([0-9]*\)/\([a-z]*\):#idle \1 \2 #' | sort -u
	fi
	if there $cpus/cpu[0-9]*/thermal_throttle/core_throttle_count; then
		grep -s . $cpus/cpu[0-9]*/thermal_throttle/*_throttle_count /dev/null |
			sed 's#^[^:]*/\([a-z]*\)_throttle_count:#\1 #' | sort | uniq -c | sed 's/^ */throttled /'
	fi
	[ -r proc/self/cgroup ] && quotas <proc/self/cgroup
	balancer proc/[0-9]*/comm
}

# The CPU time our control group and those above it may use; version 1 has a hierarchy for it, version 2 one for all.
quotas() {
	while IFS=: read -r _ controllers path; do
		case ,$controllers, in
		,,) group=sys/fs/cgroup$path && [ -e "$group" ] || group=sys/fs/cgroup ;;
		*,cpu,*) group=sys/fs/cgroup/cpu$path && [ -e "$group" ] || group=sys/fs/cgroup/cpu ;;
		*) continue ;;
		esac
		while [ "$group" != sys/fs ]; do
			get "$group/cpu.max" && [ -n "$v" ] && echo "quota $v"
			get "$group/cpu.cfs_quota_us" && quota=$v
			get "$group/cpu.cfs_period_us" && [ -n "$quota" ] && echo "quota $quota $v"
			group=${group%/*}
		done
	done
}

# Silent where other users' processes are hidden, or are so many that looking would take long.
balancer() {
	[ -r proc/1/comm ] && [ $# -le 20000 ] || return
	if grep -s -q -x irqbalance "$@"; then echo 'irqbalance 1'; else echo 'irqbalance 0'; fi
}

# Where an agent lies already, most likely no compiler will be needed: only which there are is told, by name.
compilers() {
	section compilers
	set -f
	for cc in "$CC" cc gcc clang; do
		# shellcheck disable=SC2086 # a wish may be two words, such as "ccache gcc"
		set -- $cc
		[ $# -eq 0 ] && continue
		if [ -n "$agent" ]; then
			command -v "$1" >/dev/null && echo "$cc	"
			continue
		fi
		version=$("$@" --version | head -n 1)
		[ -n "$version" ] && echo "$cc	$version"
	done
	set +f
}

# Makes $1 ours, or leaves in $why the reason it cannot be.
usable() {
	[ -z "$READ_ONLY" ] || { promising "$1"; return; }
	made=
	[ -L "$1" ] && why='is a symbolic link' && return 1
	if [ ! -d "$1" ]; then
		[ -e "$1" ] && why='is not a directory' && return 1
		why=$(mkdir -p "$1" 2>&1) || { why="cannot be made: ${why##*: }" && return 1; }
		made=1
	fi
	private "$1" && runnable "$1" && return 0
	[ -n "$made" ] && rmdir "$1"
	return 1
}

# As `usable`, but makes and writes nothing: whether programs may run there stays unknown.
promising() {
	[ -L "$1" ] && why='is a symbolic link' && return 1
	if [ -d "$1" ]; then
		private "$1" || return 1
		[ -w "$1" ] || { why='cannot be written' && return 1; }
		return 0
	fi
	[ -e "$1" ] && why='is not a directory' && return 1
	above=$1
	while [ -n "$above" ] && [ ! -e "$above" ]; do above=${above%/*}; done
	above=${above:-/}
	[ -d "$above" ] && [ -w "$above" ] && [ -x "$above" ] && return 0
	why="cannot be made: $above is not writable"
	return 1
}

private() {
	place=$1
	# shellcheck disable=SC2046 # split on purpose: mode, links, uid
	set -- $(ls -ldn "$place")
	[ "$3" = "$uid" ] || { why="belongs to another user (uid $3)" && return 1; }
	case $1 in
	drwx?-??-*) ;;
	*) why="is open to other users ($1)" && return 1 ;;
	esac
}

# A program of ours that may run there is proof enough: it may not where a file system is mounted noexec.
runnable() {
	[ -w "$1" ] && has_agent "$1" && return 0
	file=$1/.probe-$$
	rm -f "$file"
	why=$({ { echo '#!/bin/sh' && echo 'echo runs'; } | cat >"$file" && chmod 700 "$file"; } 2>&1)
	if [ ! -s "$file" ] || [ -n "$why" ]; then
		rm -f "$file"
		why="cannot be written: ${why##*: }"
		return 1
	fi
	why=$("$file" 2>&1)
	rm -f "$file"
	[ "$why" = runs ] || { why="cannot run programs (mounted noexec?): ${why##*: }" && return 1; }
}

has_agent() {
	for file in "$1"/fleet-agent-*; do
		[ -f "$file" ] && [ -x "$file" ] && return 0
	done
	return 1
}

workdir() {
	section workdir
	agent=
	IFS=$newline
	set -f
	# shellcheck disable=SC2086 # split on purpose: a place per line
	set -- $PLACES
	set +f
	unset IFS
	for place in "$@"; do
		case $place in
		\~/*) place=${HOME:+$HOME/${place#??}} ;;
		esac
		[ -n "$place" ] || { echo "refused ~: HOME is not set" && continue; }
		usable "$place" || { echo "refused $place: $why" && continue; }
		[ -d "$place" ] || { echo "planned $place" && return; }
		echo "chosen $place"
		for file in "$place"/.[!.]* "$place"/*; do
			[ -e "$file" ] && echo "${file##*/}"
		done
		has_agent "$place" && [ -z "$READ_ONLY" ] && agent=1
		return
	done
}

main() {
	umask 077
	newline='
'
	if is_qnx; then
		qnx
		return
	fi
	export LC_ALL=C PATH="${PATH:-/usr/bin:/bin}" # not longer than what a build gets to see
	who=$(id)
	uid=${who#uid=}
	uid=${uid%%[!0-9]*}
	user=$uid
	case $who in "uid=$uid("*) user=${who#*"("} && user=${user%%")"*} ;; esac
	own=${HOME:+$HOME/.cache}
	case ${XDG_CACHE_HOME:-} in /*) own=$XDG_CACHE_HOME ;; esac
	[ -n "$PLACES" ] || PLACES="${own:+$own/fleet}
/var/tmp/fleet-$uid
/tmp/fleet-$uid
/dev/shm/fleet-$uid"
	cd "$ROOT/" || return
	section begin
	system
	files
	load
	cpuinfo
	topology
	noise
	workdir
	compilers
	section end
}
