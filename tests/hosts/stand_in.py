"""A client program with the habits of others: `python -m tests.hosts.stand_in HABIT...
-- WORD...`.

keeps-eof: end-of-file on its stdin never reaches what it runs, as with old kubectl and
docker clients.
leaves: what it runs outlives it, as with kubectl, docker and a killed srun.
banner: prints on both outputs before anything else.
terminal: runs it on a pseudo-terminal, which echoes, adds CR and joins both outputs, as
with `-t`.
returns: adds CR before each LF of the output, and nothing else.
labels: puts a number before each line of the output, as `srun --label` does. no-input:
passes no stdin on, as `docker exec` without -i.
flips: changes "a lot of data" that it passes on.
dies: ends with exit code 0 after the fifth line of output, as a cut stream of kubectl's
does.
"""

import os
import pty
import signal
import subprocess
import sys
import threading


def main(arguments: list[str]) -> int:
    """Run the words and pass on all three pipes, by these habits."""
    separator = arguments.index("--")
    habits = set(arguments[:separator])
    words = arguments[separator + 1 :]
    if "banner" in habits:
        os.write(1, b"Welcome to board!\r\nfleet-0123456789abcdef 0\n")
        os.write(2, b'Defaulted container "bench" out of: bench, init\n')
    if "terminal" in habits:
        return os.waitstatus_to_exitcode(pty.spawn(words))
    source, pipe = os.pipe()
    child = subprocess.Popen(
        words,
        stdin=source,
        stdout=subprocess.PIPE if {"dies", "labels", "returns"} & habits else None,
        start_new_session=True,
    )
    os.close(source)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # podman's exit code for that
    if "leaves" in habits:  # somebody else holds the pipe open, whatever becomes of us
        held = f"exec sleep 20 <&- >&- 2>&- {pipe}>&{pipe}"
        subprocess.Popen(["sh", "-c", held], pass_fds=[pipe], start_new_session=True)
    if "no-input" in habits:
        os.close(pipe)
    else:
        threading.Thread(target=feed, args=(pipe, habits), daemon=True).start()
    if child.stdout and "dies" not in habits:
        for line in child.stdout:
            os.write(
                1, b"0: " + line if "labels" in habits else line.replace(b"\n", b"\r\n")
            )
    elif child.stdout:
        for _ in range(5):
            os.write(1, child.stdout.readline())
        os._exit(0)
    return child.wait()


def feed(pipe: int, habits: set[str]) -> None:
    """Copy our stdin to the pipe."""
    while data := os.read(0, 1 << 16):
        if "flips" in habits:
            data = data.replace(b"a lot of data", b"a lot of date")
        while data:
            data = data[os.write(pipe, data) :]
    if "keeps-eof" not in habits:
        os.close(pipe)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
