"""List what cores can do in a cycle (bytes of L1, operations by variant), by vendor,
family and model.

An unlisted model has the limits of the widest core of its vendor; an unknown vendor,
those of the widest core of all. A variant without an entry has no known limit.

Sources: Intel 64 and IA-32 Architectures Optimization Reference Manual (248966), cache
parameters of Skylake Server (model 85), Ice Lake (106, 108: 2 loads of 64 bytes or
narrower, 1 store of 64 or 2 of 32) and Golden Cove (3 loads of 32); AMD Software
Optimization Guides for Zen 2 to 5 (56305, 56665, 57647, 58455): Zen 2 to 4 load 2
vectors and store 1 in a cycle, of 32 bytes at most, and do a vector of 64 bytes in
halves. Arm publishes pipelines per core (Software Optimization Guides of Neoverse and
Cortex-X, up to 4 loads and 2 stores of 16 bytes, of which twice as many are allowed
here): Neoverse N1 and N2 (0xd0c, 0xd49) have 2 for vectors, V1 and V2 (0xd40, 0xd4f) 4;
others are allowed 6, which Arm announced for the Cortex-X925 (2024).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# fp32 operations of two 32-byte vectors in a cycle: of 16 numbers, to multiply and add
_AVX2_FP32 = 2 * (2 * 32 // 4)


class Ports(NamedTuple):
    """The most bytes that a core loads and stores in a cycle."""

    load: int
    store: int

    def bytes_per_cycle(self, operation: str) -> int | None:
        """Return the most bytes that an operation moves in a cycle, as the benchmark
        `bandwidth` counts them; None for an operation without a known limit.
        """
        match operation:
            case "read":
                return self.load
            case "write" | "nt":
                return self.store
            case "copy" | "ntcopy" | "modify":
                # each byte is loaded and stored, and counts twice
                return 2 * min(self.load, self.store)
            case _:
                return None


class Core(NamedTuple):
    """The limits of a core per cycle, by variant. ports: for `bandwidth`. operations:
    for `gemm`.
    """

    ports: Mapping[str, Ports]
    operations: Mapping[str, int]

    def find_bytes_per_cycle(self, variant: str, operation: str) -> int | None:
        """Find the most bytes that an operation of a variant moves in a cycle; None if
        no limit is known.
        """
        ports = self.ports.get(variant)
        if ports is None:
            return None
        return ports.bytes_per_cycle(operation)


def _make_core(
    avx512: Ports, avx: Ports, sse2: Ports, fma_bytes: int, **others: Ports
) -> Core:
    """Make a core that multiplies and adds `fma_bytes` bytes of fp32 in a cycle.

    avx512, avx, sse2: what the core loads and stores with these instructions. others:
    the same for more variants, by name.

    Every core gets the operations of Arm's variants, too, with six pipelines. Only the
    widest core of all needs them, since it stands for Arm cores that are not listed;
    an x86 core never measures these variants.
    """
    ports = {
        "avx512": avx512,
        "avx": avx,
        "sse2": sse2,
        "prefetch": avx512,
        "streams": avx512,
        "tile": avx512,
        "tileblock": avx512,
        **others,
    }
    numbers = fma_bytes // 4  # of fp32, which have 4 bytes
    fp32 = 2 * numbers  # to multiply and to add are two operations
    operations = {
        "avx512": fp32,
        # these multiply two or four narrow numbers in the place of one fp32
        "avx512-bf16": 2 * fp32,
        "avx512-vnni": 4 * fp32,
        "avx2": min(fp32, _AVX2_FP32),
        # a product of two tiles, of 16 x 64 bytes each, takes 16 cycles
        "amx-bf16": 1024,  # 2 * 16 * 16 * 32 operations / 16
        "amx-int8": 2048,  # 2 * 16 * 16 * 64 operations / 16
        **_compute_arm_operations(pipelines=6),
    }
    return Core(ports, operations)


def _compute_arm_operations(pipelines: int) -> dict[str, int]:
    """Return the operations of a cycle by variant, for a core with so many pipelines
    for vectors of 16 bytes.
    """
    return {
        "bfmmla": 32 * pipelines,
        "i8mm": 64 * pipelines,
        "neon": 8 * pipelines,
    }


class _Model(NamedTuple):
    """CPU models with one kind of core. vendor: a word of its name. numbers: of the
    models.
    """

    vendor: str
    family: int
    numbers: Sequence[Any]
    core: Core


_WIDE = Ports(128, 64)
_ZEN_1 = _make_core(Ports(32, 16), Ports(32, 16), Ports(32, 16), 32)
_ZEN_2_TO_4 = _make_core(Ports(64, 32), Ports(64, 32), Ports(32, 16), 64)
_SKYLAKE = _make_core(_WIDE, Ports(64, 32), Ports(32, 16), 128)
_ICE_LAKE = _make_core(_WIDE, Ports(64, 64), Ports(32, 32), 128)
_WIDEST = {  # by a word of the vendor's name
    "intel": _make_core(_WIDE, Ports(96, 64), Ports(48, 32), 128),
    "amd": _make_core(_WIDE, Ports(64, 64), Ports(32, 32), 128),
}
_WIDEST_OF_ALL = _make_core(
    _WIDE, Ports(96, 64), Ports(64, 32), 128, neon=Ports(128, 64)
)
_NEOVERSE = {
    pipelines: Core(_WIDEST_OF_ALL.ports, _compute_arm_operations(pipelines))
    for pipelines in (2, 4)
}
_MODELS = (
    _Model("intel", 6, range(85, 86), _SKYLAKE),
    _Model("intel", 6, range(106, 109), _ICE_LAKE),
    _Model("amd", 0x17, range(0x30), _ZEN_1),
    _Model("amd", 0x17, range(0x30, 0x100), _ZEN_2_TO_4),
    _Model("amd", 0x19, range(0x100), _ZEN_2_TO_4),
    _Model("0x41", 8, ("0xd0c", "0xd49"), _NEOVERSE[2]),
    _Model("0x41", 8, ("0xd40", "0xd4f"), _NEOVERSE[4]),
)


def find_core_limits(run: Mapping[str, Any]) -> Core:
    """Return the limits of the core of a run's CPU, given a row of `runs`.

    For a model that is not listed, return those of its vendor's widest core; for an
    unknown vendor, those of the widest core of all.
    """
    vendor_and_model = f"{run.get('cpu_vendor')} {run.get('cpu_model')}".lower()
    family = str(run.get("cpu_family"))
    number = str(run.get("cpu_model_number"))
    for model in _MODELS:
        is_of_vendor = model.vendor in vendor_and_model
        is_of_family = str(model.family) == family
        if is_of_vendor and is_of_family and number in map(str, model.numbers):
            return model.core
    for vendor, widest_core in _WIDEST.items():
        if vendor in vendor_and_model:
            return widest_core
    return _WIDEST_OF_ALL
