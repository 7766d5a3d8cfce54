"""What the widest known cores do in a cycle: bytes of L1 by variant and vendor, operations by variant.

A limit is that of the widest core of a vendor, of all vendors where the CPU's name does not tell; a variant
without an entry has no known limit. Sources: Intel 64 and IA-32 Architectures Optimization Reference Manual
(248966), cache parameters of Ice Lake and Golden Cove (2 loads of 64 bytes or 3 of 32, 1 store of 64 or 2 of
32); AMD Software Optimization Guides for Zen 2 to 5 (56305, 56665, 57647, 58455; 2 vector loads, 1 store of a
line's width or 2 narrower ones). Arm publishes pipelines per core (Software Optimization Guides of Neoverse
and Cortex-X, up to 4 loads and 2 stores of 16 bytes); twice as many are allowed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Ports:
    """Bytes that a core loads and stores in a cycle, at most."""

    load: int
    store: int

    def bytes_of(self, operation: str) -> int | None:
        """Bytes moved in a cycle, as `bandwidth` counts them; None where no limit is known."""
        match operation:
            case "read":
                return self.load
            case "write" | "nt":
                return self.store
            case "copy" | "ntcopy" | "modify":  # each byte is loaded and stored, and counts twice
                return 2 * min(self.load, self.store)
            case _:  # `zero` has instructions of its own
                return None


_WIDE = Ports(128, 64)
_INTEL = MappingProxyType({"avx512": _WIDE, "avx": Ports(96, 64), "sse2": Ports(48, 32)})
_AMD = MappingProxyType({"avx512": _WIDE, "avx": Ports(64, 64), "sse2": Ports(32, 32)})
_ANY = MappingProxyType(
    {
        **_INTEL,
        **dict.fromkeys(("prefetch", "streams", "tile", "tileblock"), _WIDE),
        "sse2": Ports(64, 32),
        "neon": Ports(128, 64),
    }
)

OPERATIONS: Mapping[str, int] = MappingProxyType(
    {
        "amx-bf16": 1024,
        "amx-int8": 2048,
        "avx512-bf16": 128,
        "avx512-vnni": 256,
        "avx512": 64,
        "avx2": 32,
        "bfmmla": 128,
        "i8mm": 256,
        "neon": 32,
        "sse2": 16,  # two pipes multiply and two others add: AMD 56665, 2.11
    }
)
"""Operations that a core does in a cycle with the instructions of a variant of `gemm`, at most."""


def ports(variant: str, cpu_model: str | None) -> Ports | None:
    """The ports that a variant of `bandwidth` can use on a CPU of this name; None: no limit is known."""
    name = (cpu_model or "").lower()
    vendor = _INTEL if "intel" in name else _AMD if "amd" in name else _ANY
    return vendor.get(variant) or _ANY.get(variant)
