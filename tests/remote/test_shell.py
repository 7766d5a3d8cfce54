"""Whatever the login shell is, the command reaches sh as it was written."""

import shlex
import subprocess

import pytest

from fleet.remote.shell import remote_command
from tests import needs
from tests.facts.shells import QNX_SHELLS

COMMAND = "cat <<'MARK'\nit's a \"test\" \\ \\n ! $x `y`\nMARK\ncat"
ENV = {"ODD": 'it\'s \\ ! "$HOME"\n%', "PLAIN": "1"}
SHELLS = {
    "sh": "dash",
    "bash": "bash",
    "dash": "dash",
    "mksh": "mksh",
    "busybox": "busybox-static",
    "tcsh": "tcsh",
    "fish": "fish",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_login_shell_passes_the_command_on_unchanged(shell, tmp_path):
    needs.program(shell, SHELLS[shell])
    text, head = remote_command(f'printf %s "$ODD$PLAIN"; {COMMAND}; exit 7', ENV)
    program = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        [*program, "-c", text], input=head + b"the rest", capture_output=True, cwd=tmp_path, check=False
    )
    assert done.stdout.decode() == ENV["ODD"] + "1" + 'it\'s a "test" \\ \\n ! $x `y`\nthe rest'
    assert (done.returncode, done.stderr) == (7, b"")


@pytest.mark.parametrize("shell", QNX_SHELLS)
def test_whatever_bin_sh_is_it_loads_the_command_by_its_own_means(shell, tmp_path):
    """A QNX host's sh is a kind of ksh, with no program at hand until the command has set a PATH."""
    package, (program, *arguments) = QNX_SHELLS[shell]
    text, head = remote_command('while read -r line; do echo "$PLAIN|$line"; done; exit 7', ENV)
    sh = shlex.join([needs.program(program, package), *arguments])
    done = subprocess.run(
        ["/bin/sh", "-c", text.replace("/bin/sh", sh)],
        input=head + b"the\nrest\n",
        capture_output=True,
        env={"PATH": str(tmp_path)},
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.decode() == "1|the\n1|rest\n"
    assert (done.returncode, done.stderr) == (7, b"")


def test_a_command_cut_on_its_way_does_not_run(tmp_path):
    text, head = remote_command("touch ran; touch ran-too", {})
    for length in range(len(head)):
        done = subprocess.run(["sh", "-c", text], input=head[:length], cwd=tmp_path, check=False)
        assert done.returncode == 126
    assert list(tmp_path.iterdir()) == []
