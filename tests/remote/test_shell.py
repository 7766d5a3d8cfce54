"""Whatever the login shell is, the command reaches sh as it was written."""

import shlex
import subprocess

import pytest

from fleet.remote.shell import LOADER, new_mark, render_command
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


def remote_command(command, env):
    mark = new_mark()
    return mark, LOADER + mark, render_command(command, env, mark, last=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_login_shell_passes_the_command_on_unchanged(shell, tmp_path):
    needs.program(shell, SHELLS[shell])
    mark, text, head = remote_command(f'printf %s "$ODD$PLAIN"; {COMMAND}; exit 7', ENV)
    program = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        [*program, "-c", text],
        input=head + b"the rest",
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    printed = ENV["ODD"] + "1" + 'it\'s a "test" \\ \\n ! $x `y`\nthe rest'
    assert done.stdout.decode() == f"\n{mark} :\n{printed}\n{mark} 7\n"
    assert done.returncode == 7
    assert done.stderr.decode() == f"\n{mark} :\n\n{mark}\n"


@pytest.mark.parametrize("shell", QNX_SHELLS)
def test_whatever_bin_sh_is_it_loads_the_command_by_its_own_means(shell, tmp_path):
    """A QNX host's sh is a kind of ksh, with no program at hand until the command has
    set a PATH.
    """
    package, (program, *arguments) = QNX_SHELLS[shell]
    mark, text, head = remote_command(
        'while read -r line; do echo "$PLAIN|$line"; done; exit 7', ENV
    )
    sh = shlex.join([needs.program(program, package), *arguments])
    done = subprocess.run(
        ["/bin/sh", "-c", text.replace("/bin/sh", sh)],
        input=head + b"the\nrest\n",
        capture_output=True,
        env={"PATH": str(tmp_path)},
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.decode() == f"\n{mark} :\n1|the\n1|rest\n\n{mark} 7\n"
    assert done.returncode == 7
    assert done.stderr.decode() == f"\n{mark} :\n\n{mark}\n"


@pytest.mark.parametrize("last", [False, True])
def test_a_command_cut_on_its_way_does_not_run(tmp_path, last):
    mark = new_mark()
    text = LOADER + mark
    head = render_command("touch ran; touch ran-too", {}, mark, last=last)
    for length in range(len(head)):
        done = subprocess.run(
            ["sh", "-c", text], input=head[:length], cwd=tmp_path, check=False
        )
        assert done.returncode == 126
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_questions_are_answered_in_turn_and_the_last_command_gets_the_rest(
    shell, tmp_path
):
    needs.program(shell, SHELLS[shell])
    mark = new_mark()
    sent = [
        render_command('printf %s "$PLAIN"; cat; echo told >&2; exit 3', ENV, mark),
        render_command('cd /; lost=1; echo "${PLAIN-unset}"', {}, mark),
        render_command('pwd; echo "${lost-unset}"; cat; exit 7', {}, mark, last=True),
    ]
    program = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        [*program, "-c", LOADER + mark],
        input=b"".join(sent) + b"the rest",
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    begin = f"\n{mark} :\n"
    assert (
        done.stdout.decode() == f"{begin}1\n{mark} 3\n{begin}unset\n\n{mark}"
        f" 0\n{begin}{tmp_path}\nunset\nthe rest\n{mark} 7\n"
    )
    assert done.stderr.decode() == f"{begin}told\n\n{mark}\n" + 2 * f"{begin}\n{mark}\n"
    assert done.returncode == 7


@pytest.mark.parametrize("shell", QNX_SHELLS)
def test_whatever_bin_sh_is_it_answers_questions_by_its_own_means(shell, tmp_path):
    package, (program, *arguments) = QNX_SHELLS[shell]
    mark = new_mark()
    sent = render_command("echo one; exit 3", {}, mark) + render_command(
        "read -r line; echo $?", {}, mark
    )
    sh = shlex.join([needs.program(program, package), *arguments])
    done = subprocess.run(
        ["/bin/sh", "-c", (LOADER + mark).replace("/bin/sh", sh)],
        input=sent,
        capture_output=True,
        env={"PATH": str(tmp_path)},
        cwd=tmp_path,
        check=False,
    )
    begin = f"\n{mark} :\n"
    assert done.stdout.decode() == f"{begin}one\n\n{mark} 3\n{begin}1\n\n{mark} 0\n"
    assert done.stderr.decode() == 2 * f"{begin}\n{mark}\n"
