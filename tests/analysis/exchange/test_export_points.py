"""Ladders as other programs print them."""

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.analysis.exchange.export import export
from fleet.errors import UsageError
from tests import memory


def text(root: Path, run_id: str, form: str, benchmark: str | None = None) -> str:
    return "".join(export(root, run_id, form, benchmark))


def test_the_summary_of_stream_has_the_rate_of_all_threads_in_memory(tmp_path: Path) -> None:
    run = memory.publish(tmp_path)
    lines = text(tmp_path, run.run_id, "stream").splitlines()
    assert lines[0] == "Number of Threads requested = 2"
    assert lines[1].split() == [
        "Function",
        "Best",
        "Rate",
        "MB/s",
        "Avg",
        "time",
        "Min",
        "time",
        "Max",
        "time",
    ]
    rates = {line.split()[0]: [float(word) for word in line.split()[1:]] for line in lines[2:]}
    assert set(rates) == {"Read:", "Write:", "WriteNT:"}
    best, mean, least, most = rates["Read:"]
    assert best == pytest.approx(2 * 40e3, rel=3e-3)
    assert least <= mean <= most
    assert best * least == pytest.approx(2 * 64 * memory.M / 1e6, rel=1e-3)


def test_each_size_of_a_chase_is_a_line_of_multichase(tmp_path: Path) -> None:
    run = memory.publish(tmp_path)
    lines = text(tmp_path, run.run_id, "multichase").splitlines()
    found = {
        tuple(about.split()[1:4:2]): float(ns) for about, ns in zip(lines[::2], lines[1::2], strict=True)
    }
    assert found["512k", "random,"] == pytest.approx(3.5, rel=1e-3)
    assert found["64m", "rising,"] == pytest.approx(3.0, rel=1e-3)
    assert len(found) == 2 * len(memory.SIZES)


def test_each_point_is_a_block_of_likwid(tmp_path: Path) -> None:
    run = memory.publish(tmp_path)
    blocks = text(tmp_path, run.run_id, "likwid").split("Test: ")[1:]
    assert len(blocks) == 3 * 2 * len(memory.SIZES)
    (block,) = [
        b for b in blocks if b.startswith("read_avx2\nSize (Byte):\t\t524288\nNumber of threads:\t1\n")
    ]
    assert float(block.split()[-1]) == pytest.approx(250e3, rel=1e-3)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    run = memory.publish(tmp_path)
    with pytest.raises(UsageError, match="--format stream prints bandwidth, not chase"):
        text(tmp_path, run.run_id, "stream", "chase")
    with pytest.raises(UsageError, match="takes no --value"):
        list(export(tmp_path, run.run_id, "likwid", None, "mean"))
    other = memory.publish(tmp_path / "other", facts=replace(run.facts), rates={}, host="o")
    with pytest.raises(UsageError, match="--benchmark bandwidth: not measured; there are chase/mov"):
        text(tmp_path / "other", other.run_id, "stream")
