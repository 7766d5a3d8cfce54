"""`make arm-cores FROM=CLONE`: adds the Arm cores that util-linux names to
fleet/facts/arm_cores.json.

A name that is there stays, since runs are stored with it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

TABLE = Path(__file__).parents[2] / "fleet/facts/arm_cores.json"
_FILE = "sys-utils/lscpu-arm.c"
_PARTS = re.compile(r"struct id_part (\w+)\[\] = \{(.*?)\n\};", re.DOTALL)
_PART = re.compile(r'\{\s*(0x[0-9a-fA-F]+),\s*"([^"]+)"')
_IMPLEMENTER = re.compile(r'\{\s*(0x[0-9a-fA-F]+),\s*(\w+_part),\s*"')
Cores = dict[str, dict[str, str]]


def read_cores(source: str) -> Cores:
    """Read the names of cores by implementer and part from the text of lscpu-arm.c."""
    parts_by_name = dict(_PARTS.findall(source))
    cores: Cores = {}
    for implementer, name in _IMPLEMENTER.findall(source):
        parts = _PART.findall(parts_by_name.get(name, ""))
        if parts:
            named = {_format_number(part): core for part, core in parts}
            cores[_format_number(implementer)] = named
    return cores


def add_cores(cores: Mapping[str, Mapping[str, str]], others: Cores) -> Cores:
    """Return the cores with those of `others` that they lack, sorted by number."""
    merged: Cores = {}
    for implementer in sorted({*cores, *others}, key=_parse_number):
        parts = {**others.get(implementer, {}), **cores.get(implementer, {})}
        numbers = sorted(parts, key=_parse_number)
        merged[implementer] = {part: parts[part] for part in numbers}
    return merged


def _format_number(text: str) -> str:
    return f"{_parse_number(text):#x}"


def _parse_number(text: str) -> int:
    return int(text, 16)


def _ask_git(clone: str, *command: str) -> str:
    called = ["git", "-C", clone, *command]
    return subprocess.run(called, capture_output=True, check=True, text=True).stdout


def main() -> None:
    """Renew the table from the clone that is named."""
    (clone,) = sys.argv[1:] or [""]
    if not clone:
        sys.exit("name a clone of util-linux: make arm-cores FROM=../util-linux")
    table = json.loads(TABLE.read_text())
    source = _ask_git(clone, "show", f"HEAD:{_FILE}")
    version = _ask_git(clone, "log", "-1", "--format=%h of %cs", "--", _FILE).strip()
    table["sources"]["util-linux"] = f"{_FILE}, {version}"
    table["cores"] = add_cores(table["cores"], read_cores(source))
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
