"""The probe's question and the frame of its answer; pure. `gather` sends it, `linux` and `qnx` read it.

The answer is lines between marker lines, so that whatever a login shell prints around it is skipped.
"""

import hashlib
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

MARK = "@fleet-probe-7c1e9b3a@"
Sections = dict[str, list[str]]

_LOAD = ("load.sh",)
_ALL = ("load.sh", "probe.sh", "probe_qnx.sh")
_SECRET_WORD = re.compile(r"([^\s=]*(?:pass|secret|token|credential|key)[^\s=]*=)\S+", re.IGNORECASE)


def script(
    *, workdir: str | None = None, cc: str | None = None, root: str = "", read_only: bool = False
) -> bytes:
    """The whole probe as sh text.

    workdir: the only place to try; None tries the usual ones. cc: a compiler to look for first.
    root: where /proc, /sys and /etc lie; a test's own tree. read_only: make and write nothing.
    """
    settings = {
        "MARK": MARK,
        "PLACES": workdir or "",
        "CC": cc or "",
        "ROOT": root,
        "READ_ONLY": "1" if read_only else "",
    }
    head = "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())
    return f"{head}{_text(_ALL)}\nmain </dev/null 2>/dev/null\n".encode()


def load_script() -> bytes:
    """The little probe that only asks how busy and warm the host is."""
    return f"MARK={shlex.quote(MARK)} ROOT=\n{_text(_LOAD)}\nload_only </dev/null 2>/dev/null\n".encode()


@cache
def _text(names: Sequence[str]) -> str:
    """The scripts without comments and indentation, since a shell reads a pipe byte by byte."""
    texts = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names]
    lines = [line.lstrip("\t") for text in texts for line in text.splitlines()]
    kept = [line for line in lines if line and (not line.startswith("# ") or "shellcheck" in line)]
    return "\n".join(kept)


def answer(output: bytes) -> str | None:
    """The probe's own part of what the host printed, private values hidden; None if it is not whole."""
    text = output.decode("utf-8", "replace").replace("\r\n", "\n")
    found = re.search(rf"{MARK} begin$.*?^{MARK} end$", text, re.MULTILINE | re.DOTALL)
    return _private(found[0]) if found else None


def sections(text: str) -> Sections:
    """Split an answer at its marker lines: the lines of each section by its name."""
    result: Sections = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith(f"{MARK} "):
            lines = result.setdefault(line[len(MARK) + 1 :], [])
        else:
            lines.append(line)
    return result


def _private(text: str) -> str:
    """Put the machine id's SHA-256 in its place, and "…" for secrets on the kernel's command line."""

    def hashed(found: re.Match[str]) -> str:
        return f"{found[1]}{hashlib.sha256(found[2].encode()).hexdigest()}"

    text = re.sub(r"^(etc/machine-id:)(\S+)$", hashed, text, flags=re.MULTILINE)
    return re.sub(
        r"^proc/cmdline:.*$", lambda line: _SECRET_WORD.sub(r"\1…", line[0]), text, flags=re.MULTILINE
    )
