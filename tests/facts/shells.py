"""The real probe, run by a real shell."""

import os
import subprocess
from pathlib import Path

from fleet.facts import probe
from fleet.facts.systems import SYSTEMS

SHELLS = {
    "dash": ("dash", ["dash"]),
    "mksh": ("mksh", ["mksh"]),
    "busybox": ("busybox-static", ["busybox", "ash"]),
    "bash": ("bash", ["bash", "--posix"]),
}
POSIX_SHELLS = {  # with shells that have little or nothing beyond POSIX
    **SHELLS,
    "posh": ("posh", ["posh"]),
    "yash": ("yash", ["yash"]),
}
QNX_SHELLS = {**POSIX_SHELLS, "ksh93": ("ksh93u+m", ["ksh93"])}


def ask(
    shell: list[str],
    home: Path,
    *,
    root: str = "",
    workdir: str | None = None,
    cc: str | None = None,
    path: str = os.environ["PATH"],
) -> str:
    """What this shell answers, in an environment with a home and a value nobody may
    see.
    """
    home.mkdir(exist_ok=True)
    env = {"PATH": path, "HOME": str(home), "SECRET_VALUE": "hunter2"}
    question = probe.render_probe(
        SYSTEMS["linux"].probe, root=root, workdir=workdir, cc=cc
    )
    run = subprocess.run(
        shell, input=question, capture_output=True, env=env, check=False
    )
    answer = probe.extract_answer(run.stdout)
    assert answer is not None, (run.stdout[-500:], run.stderr[-500:])
    return answer
