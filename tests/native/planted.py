"""Faults planted in a finished binary, which the agent's own checks have to find."""

import re
import subprocess
from pathlib import Path

from tests import needs
from tests.native import disassembly
from tests.native.targets import Target


def neighbour_twice(
    target: Target, binary: Path, symbol: str, start: str, to: Path
) -> Path:
    """Copy `binary`, with the second of two equally long instructions of a loop in
    place of the first.
    """
    code = disassembly.instructions(target, binary, symbol)
    ends = (address for address, _ in code[1:])
    first, second = [
        (address, end)
        for (address, text), end in zip(code, ends, strict=False)
        if text.startswith(start)
    ][:2]
    assert first[1] - first[0] == second[1] - second[0]
    shift = _offset(binary, first[0]) - first[0]
    data = bytearray(binary.read_bytes())
    data[first[0] + shift : first[1] + shift] = data[
        second[0] + shift : second[1] + shift
    ]
    to.write_bytes(data)
    to.chmod(0o755)
    return to


def _offset(binary: Path, address: int) -> int:
    """Where in the file what lies at this address of the program is."""
    program = needs.program("readelf", "binutils")
    done = subprocess.run(
        [program, "-SW", str(binary)], capture_output=True, text=True, check=True
    )
    section = re.search(r" \.text +PROGBITS +([0-9a-f]+) ([0-9a-f]+) ", done.stdout)
    assert section
    return int(section[2], 16) + address - int(section[1], 16)
