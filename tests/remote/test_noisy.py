"""Whatever login scripts print, and whichever shell runs them, an answer is what the
command printed.
"""

from pathlib import Path

import pytest

from fleet.model import Host, Via
from fleet.remote.connect import connect
from tests import needs

SHELLS = {
    "dash": "dash",
    "bash": "bash",
    "busybox sh": "busybox-static",
    "mksh": "mksh",
    "posh": "posh",
    "yash": "yash",
    "ksh93": "ksh93u+m",
    "csh": "csh",
    "tcsh": "tcsh",
    "fish": "fish",
    "bash --posix": "bash",
    "sh": "dash",
}
NOISES = {
    "a line": "echo Welcome",
    "no newline": "printf 'no newline:'",
    "many lines": "seq 900; seq 900 >&2",
    "a record": (
        """echo '{{"record":"hello","protocol":1}}'"""
    ),  # a doubled brace is one
    "marks of others": (
        r"printf '\nfleet-0123456789abcdef :\nfleet-0123456789abcdef 0\n'; echo >&2"
    ),
    "a late errand": "(sleep 0.2; :) & printf 'tput: no TERM' >&2",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_an_answer_holds_nothing_that_a_login_script_printed(
    shell: str, tmp_path: Path
) -> None:
    needs.program(shell.split(maxsplit=1)[0], SHELLS[shell])
    for noise in NOISES.values():
        login = ("sh", "-c", f'{noise}; exec {shell} -c "$1"', "sh", "{shell}")
        with connect(
            Host("board", "board", via=Via.COMMAND, command=login)
        ) as connection:
            for _ in range(2):
                done = connection.run("echo answer; echo told >&2; exit 3")
                assert done.exit_code == 3
                assert done.stdout == b"answer\n"
                assert done.stderr == b"told\n"
                done = connection.run("cat; echo told >&2", stdin=b"fed")
                assert done.exit_code == 0
                assert done.stdout == b"fed"
                assert done.stderr == b"told\n"
            done = connection.put(b"content", str(tmp_path / "file"))
            assert done.exit_code == 0
            assert done.stdout == b""
            assert done.stderr == b""
            with connection.stream(
                "echo one; echo; echo two; echo told >&2", idle_timeout_s=60
            ) as stream:
                assert list(stream) == [b"one", b"", b"two"]
            assert stream.exit_code == 0
            assert stream.stderr == b"told\n"
