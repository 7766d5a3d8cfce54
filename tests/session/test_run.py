"""`fleet run` on this machine, whole: the real agent, the real store, the command as a
person types it.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests import needs
from tests.command import Fleet, interrupt, journal_lines, wait_for
from tests.native.preload import preload
from tests.shared import agents_cache

LOCAL = "hosts:\n  here: {via: local, address: localhost, labels: {rack: b2}}\n"
SHORT = ("--rounds", "2", "--samples", "9", "-q")
LONG = ("--rounds", "100000", "--samples", "9")


@pytest.fixture(scope="module")
def measured_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """One run of everything on this machine, for the tests that only read."""
    needs.program("cc", "gcc")
    needs.cpus(2)
    fleet = Fleet(tmp_path_factory.mktemp("measured"))
    fleet.inventory(LOCAL)
    done = fleet("run", "-b", "cas,readwrite,clock", *SHORT, "--label", "kernel=test")
    assert done.exit_code == 0, done.stderr
    return fleet


@pytest.fixture
def fleet(fleet: Fleet) -> Fleet:
    fleet.inventory(LOCAL)
    return fleet


def journals(fleet: Fleet) -> list[Path]:
    return sorted((fleet.results / ".fleet/journal").glob("*/stream.jsonl"))


def two_cpus() -> str:
    """Two CPUs this process may use, as --cpus takes them."""
    return ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))


def test_a_run_stores_every_pair_of_every_benchmark(measured_fleet: Fleet) -> None:
    samples = measured_fleet.samples()
    cpus = len(os.sched_getaffinity(0))
    pairs = cpus * (cpus - 1) // 2
    counts = samples.groupby("benchmark", observed=True).size().to_dict()
    assert counts == {"cas": 2 * pairs, "readwrite": 2 * pairs, "clock": 2 * cpus}
    assert set(samples["ticks"].map(len)) == {10}
    assert set(samples["warmup"]) == {1}
    assert set(samples["host_id"].astype(str)) == {"here"}


def test_the_stored_ticks_are_those_the_agent_printed(
    fleet: Fleet, tmp_path: Path
) -> None:
    """A wrapper keeps a copy of what the real agent prints; every number must be found
    again.
    """
    copy = tmp_path / "copy.jsonl"
    compiler = tmp_path / "cc-and-tee"
    compiler.write_text(
        "#!/bin/sh\n"
        'case "$1" in --version) exec cc --version;; esac\n'
        'cc "$@" -O0 || exit 1\n'  # compiles in half the time
        "mv agent agent-real\n"
        f'mv agent-real "{tmp_path}/agent-real"\n'
        f'printf \'#!/bin/sh\\n"{tmp_path}/agent-real" "$@" | tee -a "{copy}"\\n\' >'
        " agent\n"
        "chmod 700 agent\n"
    )
    compiler.chmod(0o755)
    fleet.inventory(
        "hosts:\n  here: {via: local, address: localhost, toolchain: {cc:"
        f" {compiler}}}}}\n"
    )
    done = fleet("run", *SHORT)
    assert done.exit_code == 0, done.stderr + done.stdout

    def make_key(
        benchmark: object, round_: object, ping: object, pong: object
    ) -> tuple[object, ...]:
        return (str(benchmark), int(round_), int(ping), int(pong))  # type: ignore[call-overload]

    printed = {
        make_key(r["benchmark"], r["round"], r["ping"], r["pong"]): (
            r["ticks"],
            r["iterations"],
        )
        for r in map(json.loads, copy.read_text().splitlines())
        if r["record"] == "burst"
    }
    stored = {
        make_key(row.benchmark, row.round, row.ping_cpu, row.pong_cpu): (
            list(row.ticks),
            row.iterations,
        )
        for row in fleet.samples().itertuples()
    }
    assert len(printed) > 0
    assert stored == printed


def test_runs_lists_it_and_show_draws_it(measured_fleet: Fleet) -> None:
    (listed,) = measured_fleet("runs", "--json").json
    assert listed["state"] == "complete"
    assert "here" in measured_fleet("runs").stdout
    page = measured_fleet("show", "here")
    assert page.exit_code == 0, page.stderr
    assert "cas" in page.stdout
    assert "readwrite" in page.stdout
    assert measured_fleet("show", listed["run_id"][:14]).exit_code == 0


def test_a_plan_and_labels_are_stored_with_the_run(measured_fleet: Fleet) -> None:
    (path,) = (measured_fleet.results / "runs").glob("*.parquet")
    run = pd.read_parquet(path).iloc[0]
    assert json.loads(run["labels_json"]) == {"rack": "b2", "kernel": "test"}
    assert json.loads(run["plan_json"])["rounds"] == 2


def test_a_run_stores_what_was_asked_and_what_was_reached(fleet: Fleet) -> None:
    """Pairs that never converge get rounds until the budget is spent; the run is
    complete all the same.
    """
    needs.cpus(2)
    options = "--precision 0.01% --time-budget 2 --plan spread_s=0.2 --rounds 2 --samples 2 -q"
    done = fleet("run", "-b", "cas", "-c", two_cpus(), *options.split())
    assert done.exit_code == 0, done.stderr + done.stdout
    (run,) = pd.read_parquet(fleet.results / "runs").to_dict("records")
    plan = json.loads(run["plan_json"])
    assert plan["precision"] == 0.0001
    assert plan["time_budget_s"] == 2
    assert plan["spread_s"] == 0.2
    assert plan["rounds"] == 2
    assert plan["variant"] is None
    assert plan["warmup"] is None
    assert plan["pairs"] is None
    assert plan["order"] is None
    assert run["precision"] == 0.0001
    assert run["unconverged"] == 1
    assert run["converged"] == 0
    assert run["precision_reached"] > 0.0001
    assert any("numbers are known to 0.01 %" in note for note in run["notes"])
    assert (
        "not_converged: pairs did not reach the requested precision (1 of 1"
        in fleet("show").stdout
    )


@pytest.mark.slow
def test_a_time_budget_that_ends_in_the_first_round_stores_what_was_measured(
    fleet: Fleet,
) -> None:
    env = preload("slow.c")  # the forecast cannot know it
    fleet.environment["XDG_CACHE_HOME"] = str(agents_cache("dynamic"))
    fleet.inventory(LOCAL.replace("b2}}", f"b2}}, env: {json.dumps(env)}}}"))
    plan = ("-b", "chase", "--sizes", "8K..16K,64K", "-c", two_cpus().partition(",")[0])
    done = fleet("run", *plan, "--time-budget", "1")
    assert done.exit_code == 1, done.stderr + done.stdout
    assert (
        "here: the time budget ended in the first round; what was measured is stored."
        in done.stdout
    )
    assert re.search(
        r"in the first round: \d+ of 12 visits were not made: chase/mov ", done.stderr
    )
    (listed,) = fleet("runs", "--json").json
    assert listed["state"] == "partial"
    assert "in the first round" in fleet("show", "here").stdout


def test_another_tools_scheme_and_estimator_are_followed_and_named(
    fleet: Fleet,
) -> None:
    needs.cpus(2)
    done = fleet(
        "run",
        "-b",
        "cas",
        "-c",
        two_cpus(),
        "--preset",
        "c2clat",
        "--samples",
        "20",
        "-q",
    )
    assert done.exit_code == 0, done.stderr + done.stdout
    (burst,) = fleet.samples().to_dict("records")
    assert burst["iterations"] == 100
    assert len(burst["ticks"]) == 20
    assert burst["warmup"] == 0
    (answer,) = fleet("show", "--json").json
    (pair,) = answer["pairs"]
    assert answer["run"]["preset"] == "c2clat"
    assert answer["number"] == "min_ns"
    assert pair["min_ns"] == pytest.approx(
        min(burst["ticks"]) * burst["ns_per_tick"] / 200
    )
    assert f"{pair['min_ns']:.1f}" in fleet("show").stdout


def test_a_variant_only_one_of_the_benchmarks_has_leaves_the_other_its_own(
    fleet: Fleet,
) -> None:
    needs.cpus(2)
    done = fleet("run", "-c", two_cpus(), "-b", "cas,readwrite/mov", *SHORT)
    if os.uname().machine != "x86_64":
        assert "mov" in done.stdout + done.stderr
        return
    assert done.exit_code == 0, done.stderr + done.stdout
    samples = fleet.samples()
    used = set(
        zip(
            samples["benchmark"].astype(str),
            samples["variant"].astype(str),
            strict=True,
        )
    )
    assert used == {("cas", "cmpxchg"), ("readwrite", "mov")}


def test_pairs_of_each_relation_are_chosen_and_recorded(fleet: Fleet) -> None:
    needs.cpus(2)
    done = fleet("run", "-b", "cas", "--pairs", "per-relation:1", *SHORT)
    assert done.exit_code == 0, done.stderr + done.stdout
    (run,) = pd.read_parquet(fleet.results / "runs").to_dict("records")
    choice = json.loads(run["plan_json"])["pairs"]
    assert choice["which"] == "per-relation"
    assert choice["per_relation"] == 1
    pairs = {
        tuple(sorted(pair))
        for pair in fleet.samples()[["ping_cpu", "pong_cpu"]].to_numpy().tolist()
    }
    assert pairs == {tuple(pair) for pair in choice["listed"]}


def test_the_second_run_finds_the_agent_already_there(fleet: Fleet) -> None:
    agents = []  # of all tests, after each run, and when each was made
    for runs in (1, 2):
        done = fleet("run", "-b", "clock", "--rounds", "1", "--json", "-q")
        assert done.exit_code == 0
        assert [entry["state"] for entry in done.json] == ["complete"]
        assert len(fleet("runs", "--json").json) == runs
        agent_files = (agents_cache() / "fleet").glob("fleet-agent-*")
        agents.append({path: path.stat().st_mtime_ns for path in agent_files})
    assert agents[0]
    assert agents[0].items() <= agents[1].items()


def test_one_host_that_fails_does_not_cost_the_other_its_run(fleet: Fleet) -> None:
    fleet.inventory(LOCAL + "  dead: {address: 127.0.0.1, port: 1}\n")
    done = fleet("run", "-b", "clock", *SHORT, "--json")
    assert done.exit_code == 1
    states = {entry["host"]: (entry["state"], entry["stage"]) for entry in done.json}
    assert states == {"here": ("complete", "done"), "dead": ("failed", "connect")}


def test_what_kind_of_failure_kept_a_host_away_is_data(fleet: Fleet) -> None:
    fleet.inventory(
        LOCAL
        + "  dead: {address: 127.0.0.1, port: 1}\n"
        + "  unprepared: {via: local, before: 'false'}\n"
        + "  alien: {via: local, arch: s390x}\n"
    )
    done = fleet("run", "-b", "clock", *SHORT, "--json")
    stages = {entry["host"]: entry["stage"] for entry in done.json}
    assert stages == {
        "here": "done",
        "dead": "connect",
        "unprepared": "before",
        "alien": "probe",
    }
    shown = fleet("show", "all", "--json").json
    missing = {
        row["run"]["host_name"]: row["run"]["stage"]
        for row in shown
        if row["run"].get("why")
    }
    assert missing == {"dead": "connect", "unprepared": "before", "alien": "probe"}


def test_a_long_run_is_told_what_is_quicker_before_it_begins(fleet: Fleet) -> None:
    cpu = str(min(os.sched_getaffinity(0)))
    plan = ("-b", "clock", "-c", cpu, "--rounds", "1000000", "--plan", "deadline_s=2s")
    lines = fleet("run", *plan).stderr.splitlines()
    (told,) = [line for line in lines if "Quicker: " in line]
    assert re.search(
        r": Expected: [\d.]+ (h|min)\. Quicker: one CPU of each core", told
    )
    assert lines.index(told) < lines.index("here: measure")


def test_a_dry_run_touches_nothing(fleet: Fleet) -> None:
    done = fleet("run", "--dry-run", "-b", "cas", "--rounds", "7")
    assert done.exit_code == 0
    assert "7 rounds" in done.stdout
    assert not fleet.results.exists()


def test_a_dry_run_of_a_measured_host_knows_its_cpus_and_loads_no_pandas(
    measured_fleet: Fleet,
) -> None:
    code = (
        "import sys, fleet.cli\ntry: fleet.cli.main()\nfinally: print(*sys.modules,"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--dry-run", "-b", "cas"],
        cwd=measured_fleet.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"here ({len(os.sched_getaffinity(0))} CPUs): " in done.stdout
    assert "pandas" not in done.stderr.split()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "-b", "csa"], "unknown benchmark 'csa'"),
        (["run", "-c", "3-1"], "runs backwards"),
        (
            ["run", "-b", "cas/lsee"],
            "unknown variant 'lsee' of cas; there are auto, all, cmpxchg",
        ),
        (
            ["run", "--pairs", "some"],
            "must be half, ordered, per-relation:K, or a list such as 0-1,0-4",
        ),
        (["run", "--pairs", "0-9999", "-q"], "9999"),
        (["run", "--precision", "7"], "must be a share such as 1%"),
        (["run", "--preset", "c2cla"], "did you mean 'c2clat'?"),
        (["run", "--plan", "node=4095", "-q"], "node"),
        (["run", "--label", "kernel"], "write key=value"),
        (["run", "nobody"], "nobody"),
        (["run", "here", "!here"], "!here"),
        (["run", "-b", "cas/lse", "-q"], "lse"),
        (["run", "-c", "0,9999", "-q"], "9999"),
        (["show", "r2001"], "results: there is no such folder"),
        (["export"], "results: there is no such folder"),
        (["verify", "reslts"], "reslts: there is no such folder or file"),
        (["hosts", "-i", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(
    fleet: Fleet, arguments: list[str], words: str
) -> None:
    done = fleet(*arguments)
    output = done.stderr + done.stdout
    assert done.exit_code not in (0, 1, 70), output
    assert words in output
    assert "Traceback" not in output


def test_a_host_that_refuses_a_setting_for_good_is_not_tried_again(
    fleet: Fleet,
) -> None:
    done = fleet("run", "--governor", "no-such-governor", "-q", *SHORT)
    assert done.exit_code == 10
    assert "governor" in done.stdout
    assert "fleet resume" not in done.stdout
    assert "no unfinished session" in fleet("resume").stdout


def start_measuring(fleet: Fleet) -> tuple[subprocess.Popen[str], int]:
    """A run in whose journal there are bursts of every visit, and the process id of its
    agent.
    """
    process = fleet.start("run", *LONG)
    wait_for(
        lambda: any(path.read_bytes().count(b'"burst"') > 8 for path in journals(fleet))
    )
    (hello,) = (
        line for line in journal_lines(journals(fleet)[0]) if b'"hello"' in line
    )
    return process, int(json.loads(hello)["pid"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_controller_leaves_no_agent_and_keeps_what_arrived(
    fleet: Fleet, number: signal.Signals
) -> None:
    process, agent = start_measuring(fleet)
    if number is signal.SIGINT:
        interrupt(process)
    else:
        process.kill()
    out, err = process.communicate()
    wait_for(lambda: not Path(f"/proc/{agent}").exists())
    assert journals(fleet)
    if number is signal.SIGINT:
        assert process.returncode == 130, err
        assert "interrupted" in out
        assert "kept in the journal" in out
        (listed,) = fleet("runs", "--json").json
        assert listed["state"] == "unfinished"


def test_an_agent_killed_where_nothing_tells_in_which_visit_is_named_and_its_bursts_kept(
    fleet: Fleet,
) -> None:
    process, agent = start_measuring(fleet)
    os.kill(agent, signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == 10, err
    assert "killed by signal 9" in out
    assert "kept in the journal" in out
    assert journals(fleet)


def test_one_cpu_is_too_few_for_a_pair_but_enough_for_the_clock(fleet: Fleet) -> None:
    taskset = needs.program("taskset", "util-linux")
    on_one_cpu = (taskset, "-c", str(min(os.sched_getaffinity(0))))

    def run(*arguments: str) -> tuple[int, str]:
        process = fleet.start("run", *arguments, *SHORT, prefix=on_one_cpu)
        out, err = process.communicate()
        return process.returncode, out + err

    code, output = run("-b", "cas")
    assert code == 10
    assert "two" in output
    code, output = run("-b", "clock")
    assert code == 0, output
    assert set(fleet.samples()["ping_cpu"]) == {min(os.sched_getaffinity(0))}


def test_only_the_cpus_we_may_use_are_measured(fleet: Fleet) -> None:
    needs.cpus(2)
    first = min(os.sched_getaffinity(0))
    done = fleet("run", "-b", "clock", "-c", str(first), *SHORT)
    assert done.exit_code == 0
    assert set(fleet.samples()["ping_cpu"]) == {first}


def test_progress_that_nobody_reads_costs_no_run(fleet: Fleet) -> None:
    process = fleet.start("run", "-b", "clock", "--rounds", "2", "--json")
    assert process.stderr is not None
    process.stderr.close()
    assert process.stdout is not None
    (ended,) = json.loads(process.stdout.read())["rows"]
    assert process.wait() == 0
    assert ended["state"] == "complete"


def test_a_program_without_stderr_keeps_its_progress_off_stdout(fleet: Fleet) -> None:
    without = ("/bin/sh", "-c", 'exec "$@" 2>&-', "sh")
    closed = fleet.start(
        "run", "-b", "clock", "--rounds", "2", "--json", prefix=without
    )
    assert [
        ended["state"] for ended in json.loads(closed.communicate()[0])["rows"]
    ] == ["complete"]


def test_a_results_root_that_may_not_be_written_is_told_with_the_remedy(
    fleet: Fleet,
) -> None:
    fleet.results.mkdir(mode=0o555)
    as_any_user = (
        needs.program("setpriv", "util-linux"),
        "--bounding-set=-dac_override",
        "--",
    )
    prefix = as_any_user if os.geteuid() == 0 else ()
    process = fleet.start("run", "-b", "clock", "--rounds", "1", "-q", prefix=prefix)
    _, err = process.communicate()
    assert process.returncode == 11
    assert "Permission denied. Give this user permission for " in err
    assert "or name another results root" in err
    assert "kept" not in err, "nothing had arrived"


def test_two_sessions_into_one_root_at_the_same_time_do_not_disturb_one_another(
    fleet: Fleet,
) -> None:
    sessions = [
        fleet.start(
            "run",
            "-b",
            "clock",
            "--rounds",
            "200",
            "--samples",
            "9",
            "-q",
            "--lock",
            "wait",
        )
        for _ in range(2)
    ]
    for session in sessions:
        session.communicate()
    assert [session.returncode for session in sessions] == [0, 0]
    samples = fleet.samples()
    assert samples["run_id"].nunique() == 2
    assert len(samples) == 2 * 200 * len(os.sched_getaffinity(0))
    left = [
        *(fleet.results / ".fleet/staging").iterdir(),
        *(fleet.results / ".fleet/journal").iterdir(),
    ]
    assert left == []


def test_a_results_root_that_cannot_be_written_is_said_before_anything_is_measured(
    fleet: Fleet,
) -> None:
    (fleet.results / ".fleet").mkdir(parents=True)
    (fleet.results / ".fleet/journal").write_text("not a folder")
    done = fleet("run", "-b", "clock", *SHORT)
    assert done.exit_code == 11
    assert "cannot keep journals there: " in done.stderr
    assert "connect" not in done.stderr
