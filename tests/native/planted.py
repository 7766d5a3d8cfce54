"""Faults planted in a finished binary, which the agent's own checks have to find."""

import subprocess
from pathlib import Path

from tests import needs
from tests.native import disassembly
from tests.native.targets import Target


def wrong_sum(target: Target, binary: Path, symbol: str, adding: str, to: Path) -> Path:
    """A copy of `binary` in which one instruction of a loop adds to its neighbour's sum.

    adding: how the instructions that add to sums begin; the first two take equally many bytes.
    """
    code = disassembly.instructions(target, binary, symbol)
    ends = (at for at, _ in code[1:])
    first, second = [
        (at, end) for (at, text), end in zip(code, ends, strict=False) if text.startswith(adding)
    ][:2]
    assert first[1] - first[0] == second[1] - second[0]
    shift = _offset(target, binary, first[0]) - first[0]
    data = bytearray(binary.read_bytes())
    data[first[0] + shift : first[1] + shift] = data[second[0] + shift : second[1] + shift]
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
