# Steps that put a file with minimal tools; the last line of what is sent names one. NEW is the file as it
# arrives, TO where it belongs, MODE and SIZE are its mode and bytes. 127: there is no cat; 95: nothing is there;
# 96: it was copied, not renamed.

has_cat() {
	cat </dev/null || exit 127 # asked first: a redirection makes the file even so
	umask 077
	set -C
}

# Prints the file that is there, if it is ours.
is_there() {
	[ -e "$TO" ] || [ -L "$TO" ] || exit 95
	uid=$(id -u 2>/dev/null)
	# shellcheck disable=SC2046 # words
	set -- $(ls -dn "$TO" 2>/dev/null)
	# shellcheck disable=SC3067 # where there are neither id nor ls
	if [ -n "$uid" ] && [ $# -gt 2 ]; then [ "$3" = "$uid" ]; else [ -O "$TO" ]; fi &&
		[ ! -L "$TO" ] && cat "$TO"
}

# Writes stdin to NEW and prints checksum and size; by cksum an incomplete file is removed.
receive() {
	has_cat
	# shellcheck disable=SC2015 # if either fails
	cat >"$NEW" && chmod "$MODE" "$NEW" || {
		code=$?
		rm -f "$NEW"
		exit $code
	}
	# shellcheck disable=SC2046 # words
	set -- $(cksum "$NEW" 2>/dev/null)
	[ "${2:-$SIZE}" = "$SIZE" ] && echo "$1 $2" && exit 0
	rm -f "$NEW"
	echo "$2 of $SIZE bytes arrived" >&2
	exit 1
}

# Renames NEW, else copies it, and prints the copy's checksum if the host can.
place() {
	[ ! -L "$TO" ] || rm -f "$TO"
	[ ! -d "$TO" ] || { echo "$TO is a directory" >&2 && exit 1; } # mv would go through it
	mv "$NEW" "$TO" 2>/dev/null && exit 0
	has_cat
	# shellcheck disable=SC2015 # if either fails
	cat "$NEW" >"$TO" && chmod "$MODE" "$TO" || {
		rm -f "$TO"
		exit 1
	}
	rm -f "$NEW"
	cksum "$TO" 2>/dev/null
	exit 96
}
