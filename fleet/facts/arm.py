"""Names of Arm cores by the numbers in MIDR_EL1 (Arm's manuals; the kernel's asm/cputype.h)."""

import json
from collections.abc import Mapping
from pathlib import Path

_CORES: Mapping[str, Mapping[str, str]] = json.loads(Path(__file__).with_name("arm_cores.json").read_text())


def core_name(implementer: str, part: str) -> str | None:
    """Name the core: ("0x41", "0xd0b") -> "Cortex-A76"; an unknown one by number; None for no numbers."""
    try:
        numbers = (int(implementer, 16), int(part, 16))
    except ValueError:
        return None
    names = _CORES.get(f"{numbers[0]:#x}", {})
    return names.get(f"{numbers[1]:#x}", f"Arm implementer {numbers[0]:#x} part {numbers[1]:#x}")
