"""Medians for other programs: each format as its readers take it, with the numbers of
`fleet show`.
"""

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from fleet.analysis.exchange import render_markdown, render_openmetrics
from fleet.analysis.reduce import load_overview, summarize_hosts
from fleet.analysis.views import select_runs_to_show
from fleet.store import Listing
from tests import needs, simulated
from tests.command import ROOT, Fleet


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dashboards")
    for number in range(3):
        simulated.publish(place / "results", simulated.desktop(), number, rounds=3)
    return place


@pytest.fixture(scope="module")
def table(root: Path) -> pd.DataFrame:
    medians = summarize_hosts(
        load_overview(
            root / "results",
            select_runs_to_show(Listing(root / "results"), ["all"]).runs,
        )
    )
    return medians.assign(
        host_name='quo"ted|', measured_utc=pd.Timestamp("2026-11-08T02:00:00Z")
    )


def test_prometheus_gets_seconds_and_escaped_labels(table: pd.DataFrame) -> None:
    lines = render_openmetrics(table).splitlines()
    assert lines[-1] == "# EOF"
    samples = [line for line in lines if not line.startswith("#")]
    smt, lower, upper, measured = (line for line in samples if 'relation="smt"' in line)
    assert r'host="quo\"ted|"' in smt
    assert float(smt.rpartition(" ")[2]) == pytest.approx(
        table[table["relation"] == "smt"]["median_ns"].iloc[0] * 1e-9, rel=1e-5
    )

    ends = [float(line.rpartition(" ")[2]) for line in (lower, smt, upper)]
    assert ends == sorted(ends)
    assert lower.startswith("fleet_median_latency_lower_seconds{")
    assert (
        float(measured.rpartition(" ")[2])
        == pd.Timestamp("2026-11-08T02:00:00Z").timestamp()
    )


def test_the_dashboard_of_grafana_asks_for_the_metrics_that_are_exported(
    table: pd.DataFrame,
) -> None:
    dashboard = json.loads((ROOT / "docs/grafana.json").read_text())
    queries = [
        target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
    ]
    variables = {entry["name"]: entry for entry in dashboard["templating"]["list"]}
    asked = " ".join(
        queries + [entry.get("definition", "") for entry in variables.values()]
    )

    exported = render_openmetrics(table)
    families = set(re.findall(r"^# TYPE (\w+) gauge$", exported, re.MULTILINE))
    assert set(re.findall(r"fleet_\w+", asked)) == families
    labels = set(re.findall(r'[{,](\w+)="', exported))
    used = set(re.findall(r'(\w+)=~"', asked)) | set(re.findall(r", (\w+)\)", asked))
    assert used == labels - {"variant"}
    legends = [
        target["legendFormat"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]
    assert set(re.findall(r"{{(\w+)}}", " ".join(legends))) == labels

    replaced = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - {"__all"}
    assert replaced == set(variables)
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len({*ids}) >= 4


def test_bencher_gets_ns_with_their_interval(root: Path) -> None:
    with Fleet(root) as fleet:
        metrics = json.loads(fleet("export", "all", "-F", "bmf").stdout)
    assert len(metrics) > 1
    for metric in metrics.values():
        latency = metric["latency"]
        assert 0 < latency["lower_value"] < latency["value"] < latency["upper_value"]


def test_hwloc_takes_the_matrix_and_puts_each_number_at_its_cpus(
    made_lab: Path, tmp_path: Path
) -> None:
    """CPUs of one core are numbered apart on this machine, so that hwloc orders them
    otherwise.
    """
    lstopo = needs.program("lstopo-no-graphics", "hwloc-nox")
    annotate = needs.program("hwloc-annotate", "hwloc-nox")
    indexes = ",".join(str(core + thread) for core in range(32) for thread in (0, 32))
    machine = f"package:2 l3:2 core:8 pu:2(indexes={indexes})"
    subprocess.run([lstopo, "--input", machine, tmp_path / "in.xml"], check=True)
    with Fleet(made_lab) as fleet:
        assert (
            fleet(
                "export",
                "milan",
                "-b",
                "cas",
                "-F",
                "hwloc",
                "-o",
                str(tmp_path / "file"),
            ).exit_code
            == 0
        )
        csv = fleet("export", "milan", "-b", "cas").stdout
    files = [str(tmp_path / name) for name in ("in.xml", "out.xml", "file")]
    subprocess.run(
        [annotate, *files[:2], "--", "all", "--", "distances", files[2]], check=True
    )
    (distances,) = ElementTree.parse(files[1]).iter("distances2")
    assert (distances.get("kind"), distances.get("indexing")) == ("6", "os")
    texts = {
        tag: " ".join(part.text or "" for part in distances.iter(tag))
        for tag in ("indexes", "u64values")
    }
    cpus, values = ([int(word) for word in text.split()] for text in texts.values())
    rows = [line.split(",")[1:] for line in csv.splitlines()[1:]]
    assert sorted(cpus) == [*range(64)]
    for place, value in enumerate(values):
        row = cpus[place // 64]
        column = cpus[place % 64]
        # CSV is rounded
        assert value == pytest.approx(float(rows[row][column] or 0) * 1000, abs=6)


def test_a_pull_request_gets_a_table(table: pd.DataFrame) -> None:
    lines = render_markdown(table).splitlines()
    assert len(lines) == 2 + len(table)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {7}


def test_the_command_writes_the_last_session_or_a_selection(root: Path) -> None:
    with Fleet(root) as fleet:
        assert fleet("export", "-F", "markdown").stdout.count("\n") == 4
        assert fleet("export", "all", "-F", "openmetrics", "-b", "cas").stdout.endswith(
            "# EOF\n"
        )
        assert fleet("export", "-F", "openmetrics", "-b", "chase").exit_code == 2


def test_prometheus_gets_memory_verdicts_facts_and_labels(made_lab: Path) -> None:
    with Fleet(made_lab) as fleet:
        text = fleet("export", "pisa", "lucca", "rome", "-F", "openmetrics").stdout
        shown = fleet("show", "pisa", "-b", "bandwidth").stdout
    samples = dict(
        line.rpartition(" ")[::2]
        for line in text.splitlines()
        if not line.startswith("#")
    )
    name = (
        'fleet_median_rate_bytes_per_second{host="pisa",benchmark="bandwidth",'
        'variant="avx2",setting="read",relation="mem"}'
    )
    assert re.search(rf"mem +{float(samples[name]) / 1e9:.1f} ", shown)
    lower = float(samples[name.replace("rate_bytes", "rate_lower_bytes")])
    assert lower < float(samples[name])
    assert 'fleet_median_time_seconds{host="pisa",benchmark="chase"' in text
    assert samples['fleet_as_expected{host="pisa"}'] == "1"
    assert samples['fleet_changed{host="lucca"}'] == "1"
    assert samples['fleet_changed{host="pisa"}'] == "0"
    (info,) = [
        name for name in samples if name.startswith('fleet_host_info{host="pisa')
    ]
    assert 'kernel="6.12.1-demo",governor="performance"' in info
    assert 'label_rack="desk"' in info
    assert "# TYPE fleet_host info\n" in text


@pytest.mark.parametrize("format_", ["bmf", "markdown"])
def test_runs_without_latencies_between_cpus_are_no_empty_table(
    format_: str, made_lab: Path
) -> None:
    with Fleet(made_lab) as fleet:
        done = fleet("export", "verona", "-F", format_, "-b", "bandwidth")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "these runs have no latencies between CPUs" in done.stderr
