"""Faults planted in a finished binary, which the agent's own checks have to find."""

import subprocess
from pathlib import Path

from tests import needs
from tests.native import disassembly
from tests.native.targets import Target


def wrong_sum(target: Target, binary: Path, symbol: str, multiply: str, to: Path) -> Path:
    """A copy of `binary` in which one multiplication of a loop adds to its neighbour's sum.

    multiply: how the instruction begins; the function has at least two of one length in a row.
    """
    code = disassembly.instructions(target, binary, symbol)
    first, second, end = next(
        (a, b, c)
        for (a, one), (b, other), (c, _) in zip(code, code[1:], code[2:], strict=False)
        if one.startswith(multiply) and other.startswith(multiply)
    )
    assert second - first == end - second
    offset = _offset(target, binary, first)
    data = bytearray(binary.read_bytes())
    data[offset : offset + second - first] = data[offset + second - first : offset + end - first]
    to.write_bytes(data)
    to.chmod(0o755)
    return to


def _offset(target: Target, binary: Path, address: int) -> int:
    """Where in the file what lies at this address of the program is."""
    listing = subprocess.run(
        [needs.program(*target.objdump), "-h", str(binary)], capture_output=True, text=True, check=True
    ).stdout
    _, _, _, start, _, offset, _ = next(
        words for words in map(str.split, listing.splitlines()) if words[1:2] == [".text"]
    )
    return int(offset, 16) + address - int(start, 16)
