"""Makes the lab of `fleet demo` through the store: `make lab` writes it anew to
fleet/demo/lab.tar.xz.
"""

import random
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from fleet.model import (
    Agent,
    Burst,
    End,
    Facts,
    Hello,
    Host,
    Load,
    Plan,
    Run,
    RunState,
    Target,
)
from fleet.model.version import VERSION
from fleet.store import Store
from tests.lab import points
from tests.lab.machines import EVERYTHING, KINDS, MACHINES, UNCHANGED, Machine
from tests.lab.simulate import SAMPLES, TICKS_PER_SECOND, bursts, pairs

LAST_NIGHT = 7  # labels begin with night 0
HOSTS = (*MACHINES, EVERYTHING)
REPEATS = 12  # of one machine on the day before
NOTE = "Made up by `fleet demo`: no machine was measured."
_FIRST = datetime(2026, 11, 1, tzinfo=UTC)
_KERNELS = {"old": "6.12.1-demo", "new": "6.13.0-demo"}


def write_lab(folder: Path) -> None:
    """Write inventory.yaml and results/ into an empty folder."""
    (folder / "inventory.yaml").write_text(inventory(), encoding="utf-8")
    store = Store(folder / "results")
    store.publish(_run(EVERYTHING, -1, 0, "old"), _everything(), batch=True)
    for place in range(1, REPEATS + 1):
        store.publish(
            _run(UNCHANGED, -1, place, "old"),
            bursts(UNCHANGED, -place, "old"),
            batch=True,
        )
    for night, measured in nights().items():
        for place, (machine, kernel) in enumerate(measured):
            store.publish(
                _run(machine, night, place, kernel),
                bursts(machine, night, kernel),
                batch=True,
            )
    store.flush()


def pack_lab(archive: Path) -> None:
    """Make the lab, and pack it as small as it gets; its files are dated by its last
    night.
    """
    last = int((_FIRST + timedelta(days=LAST_NIGHT)).timestamp())

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = last
        return None if ".fleet" in Path(member.name).parts else member

    with (
        tempfile.TemporaryDirectory() as folder,
        tarfile.open(archive, "w:xz", preset=9) as packed,
    ):
        write_lab(Path(folder))
        for name in ("inventory.yaml", "results"):
            packed.add(Path(folder, name), name, filter=plain)


def nights() -> dict[int, list[tuple[Machine, str]]]:
    """Which machines are measured in a night, each with its kernel."""
    runs: dict[int, list[tuple[Machine, str]]] = {}
    for machine in MACHINES:
        for ago, kernel in enumerate(reversed(machine.nights)):
            runs.setdefault(LAST_NIGHT - ago, []).append((machine, kernel))
    return dict(sorted(runs.items()))


def inventory() -> str:
    """The lab's inventory.yaml."""
    entries = []
    for machine in HOSTS:
        labels = ", ".join(f"{key}: {value}" for key, value in machine.labels.items())
        entries.append(
            f"  {machine.name}: {{address: {machine.name}.invalid, labels:"
            f" {{{labels}}}}}"
        )
    nodes = ", ".join(
        machine.name for machine in MACHINES if machine.labels["kind"] == "node"
    )
    text = Path(__file__).with_name("inventory.yaml").read_text(encoding="utf-8")
    return text.format(hosts="\n".join(entries), nodes=nodes)


def _everything() -> Iterator[Burst]:
    last = 0
    for burst in bursts(EVERYTHING, 0, "old"):
        last = burst.start_offset_ns
        yield burst
    yield from points.bursts(EVERYTHING, EVERYTHING.rounds, last)


def _run(machine: Machine, night: int, place: int, kernel: str) -> Run:
    chance = random.Random(f"{machine.name} {night} {place} names")
    session = _FIRST + timedelta(days=night, hours=machine.hour)
    started = session + timedelta(seconds=5 + 70 * place)
    numbers = tuple(cpu.cpu for cpu in machine.cpus)
    nightly = {"kernel": kernel} if machine.labelled and night >= 0 else {}
    kinds: list[dict[str, object]] = [
        {"benchmark": name, "variant": variant}
        for name, variant, _ in (
            *KINDS[machine.arch],
            ("chase", "mov", 1),
            ("bandwidth", "avx2", 1),
        )
        if name in machine.benchmarks
    ]
    count = pairs(machine) * machine.rounds * len(kinds)
    counters: tuple[str, ...] = ()
    if machine is EVERYTHING:
        kinds += [
            {"benchmark": name, "variant": variant, "points": listed}
            for (name, variant), listed in points.names(machine).items()
        ]
        kinds.sort(key=lambda kind: machine.benchmarks.index(str(kind["benchmark"])))
        counters = points.COUNTED
    counted = [{"event": event} for event in counters]
    return Run(
        run_id=f"r{started:%Y%m%dT%H%M%SZ}-{chance.getrandbits(32):08x}",
        session_id=f"s{session:%Y%m%dT%H%M%SZ}-{abs(night):08x}",
        host=Host(machine.name, f"{machine.name}.invalid", labels=machine.labels),
        plan=Plan(
            benchmarks=machine.benchmarks,
            rounds=machine.rounds,
            samples=SAMPLES,
            seed=night,
        ),
        facts=_facts(machine, night, kernel),
        agent=Agent("fleet-agent", "demo", Target("linux", machine.arch), "made up"),
        started_utc=_text(started),
        ended_utc=_text(started + timedelta(seconds=60)),
        hello=Hello(
            build="demo",
            os="linux",
            arch=machine.arch,
            clock="rdtscp" if machine.arch == "x86_64" else "cntvct",
            ticks_per_second=TICKS_PER_SECOND,
            pairs=pairs(machine),
            bursts=count,
            cpus=numbers,
            counters=counters,
            raw=MappingProxyType(
                {"record": "hello", "plan": {"benchmarks": kinds}, "counters": counted}
            ),
        ),
        end=End(bursts=count, failed=0, reason="done"),
        state=RunState.COMPLETE,
        notes=(NOTE,),
        load_after=Load(0.1, 1),
        labels=MappingProxyType({**machine.labels, **nightly, "made-up": "yes"}),
        fleet_version=VERSION,
    )


def _facts(machine: Machine, night: int, kernel: str) -> Facts:
    return Facts(
        "linux",
        machine.arch,
        hostname=machine.name,
        kernel=_KERNELS[kernel],
        distribution="made up by fleet demo",
        boot_id=f"{machine.name}-{night}",
        cpu_model=machine.model,
        governor="performance",
        page_bytes=4096,
        smt=len({cpu.core for cpu in machine.cpus}) < len(machine.cpus),
        cpus=machine.cpus,
        load=Load(0.1, 1),
        probe="",
    )


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


if __name__ == "__main__":
    pack_lab(Path(__file__).parents[2] / "fleet" / "demo" / "lab.tar.xz")
