# The probe for Linux: sh text that answers in framed sections on stdout; load_linux.sh is sent before it.
# It needs POSIX sh and the tools of any small Linux (busybox included); probe.py sets the variables.
# It runs as one function, called in the last line, so that half a script does nothing. A host with another OS
# answers only that. It starts few processes: each costs the host as much as reading three thousand bytes of this
# script, or three hundred turns of a loop. Nor is a word looked for in a long text by ${text#*word}: dash tries
# every beginning of the text. probe.py joins lines, so no quotation spans lines except after a backslash.

# Whether the first file of a pattern exists.
there() {
	[ -e "$1" ]
}

# What the files $paths say, and every CPU's files of these names, as path:value; by one grep, or by one a name
# where there are many CPUs, since a command line holds only so much.
grep_all() {
	for name in "$@"; do
		paths="$paths $cpu/cpu[0-9]*/$name"
		[ -e "$cpu/cpu256" ] || continue
		# shellcheck disable=SC2086 # split and expanded on purpose
		grep -s . $paths /dev/null
		paths=
	done
	# shellcheck disable=SC2086
	[ -z "$paths" ] || grep -s . $paths /dev/null
}

# The kernel answers a CPU list only when it is read in one piece, which grep does and the shell's own read does
# not. A group of CPUs is printed for its lowest; for each member where that shows nothing.
files() {
	dmi=sys/class/dmi/id
	edac='sys/devices/system/edac/mc/mc[0-9]*'
	get proc/self/cpu_resctrl_groups
	paths="proc/self/cpu_resctrl_groups sys/fs/resctrl/${v#res:}/schemata \
		etc/machine-id proc/sys/kernel/random/boot_id proc/uptime proc/cmdline proc/self/cgroup proc/self/limits \
		proc/sys/kernel/numa_balancing proc/sys/kernel/sched_rt_runtime_us \
		sys/kernel/mm/transparent_hugepage/enabled sys/hypervisor/type \
		sys/devices/system/clocksource/clocksource0/current_clocksource \
		$dmi/*_vendor $dmi/*_name $dmi/bios_* $cpu/online $cpu/present $cpu/possible $cpu/isolated \
		sys/fs/cgroup/cpuset.cpus.isolated $cpu/nohz_full $cpu/smt/active $cpu/smt/control $cpu/intel_pstate/no_turbo $cpu/cpufreq/boost \
		$cpu/cpuidle/current_driver $cpu/vulnerabilities/* sys/devices/cpu_*/cpus \
		sys/devices/system/node/node[0-9]*/cpulist sys/devices/system/node/node[0-9]*/distance \
		sys/devices/system/node/has_memory sys/class/net/*/device/numa_node \
		sys/devices/system/node/node[0-9]*/access0/initiators/*_bandwidth \
		$edac/max_location $edac/*/dimm_location $edac/*/dimm_mem_type $edac/*/dimm_edac_mode $edac/*/size"
	groups='topology/*_cpus_list'
	there "$cpu"/cpu[0-9]*/topology/core_cpus_list || groups='topology/*_list'
	found=$(grep_all "$groups" cpu_capacity 'cache/index[0-9]*/shared_cpu_list' 'thermal_throttle/*_throttle_count')
	section files
	# shellcheck disable=SC2295 # posh does not expand a quotation here, and neither value has a pattern's characters
	printf '%s\n' "${found%%$newline$cpu/cpu[0-9]*}"
	section topology
	core_heat=
	package_heat=
	online=
	present=
	IFS=$newline
	set -f
	for line in $found; do
		case $line in
		$cpu/cpu[0-9]*) ;;
		$cpu/online:*) online=${line#*:} && continue ;;
		$cpu/present:*) present=${line#*:} && continue ;;
		*) continue ;;
		esac
		value=${line#*:}
		line=${line%%:*}
		number=${line#"$cpu/cpu"}
		number=${number%%/*}
		lowest=${value%%[,-]*}
		case $line in
		*_list)
			if [ "$lowest" = "$number" ] || [ ! -e "$cpu/cpu$lowest/${line#"$cpu/cpu$number/"}" ]; then
				of_group "$line" "$value"
			fi
			;;
		*/cpu_capacity) echo "capacity $number $value" ;;
		*/core_throttle_count) core_heat=$((core_heat + value)) ;;
		*/package_throttle_count) package_heat=$((package_heat + value)) ;;
		esac
	done
	unset IFS
	set +f
	# Where some CPUs are offline, or the list of those online is made up, by which CPUs the kernel shows more.
	if [ "$online" != "$present" ]; then
		shown=
		for line in "$cpu"/cpu[0-9]*/topology; do
			line=${line#"$cpu/cpu"}
			shown="$shown ${line%%/*}"
		done
		echo "shown$shown"
	fi
	boosts=
	for policy in "$cpu"/cpufreq/policy[0-9]*; do
		get "$policy/scaling_governor" && governor=$v
		get "$policy/scaling_driver" && driver=$v
		get "$policy/cpuinfo_max_freq" && khz=$v
		get "$policy/boost" && boosts=$boosts$v
		get "$policy/affected_cpus"
		[ -n "$v" ] && echo "policy ${governor:--} ${driver:--} ${khz:--} $v"
	done
	case $boosts in
	*1*) echo 'boost 1' ;;
	0*) echo 'boost 0' ;;
	esac
}

# File $1 lists the CPUs $2.
of_group() {
	case $1 in
	*/topology/*)
		kind=${1##*/}
		echo "${kind%_list} $2"
		;;
	*/shared_cpu_list)
		cache=${1%/*}
		get "$cache/level" && level=$v
		get "$cache/type" && type=$v
		get "$cache/size" && size=$v
		get "$cache/coherency_line_size"
		echo "cache ${level:--} ${type:--} ${size:--} ${v:--} $2"
		;;
	esac
}

# A few lines of long files. Of /proc/cpuinfo the first line of each key is printed, of the others only what can
# differ: 576 CPUs make 1.5 MB there. On x86 the first block has all keys; elsewhere a block before or behind
# those of CPUs may have the name or the features. What no kernel writes is named, not printed. irqbalance is not looked for where other users' processes are hidden, or too many.
lines() {
	section cpuinfo
	found=$(grep -s -m 1000 '' proc/cpuinfo)
	case $found in
	*"${newline}flags"*)
		# shellcheck disable=SC2295 # as in `files`
		[ ${#found} -gt 1000000 ] || found=${found%%$newline$newline*}
		;;
	esac
	if [ ${#found} -le 100000 ]; then
		keys=$newline
		IFS=$newline
		set -f
		for line in $found; do
			case $keys in
			*"$newline${line%%:*}:"*) continue ;;
			esac
			keys=$keys${line%%:*}:$newline
			printf '%s\n' "$line"
		done
		unset IFS
		set +f
	else
		section system
		echo 'too_long /proc/cpuinfo'
	fi
	section picked
	if [ -r proc/1/comm ]; then
		set -- proc/[0-9]*/comm
		if [ $# -le 20000 ]; then echo 'irqbalance 0'; else set --; fi
	fi
	grep -s -m 100000 -x -E \
		'irqbalance|((processor|CPU [a-z]+|platform|VM00 Control Program)[[:space:]]*|LPAR Number[[:space:]]*|(Cpus|Mems)_allowed_list|MemTotal|MemAvailable|Node [0-9]+ MemFree):.*|PRETTY_NAME=.*' \
		proc/cpuinfo proc/sysinfo etc/os-release proc/self/status proc/meminfo sys/devices/system/node/node[0-9]*/meminfo "$@"
}

system() {
	section system
	echo "uname $all"
	container
	get proc/device-tree/model
	[ -n "$v" ] && echo "device_tree $v"
	get proc/device-tree/hypervisor/compatible
	[ -n "$v" ] && echo "device_tree_hypervisor $v"
	for node in proc/device-tree/lpddr-channel*; do
		get "$node/compatible"
		[ -n "$v" ] || continue
		set -- "$node"/rank@*
		[ -e "$1" ] || set --
		echo "lpddr $# $v"
	done
	getconf GNU_LIBC_VERSION || echo "libc $(ldd --version 2>&1 | head -n 2 | tr '\n' ' ')"
	word_bits
	page_bytes
}

# The firmware's table of the machine, for root. Where the kernel does not have it, dmidecode may find it.
smbios() {
	section smbios
	table=sys/firmware/dmi/tables/DMI
	if [ -r "$table" ]; then
		od -An -v -tx1 -N 262144 "$table"
	elif ! there "$table"; then
		command -v dmidecode >/dev/null && dmidecode -u -t 16,17,127
	fi
}

# What marks a container, the surest mark last. A root on an overlay may also be a live system's, whose first process
# is an init.
container() {
	mounts=$(grep -s -e ' - cgroup' -e ' - fuse.lxcfs ' -e ' / / .* - overlay ' proc/self/mountinfo)
	get proc/1/comm
	case $v$newline$mounts in
	init"$newline"* | systemd"$newline"* | procd"$newline"*) ;;
	*' / / '*' - overlay '*) echo 'container unnamed' ;;
	esac
	case $mounts in *' - fuse.lxcfs '*) echo 'container lxc' ;; esac
	[ -n "$KUBERNETES_SERVICE_HOST" ] && echo 'container kubernetes'
	[ -r proc/1/environ ] && tr '\0' '\n' <proc/1/environ | while IFS='=' read -r setting text; do
		case $setting in
		KUBERNETES_SERVICE_HOST) echo 'container kubernetes' ;;
		container) echo "container ${text:-unnamed}" ;;
		esac
	done
	get run/systemd/container
	[ -n "$v" ] && echo "container $v"
	[ -e .dockerenv ] && echo 'container docker'
	[ -e run/.containerenv ] && echo 'container podman'
}

# A 64-bit process has its stack above 4 GiB: proc(5), the 28th number, 26th behind the name.
word_bits() {
	get proc/self/stat
	# shellcheck disable=SC2086
	set -- ${v##*")"}
	case ${26:-} in
	???????????*) echo 'word_bits 64' ;;
	????????*) echo 'word_bits 32' ;;
	*) echo "word_bits $(getconf LONG_BIT)" ;;
	esac
}

page_bytes() {
	[ -r proc/self/smaps ] && while read -r key v _; do
		[ "$key" = KernelPageSize: ] && echo "page_bytes $((v * 1024))" && return
	done <proc/self/smaps
	echo "page_bytes $(getconf PAGESIZE || getconf PAGE_SIZE)"
}

# What disturbs a measurement: throttling, added up over all CPUs; idle states, each value once and not once per
# CPU (what differs is behind the sixth slash); quotas.
noise() {
	section noise
	[ -n "$core_heat" ] && echo "throttled 1 core $core_heat"
	[ -n "$package_heat" ] && echo "throttled 1 package $package_heat"
	paths=
	there "$cpu"/cpu[0-9]*/cpuidle/state[0-9]* &&
		grep_all 'cpuidle/state[0-9]*/name' 'cpuidle/state[0-9]*/latency' 'cpuidle/state[0-9]*/disable' |
		sort -u -t / -k 6
	IFS=$newline
	set -f
	[ -r proc/self/cgroup ] && groups cpu quota && groups memory memory && groups pids pids
	set +f
	unset IFS
}

# Calls a function for our control group of a controller and for those above it. Version 1 has a hierarchy for it,
# version 2 one for all. A container's mount may begin at its own group, of which only the host's path is told.
groups() {
	while IFS=: read -r _ controllers path; do
		case ,$controllers, in
		,,) kind=2 ;;
		*,$1,*) kind=1 ;;
		*) continue ;;
		esac
		for line in $mounts; do
			case $kind$line, in
			2*' - cgroup2 '* | 1*' - cgroup '*[\ ,]"$1",*) ;;
			*) continue ;;
			esac
			line=${line#* * * }
			root=${line%% *}
			root=${root%/}
			line=${line#* }
			mount=${line%% *}
			mount=${mount#/}
			group=$mount
			# shellcheck disable=SC2295 # as in `files`
			case $path/ in
			"$root"/*) group=$mount${path#$root} ;;
			esac
			group=${group%/}
			[ -e "$group" ] || group=$mount
			# shellcheck disable=SC2295
			while name=${group#$mount} && "$2"; [ "$group" != "$mount" ]; do
				group=${group%/*}
			done
		done
	done <proc/self/cgroup
}

quota() {
	get "$group/cpu.max" && [ -n "$v" ] && echo "quota $v ${name:-/}"
	get "$group/cpu.cfs_quota_us" && quota=$v
	get "$group/cpu.cfs_period_us" && [ -n "$quota" ] && echo "quota $quota $v ${name:-/}"
}

pids() {
	get "$group/pids.max" && [ -n "$v" ] && echo "pids $v"
}

# The limits of group $name, what is used of them, and what of that the kernel takes back.
memory() {
	limits=
	used=
	for file in memory.max memory.high memory.limit_in_bytes; do
		get "$group/$file" && [ -n "$v" ] && limits=$limits,$v
	done
	[ -n "$limits" ] || return 0
	for file in memory.current memory.usage_in_bytes; do
		get "$group/$file" && used=$used$v
	done
	back=0
	[ -r "$group/memory.stat" ] && while IFS=' ' read -r key v; do
		case $key in
		inactive_file | total_inactive_file) back=$v ;;
		esac
	done <"$group/memory.stat"
	echo "memory ${limits#,} ${used:-0} $back ${name:-/}"
}

# Where an agent is already, most likely no compiler is needed: they are only listed by name. Else the first that
# answers is enough; clang takes 30 ms to.
compilers() {
	section compilers
	set -f
	for cc in "$CC" cc gcc clang; do
		# the inventory's may be two words, such as "ccache gcc"
		# shellcheck disable=SC2086
		set -- $cc
		[ $# -eq 0 ] && continue
		if [ -n "$agent" ]; then
			command -v "$1" >/dev/null && echo "$cc	"
			continue
		fi
		# By a pipe: $() alone waits for every process which a compiler leaves behind. In $() again, without which
		# ksh93 loses what it reads.
		version=$("$@" --version | { read -r line; echo "$line"; })
		[ -n "$version" ] && echo "$cc	$version" && break
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

# Whether $1 is ours and nobody else may write there; $user is its owner's name then.
private() {
	place=$1
	# shellcheck disable=SC2046 # split on purpose: mode, uid and name
	set -- $(stat -c '%A %u %U' "$place")
	if [ $# -eq 0 ]; then
		# shellcheck disable=SC2046 # mode, links, uid
		set -- $(ls -ldn "$place")
		set -- "$1" "$3"
	fi
	mode=$1
	uid=$(id -u)
	[ -n "$uid" ] || { why='may be of another user: the program id does not run' && return 1; }
	[ "$2" = "$uid" ] || { why="belongs to another user (uid $2)" && return 1; }
	case $mode in
	drwx?-??-*) ;;
	*) why="is open to other users ($mode)" && return 1 ;;
	esac
	shift 2
	[ "$*" = UNKNOWN ] || user=$*
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

# Takes the first of these places that will do.
choose() {
	for place in "$@"; do
		[ -n "$place" ] || { echo "refused ~: HOME is not set" && continue; }
		usable "$place" || { echo "refused $place: $why" && continue; }
		[ -d "$place" ] || { echo "planned $place" && return; }
		echo "chosen $place"
		set --
		for file in "$place"/.[!.]* "$place"/*; do
			# To read a FIFO would wait for ever.
			[ -f "$file" ] && echo "${file##*/}" &&
				case $file in */fleet-agent-*-*) set -- "$@" "$file" ;; esac
		done
		[ "$1" ] && section hashes && sha256sum "$@"
		has_agent "$place" && [ -z "$READ_ONLY" ] && agent=1
		return 0
	done
	return 1
}

workdir() {
	section workdir
	agent=
	user=
	own=${HOME:+${HOME%/}/.cache}
	case $XDG_CACHE_HOME in /*) own=$XDG_CACHE_HOME ;; esac
	case $own in *"$newline"*) own= ;; /*) ;; *) own= ;; esac
	case $PLACES in
	'') { [ -n "$own" ] && choose "$own/fleet"; } || usual_places ;;
	\~/*) choose "${HOME:+$HOME/${PLACES#??}}" ;;
	*) choose "$PLACES" ;;
	esac
	section system
	echo "user ${user:-$(id -un || id -u)}"
}

usual_places() {
	uid=$(id -u)
	case $TMPDIR in *"$newline"*) TMPDIR= ;; /*) ;; *) TMPDIR= ;; esac
	choose "/var/tmp/fleet-$uid" "/tmp/fleet-$uid" "/dev/shm/fleet-$uid" ${TMPDIR:+"${TMPDIR%/}/fleet-$uid"}
}

linux() {
	cpu=sys/devices/system/cpu
	load
	files
	lines
	system
	smbios
	noise
	workdir
	compilers
}

# PATH is not longer than what a build gets to see.
main() {
	umask 077
	export LC_ALL=C PATH="${PATH:-/usr/bin:/bin}"
	newline=${IFS#??}
	all=$(uname -snrvm)
	cd "$ROOT/" || return
	section begin
	case $all in
	# In one write: sshd makes a packet of each.
	"Linux "*) found=$(linux); printf '%s\n' "$found" ;;
	*) section other && section system && echo "uname_s ${all%% *}" ;;
	esac
	section end
}
