"""Running the agent of another architecture on this machine, under its emulator."""

from tests import needs
from tests.native.agent import Record, measure
from tests.native.build import build
from tests.native.targets import Target


def emulator(target: Target, cpu: str = "") -> tuple[str, ...]:
    """Return what runs a binary of `target` here. cpu: emulated, with properties; by
    default the first.
    """
    name, _, properties = cpu.partition(",")
    program, *rest = target.emulators[name or next(iter(target.emulators))]
    more = [*rest[:-1], f"{rest[-1]},{properties}"] if properties else rest
    return (needs.program(program, target.emulator_package), *more)


def measure_emulated(target: Target, *args: str, cpu: str = "") -> list[Record]:
    """Records of a run of `target`'s agent that must go well."""
    return measure(
        *args, prefix=emulator(target, cpu), binary=build(target, "-O2 -static")
    )
