"""The probe's scripts and the frame of their answers: lines between marker lines. Pure."""

import hashlib
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

from fleet.remote.shell import assigned

MARK = "@fleet-probe-7c1e9b3a@"
Sections = dict[str, list[str]]

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
    names: Sequence[str],
    *,
    workdir: str | None = None,
    cc: str | None = None,
    root: str = "",
    read_only: bool = False,
) -> bytes:
    """The whole probe of an OS as sh text; a host of another OS answers with a section `other`.

    names: its scripts, files beside this one. workdir: the only place to try; None tries the usual ones.
    cc: a compiler to look for first. root: where /proc, /sys and /etc lie; a test's own tree. read_only: make
    and write nothing.
    """
    settings = {
        "MARK": MARK,
        "PLACES": workdir or "",
        "CC": cc or "",
        "ROOT": root,
        "READ_ONLY": "1" if read_only else "",
    }
    return f"{assigned(settings)}\n{_text(names)}\nmain </dev/null 2>/dev/null\n".encode()


def load_script(names: Sequence[str]) -> bytes:
    """The small probe that only asks how busy and warm the host is; empty for no scripts."""
    if not names:
        return b""
    return f"{assigned({'MARK': MARK})} ROOT=\n{_text(names)}\nload_only </dev/null 2>/dev/null\n".encode()


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


def value(sections: Sections, key: str) -> str:
    """The value of a line `KEY VALUE` of the section `system`; empty where there is none."""
    lines = (line.partition(" ") for line in sections.get("system", []))
    return next((found.strip() for name, _, found in lines if name == key), "")


@lru_cache(maxsize=64)  # read several times for each host
def sections(text: str) -> Sections:
    """Split an answer at its marker lines: the lines of each section by its name. Not to be changed."""
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
    """A parameter without the value of a secret: `cifsroot=//nas,password=…`."""
    named = _SECRET.search(parameter[0])
    return f"{parameter[0][: named.end()]}…" if named else parameter[0]
