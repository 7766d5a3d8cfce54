# Compiles an agent on the host itself: read by /bin/sh from stdin, needs `sh` and `cat` alone, leaves nothing else.
# Exit code 93: the compiler failed. WORKDIR, BUILD, NAME, COMPILER, HASH, REST and PLACED were set before.

umask 077
scratch=build-$BUILD-$$
cd "$WORKDIR" && mkdir "$scratch" && cd "$scratch" || exit 1
trap 'cd .. && rm -rf "$scratch"' 0
trap 'exit 1' HUP INT PIPE TERM
# The sources are unpacked here.
LC_ALL=C TMPDIR=$PWD
export LC_ALL TMPDIR

# Runs the compiler, $1, until it ends or nobody listens any more, and stdin ends. With `setsid` it has a
# group of its own and $2 is 0, which ends all of it from within. Its number could not be used safely: some
# versions of `kill` read -1234 as -1, every process there is. Without `setsid` what compiles ends by itself.
# shellcheck disable=SC2016 # it is run by another shell
compile='
(eval "$1") </dev/null >&2 3<&- & cc=$!
{ read -r end <&3; kill -9 ${2:-$cc}; } & watch=$!
wait $cc; code=$?
kill $watch 2>/dev/null
exit $code'

# A function, read to its end before stdin is the watch's.
build() {
	mkdir 0 1 || exit 1
	set -- "$compile" sh "$COMPILER"
	if command -v setsid >/dev/null; then setsid /bin/sh -c "$@" 0; else /bin/sh -c "$@"; fi 3<&0 &&
		[ -f agent ] || exit 93
	# shellcheck disable=SC2046 # the hash is the first word; not everywhere is there one
	set -- $(sha256sum agent 2>/dev/null)
	# shellcheck disable=SC2254,SC2295 # patterns
	case $1 in $HASH) NAME=$NAME-${1%$REST} ;; esac
	[ ! -L "../$NAME" ] || rm -f "../$NAME"
	[ ! -d "../$NAME" ] && mv -f agent "../$NAME" || exit 1
	echo
	echo "$PLACED$NAME"
	exit 0
}
build
