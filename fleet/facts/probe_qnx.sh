# The probe for QNX. An image may have hardly any programs, so this uses what the shell itself has: no printf, no
# `command -v`, no backslash in an echo. $ROOT precedes every path of the system: the tree of a test,
# empty on a host. A host with another OS answers only that.

section() {
	echo "$MARK $1"
}

# Where QNX images keep their programs; the PATH of a command over SSH may hold none of these.
qnx_places=$ROOT/proc/boot:$ROOT/system/bin:$ROOT/bin:$ROOT/usr/bin:$ROOT/sbin:$ROOT/usr/sbin

# By `uname -s`; without one, by what only QNX has.
is_qnx() {
	kernel=$(uname -s)
	case $kernel in
	QNX) return 0 ;;
	?*) return 1 ;;
	esac
	[ -d "$ROOT/proc/boot" ] && return 0
	kept=${PATH:-}
	PATH=$qnx_places
	named=$(uname -s)
	cpu=$(pidin info)
	PATH=$kept
	case "$named $cpu" in
	QNX\ * | *CPU:*Release:*) return 0 ;;
	esac
	return 1
}

# Whether we own $1. -O is in ksh, not in POSIX; an image may lack id and ls.
is_ours() {
	uid=$(id -u)
	# shellcheck disable=SC2046 # split on purpose: mode, links, uid
	set -- "$1" $(ls -dn "$1")
	if [ -n "$uid" ] && [ $# -gt 3 ]; then
		[ "$4" = "$uid" ]
	else
		[ -O "$1" ]
	fi
}

# The path of program $1 into $v, or nothing.
find_tool() {
	rest=$PATH:
	while [ -n "$rest" ]; do
		v=${rest%%:*}/$1
		rest=${rest#*:}
		[ -f "$v" ] && [ -x "$v" ] && return 0
	done
	v=
	return 1
}

# The PATH we got or /etc/profile sets, and behind it every other place. The profile may print, fail or exit.
search_path() {
	given=${PATH:-}
	profile=
	if [ -r "$ROOT/etc/profile" ]; then
		# shellcheck disable=SC1091 # the host's own
		profile=$({ . "$ROOT/etc/profile"; } >/dev/null 2>&1 </dev/null; echo "$PATH")
	fi
	PATH=${profile:-${given:-/usr/bin:/bin}}
	rest=$qnx_places:
	while [ -n "$rest" ]; do
		v=${rest%%:*}
		rest=${rest#*:}
		case :$PATH: in
		*:"$v":*) ;;
		*) PATH=$PATH:$v ;;
		esac
	done
	export PATH
}

who() {
	user=${USER:-${LOGNAME:-}}
	[ -n "$user" ] || user=$(id -un)
	case $user in
	'' | *[!A-Za-z0-9._-]*) user=us ;;
	esac
}

qnx_system() {
	section qnx
	echo "uname $(uname -a)"
	[ -e "$ROOT/etc/qnx-standin" ] && echo 'standin yes'
	echo "user $user"
	echo "home ${HOME:-}"
	echo "path_given $given"
	echo "path_profile $profile"
	echo "path $PATH"
	for tool in uname pidin cat chmod cksum mv rm mkdir ls on slay; do
		find_tool $tool
		echo "tool $tool ${v:--}"
	done
	section pidin
	pidin info
	# for a report of a board that is misread: nothing reads these but people
	section report
	echo "shell ${KSH_VERSION:-unknown}"
	for place in "${HOME:-/}" "$ROOT/data/home/$user" "$ROOT/data/tmp" "$ROOT/var/tmp" "$ROOT/tmp" "$ROOT/dev/shmem"; do
		echo "place $(ls -ld "$place" || echo "$place: cannot be listed")"
	done
	section rmasks
	pidin -p $$ rmasks
	section qtime
	pidin syspage=qtime
}

qnx_compilers() {
	section compilers
	set -f
	for cc in "$CC" clang gcc cc qcc; do
		# shellcheck disable=SC2086 # the inventory's may be two words
		set -- $cc
		[ $# -eq 0 ] && continue
		# As in the probe for Linux.
		version=$("$@" --version | { read -r line; echo "$line"; })
		[ -n "$version" ] && echo "$cc	$version"
	done
	set +f
}

# Settles on a directory in or at $1, made $mode, as $dir, or leaves in $why the reason there is none.
qnx_usable() {
	made=
	dir=$1
	if [ -z "$PLACES" ]; then
		[ -d "$1" ] || { why='is not there' && return 1; }
		dir=${1%/}/fleet-$user
	fi
	if [ -L "$dir" ]; then
		why='is a symbolic link'
		[ -n "$PLACES" ] && return 1
		dir=$1
	elif [ -d "$dir" ]; then
		[ -n "$PLACES" ] || is_ours "$dir" || dir=$1
	elif [ -n "$READ_ONLY" ] && is_shmem "$1"; then
		dir=$1
		[ -w "$dir" ] && qnx_runnable
		return
	elif [ -n "$READ_ONLY" ]; then
		above=${dir%/*}
		[ -w "${above:-/}" ] && return 0
		why="cannot be made: ${above:-/} is not there or cannot be written"
		return 1
	elif mkdir "$dir"; then
		made=1
	elif [ -n "$PLACES" ]; then
		why='is not there and cannot be made'
		return 1
	else
		dir=$1 # flat: no directories there
	fi
	[ -w "$dir" ] || { why='cannot be written' && return 1; }
	[ -n "$READ_ONLY" ] || qnx_runnable && return 0
	[ -n "$made" ] && rmdir "$dir"
	return 1
}

# Whether programs run in $dir. Without rm the same one small file stays behind each time. Where others may
# write we go through no link of theirs (set -C).
qnx_runnable() {
	file=$dir/fleet-probe
	if find_tool rm; then
		file=$file-$$
		rm -f "$file"
		set -C
	elif [ -L "$file" ]; then
		why="holds a link, $file"
		return 1
	fi
	wrote=
	{ echo '#!/bin/sh' && echo 'echo runs'; } >"$file" && wrote=1
	set +C
	if [ -z "$wrote" ]; then
		rm -f "$file"
		why='cannot be written (full?)'
		return 1
	fi
	if ! find_tool chmod; then # SFTP will have to set the mode
		rm -f "$file"
		return 0
	fi
	chmod 700 "$file"
	ran=$("$file" 2>&1)
	rm -f "$file"
	[ "$ran" = runs ] || { why="cannot run programs: ${ran%%"$newline"*}" && return 1; }
}

# Whether $1 is /dev/shmem, perhaps by a link: flat, with nothing of it on a disk.
is_shmem() {
	[ "$(cd "$1" && pwd -P)" = "$ROOT/dev/shmem" ]
}

qnx_workdirs() {
	home=${HOME:-}
	if [ -n "$PLACES" ]; then
		case $PLACES in
		\~/*) PLACES=${home:+$home/${PLACES#??}} ;;
		esac
		set -- "$PLACES"
	else
		set -- "$ROOT/data/home/$user" "$ROOT/data/tmp" "$ROOT/var/tmp" "$ROOT/tmp" "$ROOT/dev/shmem"
		[ "$home" = "$1" ] || set -- "$home" "$@"
	fi
	section workdir
	for place in "$@"; do
		[ -n "$place" ] || { echo 'refused ~: HOME is not set' && continue; }
		qnx_usable "$place" || { echo "refused $place: $why" && continue; }
		if [ ! -d "$dir" ]; then
			echo "planned $dir"
		else
			echo "chosen $dir" # others may write there: a file under our name counts only if we own it
			for entry in "$dir"/fleet-*; do
				[ -e "$entry" ] && is_ours "$entry" && echo "${entry##*/}"
			done
		fi
		[ -n "$READ_ONLY" ] || return
	done
}

main() {
	umask 077
	newline=${IFS#??}
	if is_qnx; then
		search_path
		who
		section begin
		qnx_system
		qnx_compilers
		qnx_workdirs
	else
		section begin
		section other
		section system
		echo "uname_s $kernel"
		echo "path ${PATH:-}"
	fi
	section end
}
