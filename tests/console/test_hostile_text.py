"""Whatever a host or a file says leaves escaped: on terminals, in pages, CSV, Markdown
and OpenMetrics.
"""

import csv
import io
import json
import re
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

import pytest

from fleet.cli.streams import escape_controls
from fleet.model import Cpu, Host, Parameters
from fleet.store import Store, new_run_id
from fleet.store.amendments import Amendment, amend
from fleet.store.rows import make_runs_row
from fleet.text import as_json, printable
from tests import builders
from tests.command import Fleet

# ESC, bell, CSI of 8 bits, a bidirectional override, markup, a formula, quotes, a line
# of its own
HOSTILE = "=\x1b[31m<b>&\x07\x9b2J\u202e\"'|{}\\\x7f\nfleet: all is well,\r\t[x](y)"
CPUS = tuple(
    Cpu(number, core=number, package=0, governor=HOSTILE, model=HOSTILE)
    for number in range(4)
)
OF_FETCH = Parameters(  # words, which may be followed by how they were made
    operation=f"read-{HOSTILE}",
    state=f"own-{HOSTILE}",
    order="chase",
    pages="base",
    bytes=1 << 17,
)
KIND = {"benchmark": "fetch", "variant": HOSTILE}
KEPT = "\n\t"
OF_CARDS = {"svg", "title", "desc", "style", "rect", "image", "path", "text"}


def hostile(noun: Any, *names: str) -> Any:
    """The noun with this text in each of its fields that is one; `names`: fields that
    stay.
    """
    texts = [
        f.name
        for f in fields(noun)
        if isinstance(getattr(noun, f.name), str) and f.name not in names
    ]
    return replace(noun, **dict.fromkeys(texts, HOSTILE))


STAY = (
    "run_id",
    "session_id",
    "host_id",
    "state",
    "content_sha256",
    "estimator",
    "preset",
)


def a_row(*of: Any) -> dict[str, Any]:
    """A row of `runs` in which every text is hostile that nothing is decoded from."""
    row = make_runs_row(*of)
    texts = [
        name
        for name, value in row.items()
        if isinstance(value, str) and not name.endswith("_json")
    ]
    return row | {name: HOSTILE for name in texts if name not in STAY}


def publish(root: Path, label: str) -> None:
    host = Host("odd", HOSTILE, labels=MappingProxyType({HOSTILE: HOSTILE}))
    run = builders.a_run(CPUS, new_run_id(), host, benchmarks=("cas", "fetch"))
    assert run.hello
    raw = {
        **run.hello.raw,
        "note": HOSTILE,
        "compiler": HOSTILE,
        "plan": {"benchmarks": [{"benchmark": "cas", "variant": "cmpxchg"}, KIND]},
    }
    run = replace(
        run,
        facts=replace(
            hostile(run.facts, "os", "arch"),
            notes=(HOSTILE,),
            mitigations={HOSTILE: HOSTILE},
        ),
        hello=replace(
            hostile(run.hello, "os", "arch", "estimator", "preset"),
            raw=MappingProxyType(raw),
        ),
        agent=hostile(run.agent),
        labels=MappingProxyType({"label": label, "text": HOSTILE}),
        notes=(HOSTILE,),
        fleet_version=HOSTILE,
    )

    def bursts() -> Any:
        yield from builders.make_bursts(
            replace(run, plan=replace(run.plan, benchmarks=("cas",)))
        )
        for visit in range(3):
            yield builders.a_burst(
                benchmark="fetch",
                variant=HOSTILE,
                round=visit,
                point=HOSTILE,
                unit="line",
                parameters=OF_FETCH,
            )

    Store(root).publish(run, bursts())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("hostile")
    root = folder / "results"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fleet.store.samples.make_runs_row", a_row)
        for label in "aaabbb":
            publish(root, label)
    store = Store(root)
    amend(store.place, [store.list_runs()[0].run_id], Amendment({"more": HOSTILE}))
    (root / "runs" / "\x1b[31m\u202e.parquet").write_bytes(b"no table")
    odd = root / "samples/host_id=odd" / "run_id=r20260102T030405Z-0badcaff"
    odd.mkdir(parents=True)
    (odd / "samples.parquet").write_bytes(HOSTILE.encode())
    journal = root / ".fleet/journal" / "r20260102T030405Z-0badcaf0"
    journal.mkdir(parents=True)
    (journal / "run.json").write_text(json.dumps({"run_id": HOSTILE, "host": HOSTILE}))
    return Fleet(folder)


COMMANDS = (
    "runs",
    "runs --json",
    "runs --relation package",
    f"runs --point {HOSTILE.split(maxsplit=1)[0]}",
    "show all",
    "show all --json",
    "show all --map --ladder --ways",
    "export -F openmetrics",
    "export -F markdown",
    "export -b cas",
    "export -b cas -F core-to-core-latency",
    "export -b readwrite",
    "compare label=a label=b",
    "compare label=a label=b --json",
    "verify",
    "verify --json",
    "withdraw",
    "resume --list",
    "runs --summaries",
    f"show {HOSTILE.split(maxsplit=1)[0]}",
    f"export -F {HOSTILE.split(maxsplit=1)[0]}",
    f"--odd{HOSTILE.split(maxsplit=1)[0]}",
)


def raw(text: str) -> list[str]:
    """The characters that may be more than text."""
    return [sign for sign in text if not sign.isprintable() and sign not in KEPT]


@pytest.mark.long
@pytest.mark.parametrize("words", COMMANDS, ids=range(len(COMMANDS)))
def test_no_command_prints_a_control_character(fleet: Fleet, words: str) -> None:
    done = fleet(*words.split(" "))
    assert raw(done.stdout + done.stderr) == []
    assert "Traceback" not in done.stderr
    assert not re.search("^fleet: all is well", done.stdout + done.stderr, re.MULTILINE)
    if "--json" in words and done.exit_code == 0:
        json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.parametrize(
    "words", ["report all -o -", "report -o - --compare label=a label=b"]
)
def test_no_page_holds_markup_of_a_host(fleet: Fleet, words: str) -> None:
    done = fleet(*words.split())
    assert done.exit_code == 0, done.stderr
    assert raw(done.stdout + done.stderr) == []
    assert "<b>" not in done.stdout
    assert "&lt;b&gt;" in done.stdout


@pytest.mark.long
def test_a_card_and_a_site_hold_no_markup_of_a_host(
    fleet: Fleet, tmp_path: Path
) -> None:
    card = tmp_path / "card.svg"
    site = tmp_path / "site"
    for place in (card, f"{site}/"):
        done = fleet("report", "all", "-o", str(place))
        assert done.exit_code == 0, done.stderr
        assert raw(done.stdout + done.stderr) == []
    drawn = [card, *site.rglob("*.svg")]
    assert len(drawn) > 1
    for path in drawn:
        assert {
            element.tag.partition("}")[2] for element in ElementTree.parse(path).iter()
        } <= OF_CARDS
    for path in [*drawn, *site.rglob("*.html"), *site.rglob("*.json")]:
        assert raw(path.read_text()) == []
    for path in site.rglob("*.html"):
        assert "<b>" not in path.read_text()


@pytest.mark.parametrize(
    "words", ["show all --csv", "compare label=a label=b --csv", "export -F samples"]
)
def test_csv_is_one_table_without_formulas(fleet: Fleet, words: str) -> None:
    done = fleet(*words.split())
    assert done.exit_code == 0, done.stderr
    head, *rows = csv.reader(io.StringIO(done.stdout))
    assert rows
    assert {len(row) for row in rows} == {len(head)}
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if re.match(r"[=+@\t\r]|-(?![\d.])", cell)]
    assert raw(done.stdout) == []


@pytest.mark.long
def test_files_are_written_as_what_is_printed(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "out"
    for words in (
        "export -F openmetrics",
        "export -F samples",
        "export -b cas -F core-to-core-latency",
    ):
        printed = fleet(*words.split())
        assert fleet(*words.split(), "-o", str(file)).exit_code == 0
        assert file.read_text() == printed.stdout
        file.unlink()


def test_a_name_is_no_markup_for_other_programs(fleet: Fleet) -> None:
    samples = [
        line
        for line in fleet("export", "-F", "openmetrics").stdout.splitlines()
        if line[0] != "#"
    ]
    value = r'"(?:[^"\\\n]|\\[\\"n])*"'
    assert samples
    assert all(
        re.fullmatch(rf"\w+\{{\w+={value}(,\w+={value})*\}} \S+", line)
        for line in samples
    )
    page = fleet("export", "-F", "markdown").stdout
    assert not re.search(r"(?<!\\)[<\[`]", page)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in page.splitlines()} == {7}


def test_json_of_any_text_is_printable_and_means_that_text() -> None:
    text = HOSTILE + "\U000e0001é€😀\ud800"
    assert printable(as_json(text)) == as_json(text)
    assert json.loads(as_json(text)) == text


def test_a_terminal_gets_the_colours_of_ours_only() -> None:
    text = "\x1b[38;5;1mred\x1b[0m \x1b[2J\x1b]0;title\x07\x1b[?25l"
    assert (
        escape_controls(text, colours=True)
        == "\x1b[38;5;1mred\x1b[0m \\x1b[2J\\x1b]0;title\\x07\\x1b[?25l"
    )
    assert "\x1b" not in escape_controls(text, colours=False)
