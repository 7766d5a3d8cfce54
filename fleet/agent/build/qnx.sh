# Compiles an agent on a build host with QNX's SDP: read by /bin/sh from stdin, prints MARK, then the binary.
# Leaves nothing behind. "$@" is where to look for the SDP. SDP (empty: the usual places, and what QNX_HOST and
# QNX_TARGET name), RELEASE, HOST, NAMES, VARIANT, COMPILE and MARK were set before.

umask 077

fail() {
	echo "$1" >&2
	exit 1
}

fits() {
	[ -x "$1/usr/bin/qcc" ] && [ -d "$2" ] || return 1
	case " $NAMES " in *" ${2##*/} "*) QNX_HOST=$1 QNX_TARGET=$2 ;; *) return 1 ;; esac
}

find_sdp() {
	looked=
	if [ -z "$SDP" ]; then
		fits "${QNX_HOST:-}" "${QNX_TARGET:-}" && return
		looked=' QNX_HOST and QNX_TARGET;'
	fi
	for home; do
		for name in $NAMES; do fits "$home/$HOST" "$home/target/$name" && return; done
		looked="$looked $home"
	done
	fail "no SDP for QNX $RELEASE there. Looked at$looked"
}

find_sdp "$@"
export QNX_HOST QNX_TARGET PATH="$QNX_HOST/usr/bin:$PATH"
export QNX_CONFIGURATION_EXCLUSIVE="${QNX_CONFIGURATION_EXCLUSIVE:-$HOME/.qnx}"
listed=$(qcc -V 2>&1 </dev/null)
case $listed in *"$VARIANT"*) ;; *) fail "qcc -V does not list $VARIANT: $listed" ;; esac
folder=$(mktemp -d "${TMPDIR:-/tmp}/fleet-build-XXXXXX") || exit 1
trap 'cd / && rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT PIPE TERM
cd "$folder" || exit 1
# The sources are unpacked here.
eval "LC_ALL=C $COMPILE" </dev/null >&2 || exit
echo "$MARK" && cat agent
