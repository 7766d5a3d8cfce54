"""The agent as a command: options, help, formats, refusals."""

import csv
import io
import json
import re

import pytest

from tests import needs
from tests.native.agent import QUICK, SMALL_ONES, bursts, decode, run
from tests.native.build import BUILD_ID


@pytest.mark.long
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--bogus"], 2, "unknown argument '--bogus'"),
        (["stray"], 2, "unknown argument 'stray'"),
        (["--samples"], 2, "--samples wants a value"),
        (["--samples", "0"], 2, "from 1 to 40000, not '0'"),
        (["--samples", "-1"], 2, "not '-1'"),
        (["--samples", "99999999999999999999"], 2, "whole number"),
        (["--samples", "40000", "--warmup", "1"], 2, "together"),
        (["-i", "1.5"], 2, "not '1.5'"),
        (["--until-eof=yes"], 2, "takes no value"),
        (["-b", "cas,cash"], 2, "no 'cash'"),
        (["-b", ""], 2, "no ''"),
        (["-b", "all", "-v", "all=c11"], 2, "names 'all', which is not measured"),
        (["-c", "0-"], 2, "a list like 0-3,8"),
        (["-c", "3-1"], 2, "a list like 0-3,8"),
        (["-c", "0,,1"], 2, "a list like 0-3,8"),
        (["-c", "0-99999999999"], 2, "a list like 0-3,8"),
        (["-c", "0-1048575"], 4, "cannot be used"),
        (["--pairs", "some"], 2, "cannot have 'some'"),
        (["--format", "xml"], 2, "cannot be 'xml'"),
        (["--deadline", "0"], 2, "seconds from 0.001"),
        (["--deadline", "nan"], 2, "seconds from 0.001"),
        (["--stuck-timeout", "1e-9"], 2, "seconds from 0.001"),
        (["-b", "cas", "--variant", "swp"], 5, "there is: "),
        (["-b", "all", "--variant", "c11"], 5, "clock has no variant 'c11'"),
        (["--variant", "cas=swp"], 5, "cas has no variant 'swp'"),
        (["--variant", "cas=c11,clock=c11"], 2, "'clock', which is not measured"),
        (["--variant", "cas=c11,mov"], 2, "a list like"),
        (["--precision", "0"], 2, "a share like 1%"),
        (["--precision", "200%"], 2, "a share like 1%"),
        (["--rounds", "3", "--time-budget", "9"], 2, "--precision"),
        (["--preset", "c2c"], 2, "not 'c2c'"),
        (["--sep", "6"], 2, "multiple of 4"),
        (["--owner", "me"], 2, "ping|pong"),
        (["--spread", "-1"], 2, "seconds from 0"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line_before_anything_is_printed(
    args, code, words
):
    done = run(*args)
    assert done.returncode == code
    assert done.stdout == ""
    assert re.fullmatch(r"fleet-agent: [^\n]+\n", done.stderr)
    assert words in done.stderr


@pytest.mark.parametrize(
    "spelling", [["-s3"], ["-s", "3"], ["--samples", "3"], ["--samples=3"]]
)
def test_every_spelling_of_an_option_means_the_same(spelling):
    records = decode(run("-b", "clock", "-r1", "-fjsonl", *spelling).stdout)
    assert records[0]["plan"]["samples"] == 3


def test_a_variant_can_be_chosen_for_one_benchmark():
    needs.cpus(2)
    records = decode(
        run(
            "-b",
            SMALL_ONES,
            "--variant",
            "cas=all,readwrite=c11",
            "-f",
            "jsonl",
            *QUICK,
        ).stdout
    )
    chosen = [
        (choice["benchmark"], choice["variant"])
        for choice in records[0]["plan"]["benchmarks"]
    ]
    assert ("cas", "c11") in chosen
    assert len([name for name, _ in chosen if name == "cas"]) > 1
    assert [variant for name, variant in chosen if name == "readwrite"] == ["c11"]
    assert [variant for name, variant in chosen if name == "clock"] == [
        records[0]["clock"]
    ]


def test_help_names_every_word_that_a_benchmark_takes():
    text = " ".join(run("--help").stdout.split())
    described = json.loads(run("--describe").stdout)["benchmarks"]
    for benchmark in described:
        for parameter in benchmark["parameters"]:
            words = (
                parameter.get("words", {})
                if parameter["option"] in ("op", "state", "share")
                else {}
            )
            listed = ", ".join(
                w if w == says else f"{w} ({says})" for w, says in words.items()
            )
            assert not words or f"{benchmark['name']}: {listed}." in text


def test_help_names_every_option_and_exit_status():
    text = run("--help").stdout
    for word in (
        "--benchmark",
        "--variant",
        "--until-eof",
        "--deadline",
        "--governor",
        "EXAMPLES",
    ):
        assert word in text
    statuses = text.partition("EXIT STATUS\n")[2].partition("\n\n")[0]
    assert re.findall(r"^ +(\d)", statuses, re.MULTILINE) == list("01234567")
    assert max(len(line) for line in text.splitlines()) <= 80


def test_build_id_and_version_prove_which_binary_this_is():
    assert run("--build-id").stdout == f"{BUILD_ID}\n"
    assert BUILD_ID in run("--version").stdout


def test_list_tells_cpus_variants_and_clock():
    text = run("--list").stdout
    assert re.search(r"^cas +\S+.*c11$", text, re.MULTILINE)
    assert re.search(r"^clock rate \d+ ticks", text, re.MULTILINE)


def test_csv_holds_every_sample_exactly():
    needs.cpus(2)
    rows = list(
        csv.DictReader(io.StringIO(run("-b", "cas,clock", "-f", "csv", *QUICK).stdout))
    )
    cas = [row for row in rows if row["benchmark"] == "cas"]
    assert len(cas) % (2 * 10) == 0
    assert {row["sample"] for row in cas} == set("0123456789")
    assert all((row["sample"] == "0") == (row["warmup"] == "1") for row in rows)
    assert all(
        int(row["ticks"]) > 0 and int(row["ticks_per_second"]) > 0 for row in rows
    )


def test_the_matrix_shows_a_number_for_every_pair_below_the_diagonal():
    needs.cpus(2)
    text = run("-b", "cas", "-r", "1", *QUICK[2:]).stdout
    assert text.startswith("cas, variant ")
    numbers = re.findall(r"^ +\d+((?: +\d+\.\d)*) *$", text, re.MULTILINE)
    assert [len(row.split()) for row in numbers][1:] == list(range(1, len(numbers)))
    assert re.search(r"^ +min +\d+\.\d +CPU \d+ and \d+$", text, re.MULTILINE)


def test_a_refused_realtime_priority_is_a_note_and_no_failure():
    drop = (
        needs.program("setpriv", "util-linux"),
        "--bounding-set",
        "-sys_nice",
        "--inh-caps",
        "-sys_nice",
    )
    needs.root()
    done = run(
        "-b",
        "clock",
        "--priority",
        "5",
        "-f",
        "jsonl",
        *QUICK,
        prefix=(*drop, "prlimit", "--rtprio=0"),
    )
    records = decode(done.stdout)
    assert done.returncode == 0, done.stderr
    assert records[0]["priority"] is None
    assert "priority 5 was refused" in records[1]["text"]
    assert bursts(records)
    unasked = decode(
        run(
            "-b",
            "clock",
            "-f",
            "jsonl",
            *QUICK,
            prefix=(*drop, "prlimit", "--rtprio=0"),
        ).stdout
    )
    assert unasked[0]["priority"] is None
    assert not any(
        "priority" in record["text"] for record in unasked if record["record"] == "note"
    )


def test_the_usual_priority_is_for_short_bursts_and_can_be_declined():
    """Nobody else can use the CPUs meanwhile; groups work on all CPUs, chosen
    iterations take long.
    """
    needs.root()
    clock = ("-b", "clock", "-f", "jsonl")
    few = QUICK[:4]
    usual, declined, chosen = (
        decode(run(*clock, *more, *few).stdout)
        for more in ((), ("--priority", "0"), ("-i", "100"))
    )
    groups = decode(
        run(
            "-b", "bandwidth", "-f", "jsonl", "--sizes", "32K", "--threads", "1", *few
        ).stdout
    )
    priorities = [
        records[0]["priority"] for records in (usual, declined, chosen, groups)
    ]
    assert priorities == [1, None, None, None]


def test_a_granted_realtime_priority_is_recorded():
    needs.root()
    records = decode(
        run("-b", "clock", "--priority", "5", "-f", "jsonl", *QUICK).stdout
    )
    assert records[0]["priority"] == 5


def test_too_little_address_space_for_a_thread_is_named():
    done = run(
        "-b",
        "clock",
        *QUICK,
        prefix=(needs.program("prlimit", "util-linux"), "--as=6000000"),
    )
    assert done.returncode == 1, done.stderr
    assert "ulimit -v" in done.stderr, done.stderr


def test_the_operating_systems_clock_is_a_variant_beside_the_one_in_use() -> None:
    plan = decode(run("-b", "clock", "-v", "clock=all", "-r1", "-fjsonl").stdout)[0]
    variants = [choice["variant"] for choice in plan["plan"]["benchmarks"]]
    assert variants == list(dict.fromkeys([plan["clock"], "monotonic_raw"]))
