"""The probe's questions and the frame of their answers; pure. `gather` asks, `linux` and `qnx` read.

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
_LINUX = ("load.sh", "probe.sh")
_QNX = ("probe_qnx.sh",)
_COMMENT = re.compile(r"^#.*|\s+# [^'\"]*$")
_GOES_ON = re.compile(r"(?:^|[\s;])(?:then|do|else|in|\{|\||\|\||&&|;;)$")
_MAY_BE_A_PATTERN = ("(", ")")
_PARAMETER = re.compile(r'(?:"[^"]*"?|[^\s"])+')  # of the kernel's command line: quotes hold blanks together
# What names a secret, up to its value. Not iommu.passthrough, bypass, keymap, keytable, keyboard, hotkey and
# usbcore.authorized_default.
_SECRET = re.compile(
    r"(?:(?<!by)pass(?!through)|secret|token|credential|(?<!hot)key(?!map|table|board)|psk|pwd"
    r"|auth(?!orized_default))[^=]*=",
    re.IGNORECASE,
)


def script(
    *,
    workdir: str | None = None,
    cc: str | None = None,
    root: str = "",
    read_only: bool = False,
    of_qnx: bool = False,
) -> bytes:
    """The whole probe as sh text: what to ask a Linux host, or `of_qnx`. The wrong host answers `is_other`.

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
    head = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
    return f"{head}\n{_text(_QNX if of_qnx else _LINUX)}\nmain </dev/null 2>/dev/null\n".encode()


def load_script() -> bytes:
    """The little probe that only asks how busy and warm the host is."""
    return f"MARK={shlex.quote(MARK)} ROOT=\n{_text(_LOAD)}\nload_only </dev/null 2>/dev/null\n".encode()


@cache
def _text(names: Sequence[str]) -> str:
    """The scripts without comments and indentation, in few lines, since a host's shell reads byte by byte.

    Behind what may be a pattern of a `case` the line ends, since no semicolon may follow it.
    """
    texts = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names]
    lines = [_COMMENT.sub("", line.lstrip("\t")) for text in texts for line in text.splitlines()]
    joined = ""
    for line in filter(None, lines):
        if joined.endswith("\\"):
            joined = joined[:-1]
        elif joined.endswith(_MAY_BE_A_PATTERN):
            joined += "\n"
        elif joined:
            joined += " " if _GOES_ON.search(joined[-8:]) or line.startswith(";;") else ";"
        joined += line
    return joined


def answer(output: bytes) -> str | None:
    """The probe's own part of what the host printed, private values hidden; None if it is not whole."""
    text = output.decode("utf-8", "replace").replace("\r\n", "\n")
    found = re.search(rf"{MARK} begin$.*?^{MARK} end$", text, re.MULTILINE | re.DOTALL)
    return _private(found[0]) if found else None


def is_other(text: str) -> bool:
    """Whether an answer only says that the host runs another OS than the question was for."""
    return f"\n{MARK} other\n" in text


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
        r"^proc/cmdline:.*$", lambda line: _PARAMETER.sub(_hidden, line[0]), text, flags=re.MULTILINE
    )


def _hidden(parameter: re.Match[str]) -> str:
    """A parameter without what it tells of a secret: `cifsroot=//nas,password=…`."""
    named = _SECRET.search(parameter[0])
    return f"{parameter[0][: named.end()]}…" if named else parameter[0]
