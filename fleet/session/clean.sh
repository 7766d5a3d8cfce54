# Removes what fleet made on a host and nothing else: read by /bin/sh from stdin, answers in marked lines.
# The shell's own means, rm and rmdir: neither find nor ls need be there. MARK, PLACES, DRY and ROOT were set before.

hex='[0-9a-f][0-9a-f][0-9a-f][0-9a-f]'
run='r[0-9]*T[0-9]*Z-'$hex$hex
hex=$hex$hex$hex$hex

say() {
	echo "$MARK $1"
}

# Whether the file named $1 is one we make; a directory only where $2 is not `flat`, so never in a shared one.
ours() {
	# shellcheck disable=SC2254 # a pattern on purpose
	case $1 in
	fleet-agent-$hex | fleet-agent-${hex}[-.]$hex | fleet-agent-$hex-$hex.$hex | fleet-probe) return 0 ;;
	fleet-done-$run | fleet-done-$run.$hex) return 0 ;;
	.probe-* | fleet-probe-*) pid=${1##*-} ;;
	build-$hex-*) pid=${1##*-} && [ "$2" != flat ] || return 1 ;;
	*) return 1 ;;
	esac
	case $pid in
	'' | *[!0-9]*) return 1 ;;
	esac
}

# Who runs the file $1, or builds in the directory $1.
user_of() {
	case $1 in
	*/build-*)
		pid=${1##*-}
		kill -0 "$pid"
		return
		;;
	esac
	# shellcheck disable=SC3013 # -ef is in every shell we know and in POSIX since 2024
	for link in /proc/[0-9]*/exe /proc/[0-9]*/exefile; do
		case $link in
		*/exe) [ "$link" -ef "$1" ] || continue ;;
		*) path= && read -r path <"$link" || [ "$path" = "$1" ] || continue ;;
		esac
		pid=${link#/proc/}
		pid=${pid%%/*}
		return 0
	done
	return 1
}

in_use() {
	[ -L "$1" ] || ! user_of "$1" || say "running $pid $1"
}

# Whether we own $1. -O is not in POSIX; an image may lack id and ls.
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

remove() {
	[ -L "$1" ] && say "left a link, not ours: $1" && return
	is_ours "$1" || { say "left another user's: $1" && return; }
	[ -n "$DRY" ] && say "found $1" && return
	if [ -d "$1" ]; then rm -rf "$1"; else rm -f "$1"; fi
	if [ -e "$1" ]; then say "left it cannot be removed: $1"; else say "removed $1"; fi
}

is_empty() {
	for file in "$1"/* "$1"/.[!.]* "$1"/..?*; do
		[ -e "$file" ] || [ -L "$file" ] || continue
		return 1
	done
}

# Does $1 with each file of ours in the directory $2; $3: flat, sure (the directory is ours) or maybe.
each() {
	count=0
	for file in "$2"/fleet-agent-* "$2"/fleet-done-* "$2"/fleet-probe* "$2"/.probe-* "$2"/build-*; do
		[ -e "$file" ] || [ -L "$file" ] || continue
		ours "${file##*/}" "$3" || continue
		count=$((count + 1))
		"$1" "$file"
	done
	[ "$1" = remove ] || return
	case $3,$count in maybe,0 | flat,*) return ;; esac
	case ${2##*/} in
	fleet | .fleet | fleet-*) ;; # nobody else's /tmp, even if it is empty now
	*) return ;;
	esac
	if [ -n "$DRY" ]; then
		say "found $2/ if it is empty then"
	elif ! is_empty "$2"; then
		say "left not empty: $2/"
	elif rmdir "$2"; then
		say "removed $2/"
	else
		say "left it cannot be removed: $2/"
	fi
}

place() {
	{ [ -e "$2" ] || [ -L "$2" ]; } || return
	if [ -L "$2" ]; then
		[ "$1" = in_use ] || say "left a link, not followed: $2"
	elif [ -d "$2" ] && [ "$3" = flat ]; then
		each "$@"
	elif [ -d "$2" ] && is_ours "$2"; then
		each "$@"
	fi
}

everywhere() {
	if [ -n "$PLACES" ]; then
		case $PLACES in
		\~/*) PLACES=$HOME/${PLACES#??} ;;
		esac
		place "$1" "$PLACES" sure
		return
	fi
	own=${HOME:+$HOME/.cache}
	case ${XDG_CACHE_HOME:-} in /*) own=$XDG_CACHE_HOME ;; esac
	[ -z "$own" ] || place "$1" "$own/fleet" sure
	[ -z "$HOME" ] || base "$1" "$HOME"
	case ${TMPDIR%/} in /tmp | /var/tmp | /dev/shm) TMPDIR= ;; esac
	for base in "$ROOT"/data/home/* "$ROOT/data/tmp" "$ROOT/var/tmp" "$ROOT/tmp" "$ROOT/dev/shm" "$ROOT/dev/shmem" \
		${TMPDIR:+"$ROOT${TMPDIR%/}"}; do
		[ "$base" = "$HOME" ] || [ -L "$base" ] || base "$1" "$base"
	done
}

base() {
	[ -d "$2" ] || return
	place "$1" "$2" flat
	for folder in "$2"/fleet-*; do
		case ${folder##*/fleet-} in
		*[!0-9]*) place "$1" "$folder" maybe ;;
		*) place "$1" "$folder" sure ;;
		esac
	done
}

main() {
	PATH=${PATH:+$PATH:}/bin:/usr/bin:/proc/boot:/system/bin # a command over SSH may get an empty PATH
	PATH=${PATH:-/usr/bin:/bin}:/proc/boot:/system/bin:/bin:/usr/bin # QNX has no fixed place for rm
	export PATH
	busy=$(everywhere in_use)
	say begin
	if [ -n "$busy" ]; then
		echo "$busy"
	else
		everywhere remove
	fi
	say end
}
