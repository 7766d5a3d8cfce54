"""Steps through loongarch64's products on vectors, since no emulator of Debian 12 knows LASX."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.native import disassembly
from tests.native.targets import LOONGARCH64

Values = NDArray[np.float32]
A, B, C, TILE, STACK, BYTES = 0x1000, 0x20000, 0x40000, 0x60000, 0x70000, 0x80000  # addresses, and their end
ROW_GAP, C_ROW = 64, 128  # bytes


class Machine:
    """Registers and memory, and what each instruction does to them; any other is a KeyError."""

    def __init__(self) -> None:
        self.memory = bytearray(BYTES)
        self.words: dict[str, int] = {"$sp": STACK, "$a0": TILE}
        self.vectors = np.zeros((32, 8), np.float32)

    def run(self, code: list[tuple[int, str]]) -> None:
        """Steps from the first instruction to `ret`."""
        index = {at: i for i, (at, _) in enumerate(code)}
        i = 0
        while code[i][1] != "ret":
            name, _, rest = code[i][1].partition(" ")
            operands = [operand.strip() for operand in rest.split(",")]
            i += 1
            if name not in ("beqz", "bnez"):
                getattr(self, name.replace(".", "_"))(*operands)
            elif (self.words[operands[0]] == 0) == (name == "beqz"):
                i = index[int(operands[1].split()[0], 16)]

    def _at(self, base: str, offset: str) -> int:
        return self.words[base] + int(offset, 0)

    def addi_d(self, to: str, one: str, number: str) -> None:
        self.words[to] = self._at(one, number)

    def add_d(self, to: str, one: str, other: str) -> None:
        self.words[to] = self.words[one] + self.words[other]

    def move(self, to: str, one: str) -> None:
        self.words[to] = self.words[one]

    def ld_d(self, to: str, base: str, offset: str) -> None:
        (self.words[to],) = struct.unpack_from("<Q", self.memory, self._at(base, offset))

    def st_d(self, one: str, base: str, offset: str) -> None:
        struct.pack_into("<Q", self.memory, self._at(base, offset), self.words.get(one, 0))

    def fld_d(self, *_: str) -> None:
        """Nothing: what a function keeps for its caller is not looked at, and a prefetch changes nothing."""

    fst_d = preld = fld_d

    def xvld(self, to: str, base: str, offset: str) -> None:
        self.vectors[_number(to)] = np.frombuffer(self.memory, "<f4", 8, self._at(base, offset))

    def xvst(self, one: str, base: str, offset: str) -> None:
        at = self._at(base, offset)
        self.memory[at : at + 32] = self.vectors[_number(one)].astype("<f4").tobytes()

    def xvldrepl_w(self, to: str, base: str, offset: str) -> None:
        self.vectors[_number(to)] = np.frombuffer(self.memory, "<f4", 1, self._at(base, offset))[0]

    def xvxor_v(self, to: str, one: str, other: str) -> None:
        bits = self.vectors.view(np.uint32)
        bits[_number(to)] = bits[_number(one)] ^ bits[_number(other)]

    def xvfmadd_s(self, to: str, one: str, other: str, added: str) -> None:
        one_by_other = self.vectors[_number(one)] * self.vectors[_number(other)]
        self.vectors[_number(to)] = one_by_other + self.vectors[_number(added)]


def _number(vector: str) -> int:
    return int(vector.removeprefix("$xr"))


def product(binary: Path, symbol: str, a: Values, b: Values, c: Values | None) -> Values:
    """What a loop makes of A (8 rows), B (24 columns), and, if it adds, of C."""
    k = a.shape[1]
    a_row = 4 * k + ROW_GAP
    machine = Machine()
    for row in range(8):
        machine.memory[A + row * a_row : A + row * a_row + 4 * k] = a[row].astype("<f4").tobytes()
        old = b"\xff" * 96 if c is None else c[row].astype("<f4").tobytes()
        machine.memory[C + row * C_ROW : C + row * C_ROW + 96] = old
    machine.memory[B : B + 96 * k] = b.astype("<f4").tobytes()
    tile = (A, a_row, 16, 0, B, C, C_ROW, 1, k // 4, c is not None, 0, 0)  # struct gemm_tile
    struct.pack_into("<12Q", machine.memory, TILE, *tile)
    machine.run(disassembly.instructions(LOONGARCH64, binary, symbol))
    return np.array([np.frombuffer(machine.memory, "<f4", 24, C + row * C_ROW) for row in range(8)])
