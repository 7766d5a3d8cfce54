"""The agent's card is the report's but for its foot (agent/emit/svg.c,
fleet/analysis/report/card.py).
"""

import re
import subprocess
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fleet.analysis import report
from fleet.analysis.report import lay_out_card
from fleet.model import Cpu, Topology, name_core_kinds
from fleet.store import schema
from tests import needs
from tests.lab.machines import MACHINES
from tests.native.agent import run
from tests.native.build import AGENT
from tests.shared import run_folder

PARTS = ("emit/card.c", "emit/svg.c", "emit/png.c", "base/text.c", "base/interval.c")
LEVELS = ("package", "node", "die", "llc", "cluster", "core", "capacity")


@pytest.fixture(scope="module")
def binary() -> Path:
    program = run_folder() / "card"
    options = ["-std=gnu11", "-O1", "-Wall", "-Werror", f"-I{AGENT}"]
    files = [
        Path(__file__).with_suffix(".c").with_name("card.c"),
        *(AGENT / name for name in PARTS),
    ]
    subprocess.run(
        [needs.program("gcc", "gcc"), *options, "-o", program, *files], check=True
    )
    return program


def boards() -> dict[str, tuple[Cpu, ...]]:
    """Every machine of the lab of one kind of core or of those that capacities tell,
    and others.
    """
    by_name = {
        host.labels["kind"]: host.cpus
        for host in MACHINES
        if not any(cpu.kind for cpu in host.cpus)
    }
    by_name["two"] = tuple(Cpu(n, core=n, package=0) for n in range(2))
    by_name["big.LITTLE"] = tuple(
        Cpu(n, core=n, cluster=n // 4 * 4, package=0, capacity=(400, 1024)[n // 4])
        for n in range(8)
    )
    for count, cache in ((32, 8), (128, 8)):
        cores = [(n, n % (count // 2)) for n in range(count)]
        by_name[f"{count}"] = tuple(
            Cpu(
                n,
                core=c,
                llc=c // cache * cache,
                die=c // (count // 4),
                node=c // (count // 4),
                package=c // (count // 4) * (count // 4),
            )
            for n, c in cores
        )
    by_name["unknown"] = tuple(Cpu(n) for n in range(4))
    return by_name


def numbers(cpus: tuple[Cpu, ...]) -> pd.DataFrame:
    topology = Topology(
        cpus, name_core_kinds((cpu.cpu, cpu.kind, cpu.capacity) for cpu in cpus)
    )
    chance = np.random.default_rng(len(cpus))
    a, b = np.triu_indices(len(cpus), 1)
    names = [
        topology.name_relation(cpu, other)
        for cpu, other in zip(a.tolist(), b.tolist(), strict=True)
    ]
    places = {
        name: 7.0 * 3**power for power, name in enumerate(sorted({*names}, key=len))
    }
    ns = [places[name] for name in names] * chance.normal(1, 0.03, len(a))
    spread = chance.uniform(0.001, 0.05, len(a))
    return pd.DataFrame(
        None, range(len(a)), [column.name for column in schema.TABLES["pairs"]]
    ).assign(
        benchmark="cas",
        variant="cmpxchg",
        ping_cpu=a,
        pong_cpu=b,
        relation=names,
        flags="",
        median_ns=ns,
        spread=spread,
        p99_ns=ns,
        bursts=10,
        flagged_bursts=0,
        threads=2,
        unit="handoff",
    )


def pictures(svg: str) -> list[Any]:
    encoded = re.findall(r"base64,([^\"]*)", svg)
    assert len(encoded) == 2
    return [
        np.asarray(Image.open(BytesIO(b64decode(picture))).convert("RGBA"))
        for picture in encoded
    ]


@pytest.mark.parametrize("name", boards())
def test_both_cards_of_the_same_numbers_differ_only_in_the_foot(
    name: str, binary: Path
) -> None:
    cpus, model = (
        boards()[name],
        f"A <{name}> & the name of its makers, long enough for lines",
    )
    rows = numbers(cpus)
    run_row: dict[str, Any] = dict.fromkeys(
        ("kernel", "governor", "hypervisor", "preset", "estimator")
    )
    run_row |= {
        "run_id": "r-12345678",
        "hello": {},
        "benchmarks": ["cas/cmpxchg"],
        "cpu_model": model,
    }
    run_row |= {"started_utc": pd.Timestamp("2026-01-02")}
    table = pd.DataFrame([{"run_id": "", "cpu": cpu.cpu, "kind": None} | {
        level: getattr(cpu, level) for level in LEVELS} for cpu in cpus])  # fmt: skip
    ours = report.FORMATS[".svg"](lay_out_card(run_row, table, rows))
    groups = "\n".join(
        " ".join(
            str(-1 if getattr(cpu, level) is None else getattr(cpu, level))
            for level in LEVELS
        )
        for cpu in cpus
    )
    pairs = rows[["ping_cpu", "pong_cpu", "median_ns", "spread"]].to_csv(
        None, sep=" ", header=False, index=False
    )
    text = f"{model}\n{len(cpus)}\n{groups}\n{pairs}"
    theirs = subprocess.run(
        [binary], input=text, capture_output=True, text=True, check=True
    ).stdout
    foot = re.compile(
        r"(<text x=\"40.0\" y=\"610.0\".*|; fleet[^;]*</desc>|base64,[^\"]*)"
    )
    assert foot.sub("", theirs).splitlines() == foot.sub("", ours).splitlines()
    for own, other in zip(pictures(ours), pictures(theirs), strict=True):
        # a shade, where rounding decides
        assert np.abs(own.astype(int) - other).max() <= 8
    assert len(ours) < 40 << 10 or len(cpus) > 64


def test_the_agent_writes_a_card_of_its_first_benchmark_of_pairs() -> None:
    needs.cpus(2)
    done = run(
        "-b",
        "clock,cas,readwrite",
        "--rounds",
        "2",
        "--samples",
        "9",
        "--iterations",
        "200",
        "-f",
        "svg",
    )
    assert done.returncode == 0
    assert (done.stdout[:5], done.stdout[-7:]) == ("<svg ", "</svg>\n")
    assert done.stdout.count("<svg ") == 1
    assert "cas/" in done.stdout
