# Prints `works COMMAND` for the first compiler of "$@" whose program runs, or fails. WORKDIR was set before.

umask 077 # mkdir makes a folder of our own or fails: nobody else's link is followed
scratch=fleet-proof-$$
cd "$WORKDIR" && mkdir "$scratch" && cd "$scratch" || exit 1
trap 'cd .. && rm -rf "$scratch"' 0
# The sources are unpacked here.
for command; do
	$command -o proof proof.c </dev/null >&2 && [ -f proof ] && ./proof </dev/null >&2 &&
		echo "works $command" && exit 0
done
exit 1
