"""Imported and published summaries: stored beside the runs, never among them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from fleet.analysis.exchange import (
    ImportMetadata,
    compute_model_medians,
    export_matrix,
    find_summary,
    import_files,
    load_imports,
    load_published,
    make_grid,
    render_sides,
    render_summaries,
    tabulate_side_medians,
)
from fleet.analysis.views import Canvas, load_usual_numbers
from fleet.errors import FleetError, StoreWarning, UsageError
from fleet.model import Burst, Parameters, Relation, Topology
from fleet.plan.benchmark_names import BenchmarkName, parse_benchmark_names
from fleet.store import Listing, Store, schema
from tests import builders, simulated
from tests.analysis.exchange.test_tools import CORE_LATENCY, RUST_CSV, RUST_SCREEN
from tests.command import ROOT, Fleet

SMT_PAIRS = {
    "i9-13980hx-boost": {(n, n + 1) for n in range(0, 16, 2)},
    "i7-13850hx-noboost": {(n, n + 1) for n in range(0, 16, 2)},
    "i7-4930k": {(n, n + 6) for n in range(6)},
    "i3-2120t": {(0, 2), (1, 3)},
}


def save(folder: Path, text: str, name: str = "table.txt") -> Path:
    (folder / name).write_text(text)
    return folder / name


IN_ORDER = ImportMetadata(benchmarks=parse_benchmark_names("cas,message"))
OF_CAS = [BenchmarkName("cas")]


def import_text(root: Path, text: str, name: str, metadata: ImportMetadata) -> str:
    """Import a file with this text from beside the root."""
    return import_files(root, [save(root.parent, text)], name, metadata)


def list_sides(root: Path, *sides: str) -> dict[str, pd.DataFrame]:
    """Return the rows of each side, by relation."""
    rows = tabulate_side_medians(root, list(sides))
    return {str(side): own.set_index("relation") for side, own in rows.groupby("side")}


def publish_desktop(root: Path, number: int, factor: float, **more: object) -> None:
    """Publish a run of host `a` whose latencies are this factor of the usual ones."""
    ns = {name: ns * factor for name, ns in builders.NS.items()}
    host = simulated.desktop("a", ns=ns, run_sd=0.001, pair_sd=0.001)
    simulated.publish(root, host, number, rounds=3, **more)  # type: ignore[arg-type]


def test_an_import_is_a_summary_and_no_sample(tmp_path: Path) -> None:
    root = tmp_path / "results"
    run = builders.a_run()
    Store(root).publish(run, builders.make_bursts(run))
    before = pd.read_parquet(root / "samples")
    metadata = ImportMetadata(variant="cmpxchg", os="linux")
    message = import_text(root, CORE_LATENCY, "i3", metadata)
    assert "summary:i3" in message
    rows = load_imports(root)
    assert list(rows.columns) == [column.name for column in schema.TABLES["summaries"]]
    assert set(rows["estimator"]) == {"median"}
    assert make_grid(rows).cells[2, 0] == 12

    torn, _, _ = CORE_LATENCY.rpartition("3     38")
    message = import_text(root, torn, "torn", ImportMetadata())
    assert "4 CPUs, 9 cells of 12. " in message

    pd.testing.assert_frame_equal(pd.read_parquet(root / "samples"), before)
    schema_of_file = pq.read_schema(root / "summaries" / "i3.parquet")
    assert schema_of_file.metadata[b"fleet.table"] == b"summaries"


def test_cpus_that_a_csv_has_lost_can_be_named(tmp_path: Path) -> None:
    file = save(tmp_path, RUST_CSV)
    metadata = ImportMetadata(benchmarks=OF_CAS, cpus=(0, 4, 9))
    import_files(tmp_path, [file], "friend", metadata)
    grid = make_grid(load_imports(tmp_path))
    assert set(grid.cells) == {(4, 0), (9, 0), (9, 4)}


def full_matrix(count: int) -> str:
    """Return a table of as many CPUs, with 0 on the diagonal."""
    names = [str(cpu) for cpu in range(count)]
    lines = [f"CPU {' '.join(names)}"]
    for a in range(count):
        cells = [str(10 * a + b) if a != b else "0" for b in range(count)]
        lines.append(f"{a} {' '.join(cells)}")
    return "\n".join(lines) + "\n"


def test_the_relations_of_an_import_are_those_of_the_run_named_if_it_has_the_cpus(
    tmp_path: Path,
) -> None:
    run = builders.a_run(builders.small_desktop())
    Store(tmp_path).publish(run, builders.make_bursts(run))
    topology = Topology(run.facts.cpus)
    file = save(tmp_path, full_matrix(len(run.facts.cpus)))
    for name, text in (("by-run", run.run_id), ("by-host", run.host.name)):
        import_files(tmp_path, [file], name, ImportMetadata(topology=text))
        rows = find_summary(tmp_path, name)
        relations = rows.set_index(["ping_cpu", "pong_cpu"])["relation"]
        expected = {pair: str(topology.relation(*pair)) for pair in relations.index}
        assert dict(relations) == expected
        assert "smt" in render_summaries(tmp_path, [name], Canvas())
    sides = list_sides(tmp_path, run.run_id, "summary:by-run")
    smt = sides["summary:by-run"].loc["smt"]
    assert smt["cells"] == len(run.facts.cpus)
    missing = "that machine has no CPU 8, which .*table.txt has; name .* with --cpus"
    for cpus, text, message in ((9, run.run_id, missing), (2, "nowhere", "nowhere")):
        file = save(tmp_path, full_matrix(cpus))
        with pytest.raises(FleetError, match=message):
            import_files(tmp_path, [file], "x", ImportMetadata(topology=text))
    assert set(load_imports(tmp_path)["summary"]) == {"by-run", "by-host"}


@pytest.mark.parametrize(
    ("text", "metadata", "message"),
    [
        (RUST_CSV, ImportMetadata(), "does not say which benchmark it is of"),
        (
            f"{RUST_CSV}\n{RUST_CSV}",
            ImportMetadata(),
            "There are 2 matrices: name one for each, .* --benchmark cas,message",
        ),
        (
            RUST_CSV,
            ImportMetadata(benchmarks=[BenchmarkName("cas")], cpus=(0, 1)),
            "--cpus names 2 CPUs, the matrix has 3",
        ),
        (
            RUST_CSV,
            ImportMetadata(tool="lmbench"),
            "--tool lmbench: unknown; there are",
        ),
        (CORE_LATENCY * 2, ImportMetadata(), "a second matrix of cas"),
        (
            CORE_LATENCY + CORE_LATENCY.replace("CAS", "Read/Write") + CORE_LATENCY,
            ImportMetadata(),
            "a second matrix of cas",
        ),
        (
            CORE_LATENCY * 2,
            ImportMetadata(benchmarks=[BenchmarkName("cas")]),
            "names 1 benchmark, but there are 2 matrices",
        ),
        (
            "CPU 0 99999999999\n0 0 5\n99999999999 5 0\n",
            ImportMetadata(),
            "CPUs up to 65535",
        ),
        (f"CPU 0 {'9' * 5000}\n", ImportMetadata(), "CPUs up to 65535"),
        (
            f"Num cores: 2\nNum samples: {'9' * 5000}\n",
            ImportMetadata(),
            "no matrix of",
        ),
        (
            RUST_SCREEN.replace("CPU: ", f"CPU: {'T' * 500}"),
            ImportMetadata(),
            "cpu_model is .* bytes long",
        ),
    ],
)
def test_what_is_not_clear_is_asked_for_and_nothing_is_stored(
    tmp_path: Path, text: str, metadata: ImportMetadata, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        import_files(tmp_path / "results", [save(tmp_path, text)], "x", metadata)
    assert load_imports(tmp_path / "results").empty


@pytest.mark.parametrize("names", ["cas,message", "readwrite/c11,cas"])
def test_matrices_that_no_title_names_are_named_in_order(
    tmp_path: Path, names: str
) -> None:
    file = save(tmp_path, f"{RUST_CSV}\n{RUST_CSV.replace('19.4', '39.4')}")
    metadata = ImportMetadata(benchmarks=parse_benchmark_names(names))
    import_files(tmp_path, [file], "friend", metadata)
    rows = load_imports(tmp_path)
    stored = rows["benchmark"].str.cat(rows["variant"].fillna(""), sep="/")
    assert [text.strip("/") for text in stored.unique()] == names.split(",")


def test_a_name_for_each_of_several_files(tmp_path: Path) -> None:
    one = save(tmp_path, RUST_CSV, "one.csv")
    two = save(tmp_path, RUST_CSV, "two.csv")
    import_files(tmp_path, [one, two], "friend", IN_ORDER)
    rows = load_imports(tmp_path)
    sources = rows.drop_duplicates("benchmark").set_index("benchmark")["source"]
    assert list(sources.items()) == [("cas", str(one)), ("message", str(two))]


def test_a_name_is_used_once(tmp_path: Path) -> None:
    file = save(tmp_path, CORE_LATENCY)
    import_files(tmp_path, [file], "i3", ImportMetadata())
    again = import_files(tmp_path, [file], "i3", ImportMetadata())
    assert again.startswith("Is here already: summary:i3")
    with pytest.raises(UsageError, match="'i3' is stored already"):
        import_files(tmp_path, [file], "i3", ImportMetadata(conditions="another day"))
    with pytest.raises(UsageError, match="fleet ships a summary of this name"):
        import_files(tmp_path, [file], "i3-2120t", ImportMetadata())


def test_text_as_windows_saves_it_is_read_and_bytes_that_are_no_text_are_refused(
    tmp_path: Path,
) -> None:
    for encoding in ("utf-16", "utf-8-sig"):
        (tmp_path / "x").write_bytes(CORE_LATENCY.encode(encoding))
        import_files(tmp_path, [tmp_path / "x"], f"i3-{encoding}", ImportMetadata())
    assert len(load_imports(tmp_path)) == 24
    (tmp_path / "x").write_bytes(b"Num cores: \xb1\xfe")
    with pytest.raises(UsageError, match="not text"):
        import_files(tmp_path, [tmp_path / "x"], "i3", ImportMetadata())


@pytest.mark.long
def test_the_published_set_is_whole_and_says_where_it_comes_from() -> None:
    rows = load_published()
    assert rows["summary"].nunique() == 119
    assert rows[["benchmark", "variant", "source", "cpu_model"]].notna().all().all()
    assert set(rows["source"].str.partition("//")[2].str.partition("/")[0]) == {
        "github.com"
    }
    notice = (ROOT / "fleet" / "published" / "NOTICE").read_text()
    for source in rows["source"].unique():
        assert re.split(r"[ ,]", source)[0] in notice
    rows = rows[rows["source"].str.contains("jcurl")]
    assert rows["summary"].nunique() == 13
    assert rows["os"].notna().all()
    assert not (rows["relation"] == "unknown").any()
    assert set(rows[rows["os"] == "qnx"]["conditions"]) == {"QNX 7.1.0", "QNX 8.0.0"}


@pytest.mark.parametrize("name", SMT_PAIRS)
def test_the_siblings_of_published_machines_are_nearest(name: str) -> None:
    rows = find_summary("", name)
    rows = rows[rows["benchmark"] == "cas"]
    is_sibling = rows["relation"] == "smt"
    siblings = rows[is_sibling]
    pairs = {
        tuple(sorted(pair))
        for pair in siblings[["ping_cpu", "pong_cpu"]].itertuples(index=False)
    }
    assert pairs == SMT_PAIRS[name]
    nearest_other = rows[~is_sibling]["latency_ns"].min()
    assert siblings["latency_ns"].max() * 1.6 < nearest_other


def test_a_summary_that_is_not_there_is_named_with_those_that_are(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match=r"'rpi5-linus'; did you mean 'rpi5-linux'"):
        find_summary(tmp_path, "summary:rpi5-linus")


def test_a_name_with_capitals_is_found_by_its_words(tmp_path: Path) -> None:
    file = save(tmp_path, full_matrix(2))
    import_files(tmp_path, [file], "Lab-Xeon-8592", ImportMetadata())
    with pytest.raises(UsageError, match="did you mean 'Lab-Xeon-8592'"):
        find_summary(tmp_path, "summary:xeon lab")


def test_the_views_name_tool_estimator_and_origin() -> None:
    assert "core_latency" in render_summaries("", [], Canvas())
    text = render_summaries("", ["rpi4-qnx800"], Canvas())
    assert (
        "summary, not raw: the median of each pair, as core_latency printed it" in text
    )
    assert "QNX 8.0.0" in text
    assert "readwrite/c11" in text


@pytest.mark.parametrize("asked", [None, "nothing"])
def test_a_choice_that_is_open_is_asked_for(tmp_path: Path, asked: str | None) -> None:
    with pytest.raises(
        UsageError, match="--benchmark must name one of cas/llsc, readwrite/c11"
    ):
        export_matrix(tmp_path, "summary:rpi4-qnx800", "c2clat", asked)


def test_a_root_with_nothing_but_summaries_says_so(tmp_path: Path) -> None:
    import_text(tmp_path / "results", CORE_LATENCY, "i3", ImportMetadata())
    with Fleet(tmp_path) as fleet:
        done = fleet("show")
    assert done.exit_code == 2
    assert (
        "holds summaries, but no runs. `fleet runs --summaries` lists them"
        in done.stderr
    )


def test_a_summary_stands_beside_one_level_of_several_runs(tmp_path: Path) -> None:
    for number in range(4):
        publish_desktop(tmp_path, number, 1.3 if number % 2 else 1.0)
    own = list_sides(tmp_path, "a", "summary:i3-2120t")["a"]
    expected = builders.NS[Relation.PACKAGE]
    assert own["median_ns"]["package"] == pytest.approx(expected, rel=0.03)


def test_beside_a_summary_a_host_has_the_number_that_it_has_everywhere(
    tmp_path: Path,
) -> None:
    for number in range(16):
        factor = 1.2 if number < 8 else 1.0  # proved to be faster since
        publish_desktop(
            tmp_path,
            number,
            factor,
            session=f"s202601{number + 1:02}T030400Z-00000001",
            started=f"2026-01-{number + 1:02}T03:04:05Z",
        )
    runs = Listing(tmp_path).runs
    usual = load_usual_numbers(tmp_path, runs).table.set_index("relation")
    assert set(usual["runs"]) == {8}
    own = list_sides(tmp_path, "a", "summary:i3-2120t")["a"]
    assert set(own["runs"]) == {8}
    for relation, number in usual["median_ns"].items():
        assert own["median_ns"][relation] == number


def loaded_burst(after: Burst, load: str, mbps: int | None) -> Burst:
    """Make the burst of `loaded` that follows another: `mix` at a load."""
    parameters = Parameters(
        operation="mix", threads=2, load_mbps=mbps, bytes=1 << 28, pages="huge"
    )
    return replace(
        after,
        benchmark="loaded",
        variant="mov",
        point=f"mix.{load}.x2.256M.huge",
        parameters=parameters,
        start_offset_ns=after.start_offset_ns + 1,
        other_ticks=None,
        other_units=((1 << 20,) * len(after.ticks),),
    )


def test_beside_a_summary_a_host_may_have_memory_of_two_settings(
    tmp_path: Path,
) -> None:
    """`mix` at full load and at 500 MB/s: one name of a column, two settings."""
    for second, (load, mbps) in enumerate((("full", None), ("at500M", 500))):
        run_id = f"r20260102T03040{second}Z-0badcaf{second}"
        run = builders.a_run(run_id=run_id, benchmarks=("cas", "loaded"))
        bursts = [b for b in builders.make_bursts(run) if b.benchmark == "cas"]
        bursts.append(loaded_burst(bursts[-1], load, mbps))
        Store(tmp_path).publish(run, iter(bursts))
    usual = load_usual_numbers(tmp_path, Listing(tmp_path).runs).table
    assert usual.duplicated(["benchmark", "variant", "relation"]).any()
    own = list_sides(tmp_path, run.host.name, "summary:i3-2120t")[run.host.name]
    numbers = usual[usual["benchmark"] == "cas"].set_index("relation")["median_ns"]
    for relation, number in numbers.items():
        assert own["median_ns"][relation] == number


def test_a_summary_beside_a_run_gets_ratios_and_no_verdict(tmp_path: Path) -> None:
    run = builders.a_run()
    Store(tmp_path).publish(run, builders.make_bursts(run))
    rows = tabulate_side_medians(
        tmp_path, [run.run_id, "summary:i9-13980hx-boost", "summary:i9-13980hx-noboost"]
    )
    of_all_pairs = rows[rows["relation"] == "all pairs"].set_index("benchmark")
    mine = of_all_pairs[of_all_pairs["side"] == run.run_id]
    theirs = of_all_pairs[of_all_pairs["side"] == "summary:i9-13980hx-boost"]
    assert mine["runs"].unique() == [1]
    assert theirs["runs"].unique() == [0]
    expected = theirs["median_ns"]["cas"] / mine["median_ns"]["cas"]
    assert theirs["ratio"]["cas"] == pytest.approx(expected)
    other = tabulate_side_medians(tmp_path, ["summary:rpi4-qnx800", "summary:i3-2120t"])
    is_cas = (other["side"] == "summary:i3-2120t") & (other["benchmark"] == "cas")
    assert other[is_cas]["ratio"].isna().all()  # other instructions
    text = render_sides(rows)
    assert "no verdict is possible" in text
    assert "equivalent" not in text
    assert not re.search(r"[+-]\d+\.\d%", text)


@pytest.mark.parametrize(
    "option",
    [
        ("--threshold", "5%"),
        ("--benchmark", "cas"),
        ("--cpus", "0-3"),
        ("--blocks", "time"),
        ("--point", "random.64K"),
    ],
)
def test_beside_a_summary_no_option_is_ignored(
    made_lab: Path, option: tuple[str, str]
) -> None:
    with Fleet(made_lab) as fleet:
        done = fleet("compare", "rome", "summary:ryzen-9-9950x", *option)
    assert done.exit_code == UsageError.exit_code
    assert f"{option[0]}" in done.stderr
    assert "not for a summary" in done.stderr


def test_a_published_table_stands_beside_mine_in_a_row(made_lab: Path) -> None:
    with Fleet(made_lab) as fleet:
        named = fleet("compare", "rome", "summary:ryzen-9-9950x").stdout
        model = fleet("compare", "rome", "summary:AMD Ryzen 9 9950X").stdout
        unknown = fleet("show", "summary:5950x")
    assert max(map(len, named.partition("cas/cmpxchg")[2].splitlines())) <= 80
    row = re.search(r"\nllc +24\.8 +±\d\.\d% +23\.0 +0\.93\n", named)
    assert row, named
    assert "\nrelation    mine  ±95% of mine  published  ratio\n" in named
    assert "only mine: cas/cmpxchg: smt 8.1, system 131.3" in named
    assert "the median of 2 tables" in model
    assert re.search(r"\nllc .* 21\.9 +0\.88\n", model), "as `show` has it"
    assert "did you mean 'ryzen-9-5950x'?" in unknown.stderr


def test_the_tables_of_a_cpu_model_are_shown_together(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        for name in ("AMD Ryzen 9 9950X", "AMD Ryzen 9 9950X 16-Core Processor"):
            text = fleet("show", f"summary:{name}").stdout
            assert "2 tables, ryzen-9-9950x" in text
            assert re.search(r"\n *llc +2 +21\.9 +20\.8 +23\.0 +1\.11\n", text), text
            rows = json.loads(fleet("show", f"summary:{name}", "--json").stdout)["rows"]
            assert {row["summary"] for row in rows} == {
                "ryzen-9-9950x",
                "ryzen-9-9950x-2",
            }
        done = fleet("show", "summary:AMD Ryzen 9 99")
        assert done.exit_code == 2
        assert "no summary is called 'AMD Ryzen 9 99'" in done.stderr
    root = tmp_path / "results"
    model = "Intel(R) Xeon(R) Gold 6242 CPU @ 2.80GHz"
    assert compute_model_medians(str(root), model)["summary"].nunique() == 2
    (root / "summaries").mkdir(parents=True)
    (root / "summaries/friend.parquet").write_bytes(b"PAR1 and no more")
    with pytest.warns(StoreWarning, match=r"friend.parquet: .* It is left out"):
        assert compute_model_medians(str(root), model)["summary"].nunique() == 2


@pytest.mark.long
def test_summaries_are_listed_and_shown_whole_by_the_commands(tmp_path: Path) -> None:
    show = ("show", "summary:rpi4-linux")
    refused = (
        ((*show, "rome"), "fleet compare summary:rpi4-linux rome puts"),
        ((*show, "--csv"), "shown whole"),
        (("runs", "rome", "--summaries"), "lists all"),
    )
    with Fleet(tmp_path) as fleet:
        assert "rpi4-qnx800" in fleet("runs", "--summaries").stdout
        assert "summary, not raw" in fleet("show", "summary:rpi4-qnx800").stdout
        for words, why in refused:
            done = fleet(*words)
            assert done.exit_code == 2, done.stderr
            assert why in " ".join(done.stderr.split()), done.stderr
