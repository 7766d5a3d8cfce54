"""Renders the probe's scripts and splits their answers at marker lines. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from fleet.facts.memory import keep_memory_only
from fleet.remote.shell import assign_variables

MARK = "@fleet-probe-7c1e9b3a@"
Sections = dict[str, list[str]]
Files = Mapping[str, str]  # by path without the first /

_COMMENT = re.compile(r"^#.*|\s+# [^'\"]*$")
_MACHINE_ID = re.compile(r"(?<=^etc/machine-id:)\S+$", re.MULTILINE)
_COMMAND_LINE = re.compile(r"^proc/cmdline:.*$", re.MULTILINE)
# of the kernel's command line: quotes hold blanks together
_PARAMETER = re.compile(r'(?:"[^"]*"?|[^\s"])+')
_SMBIOS = re.compile(
    rf"^({MARK} smbios)$(.*?)(?=^{MARK} |\Z)", re.MULTILINE | re.DOTALL
)
# What names a secret, and its value. Not iommu.passthrough, bypass, keymap, keytable,
# keyboard, hotkey and usbcore.authorized_default.
_SECRET = re.compile(
    r"((?:(?<!by)pass(?!through)|secret|token|credential|(?<!hot)key(?!map|table|board)|psk|pwd"
    r"|auth(?!orized_default))[^=]*=).*",
    re.IGNORECASE,
)


def render_probe(
    names: Sequence[str],  # of the OS's scripts, which are files beside this one
    *,
    workdir: str | None = None,  # the only place to try; None tries the usual ones
    cc: str | None = None,  # a compiler to look for first
    root: str = "",  # where /proc, /sys and /etc are; for tests
    read_only: bool = False,  # write nothing
) -> bytes:
    """Return an OS's probe as sh text; a host of another OS answers with a section
    `other`. The text sets variables, defines functions and calls the function `main`.
    """
    settings = {"MARK": MARK, "PLACES": workdir or "", "CC": cc or "", "ROOT": root}
    settings["READ_ONLY"] = "1" if read_only else ""
    return (
        f"{assign_variables(settings)}\n{_minify_scripts(names)}\nmain </dev/null"
        " 2>/dev/null\n".encode()
    )


def render_load_probe(names: Sequence[str], function: str = "load_only") -> bytes:
    """Return sh text that defines the functions of the scripts `names` and calls
    `function`, which is load_only or usage_only; empty without scripts.
    """
    if not names:
        return b""
    text = _minify_scripts(names)
    set_mark = assign_variables({"MARK": MARK})
    # with an empty ROOT, the scripts read the files of the host itself
    return f"{set_mark} ROOT=\n{text}\n{function} </dev/null 2>/dev/null\n".encode()


@cache
def _minify_scripts(names: Sequence[str]) -> str:
    """Join the scripts without comments and indentation, since a host's shell reads
    byte by byte.
    """
    minified: list[str] = []
    for name in names:
        script = Path(__file__).with_name(name)
        text = script.read_text(encoding="utf-8")
        for line in text.splitlines():
            command = _COMMENT.sub("", line.lstrip("\t"))
            if command:
                minified.append(command)
    return "\n".join(minified)


def extract_answer(output: bytes) -> str | None:
    """Return the probe's part of a host's output, with private values hidden; None if
    it is not complete.
    """
    text = output.decode("utf-8", "replace").replace("\r\n", "\n")
    match = re.search(rf"{MARK} begin$.*?^{MARK} end$", text, re.MULTILINE | re.DOTALL)
    return _hide_private(match[0]) if match else None


def find_value(answer_sections: Sections, key: str) -> str:
    """Return the value of a line `KEY VALUE` of the section `system`; empty if there is
    none.
    """
    for line in answer_sections.get("system", []):
        name, _, value = line.partition(" ")
        if name == key:
            return value.strip()
    return ""


@lru_cache(maxsize=64)  # read several times for each host
def split_sections(text: str) -> Sections:
    """Return an answer's lines by section. A line of MARK and a section's name stands
    before each section; lines before the first such line are dropped. The result is
    cached; do not change it.
    """
    result: Sections = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith(f"{MARK} "):
            lines = result.setdefault(line[len(MARK) + 1 :], [])
        else:
            lines.append(line)
    return result


def _hide_private(text: str) -> str:
    """Hash the machine ID; remove secrets from the kernel's command line and serial
    numbers from SMBIOS.
    """
    text = _MACHINE_ID.sub(_hash_match, text)
    text = _SMBIOS.sub(_hide_serial_numbers, text)
    return _COMMAND_LINE.sub(_hide_secrets, text)


def _hash_match(machine_id: re.Match[str]) -> str:
    return hashlib.sha256(machine_id[0].encode()).hexdigest()


def _hide_serial_numbers(section: re.Match[str]) -> str:
    marker, lines = section.groups()
    return "\n".join([marker, *keep_memory_only(lines.split("\n")), ""])


def _hide_secrets(command_line: re.Match[str]) -> str:
    return _PARAMETER.sub(
        lambda parameter: _SECRET.sub(r"\1…", parameter[0]), command_line[0]
    )
