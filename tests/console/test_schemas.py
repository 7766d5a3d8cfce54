"""The JSON Schemas that `fleet schema` prints: what programs read of fleet keeps its
keys and types.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from fleet.store.places import Folder
from fleet.store.reading import read_record
from tests.command import ROOT, Done, Fleet

SCHEMAS = ROOT / "fleet" / "cli" / "schemas"
RELEASED = ROOT / "tests" / "recordings" / "released_keys.txt"
COMMANDS = {
    "accept": ("accept all",),
    "beside": ("compare rome summary:rpi4-linux",),
    "bursts": ("show rome --pair 0-1",),
    "changes": ("compare lucca", "compare pisa", "compare node1"),
    "compare": ("compare siena rome", "compare rome milan -b cas"),
    "history": ("runs --relation smt", "runs --point random.8M.huge"),
    "closest": ("show rome --closest 8 -c cores", "show verona --closest 2"),
    "cpus": ("show rome --cpus-of core", "show rome milan --cpus-of smt"),
    "hosts": ("hosts", "hosts rome", "hosts nodes"),
    "plan": ("run --dry-run rome", "run --dry-run nodes -b chase --rounds 7"),
    "resume": ("resume --dry-run",),
    "runs": ("runs", "runs rome", "runs nodes", "runs kernel=new"),
    "show": (
        "show",
        "show rome",
        "show siena",
        "show lucca",
        "show pisa -b chase",
        "show node6",
    ),
    "siblings": ("compare node* --siblings", "compare node1,node2,node3 --siblings"),
    "summaries": ("runs --summaries", "show summary:rpi4-linux"),
    "verify": ("verify",),
}
"""Commands that run on the lab, by the schema of their output."""


def load_schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return schema


@cache
def make_validator(name: str) -> Draft202012Validator:
    """Make a schema's validator once, since checking the schema takes longer than most
    documents.
    """
    return Draft202012Validator(load_schema(name))


def list_errors(name: str, document: Any) -> list[str]:
    return [error.message for error in make_validator(name).iter_errors(document)]


def thin_lists(value: Any, limit: int) -> Any:
    """Copy a document with at most `limit` values of each of its lists, of all parts of
    the list.
    """
    if isinstance(value, Mapping):
        return {key: thin_lists(inner, limit) for key, inner in value.items()}
    if isinstance(value, list):
        return [
            thin_lists(inner, limit) for inner in value[:: -(-len(value) // limit) or 1]
        ]
    return value


def list_keys(schema: Any, path: str) -> Iterator[str]:
    """List the keys that a schema describes: show.rows.run.run_id."""
    if isinstance(schema, Mapping):
        for key, value in schema.get("properties", {}).items():
            yield f"{path}.{key}"
            yield from list_keys(value, f"{path}.{key}")
        for inner in (schema.get("items"), *schema.get("anyOf", ())):
            yield from list_keys(inner, path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name in COMMANDS for words in COMMANDS[name]]
)
def test_what_a_command_prints_fits_its_schema_and_nothing_else_does(
    made_lab: Path, tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "inventory.yaml").write_text((made_lab / "inventory.yaml").read_text())
    with Fleet(tmp_path, {"FLEET_RESULTS": str(made_lab / "results")}) as fleet:
        document = json.loads(fleet(*words.split(), "--json").stdout)
    assert document["schema"] == f"fleet.{name}/1"
    document = thin_lists(document, 40)  # validating is slow, and rows are alike
    assert list_errors(name, document) == []
    document = thin_lists(document, 2)
    assert list_errors(name, document | {"schema": f"fleet.{name}/2"})
    for row in document["rows"][:1]:
        assert list_errors(name, document | {"rows": [row | {"another": 1}]})
        for key in row:
            less = {other: value for other, value in row.items() if other != key}
            assert list_errors(name, document | {"rows": [less]}), key
            assert list_errors(name, document | {"rows": [row | {key: object()}]}), (
                f"{key} of any type"
            )


@pytest.mark.long
def test_what_the_commands_of_hosts_print_fits_its_schema(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory(
            "hosts: {here: {via: local}, gone: {via: command, command: ['false']}}\n"
        )
        run = ("run", "-b", "clock", "-c", "0", "--rounds", "1", "--lock", "off")
        for words in (("check",), run, ("clean",)):
            document = json.loads(fleet(*words, "-q", "--json").stdout)
            assert [row["host"] for row in document["rows"]] == ["here", "gone"]
            assert list_errors(words[0], document) == []


def test_the_record_in_a_samples_file_fits_its_schema(made_lab: Path) -> None:
    place = Folder(made_lab / "results")
    names = sorted(place.files("samples/*/*/samples.parquet"))
    assert len(names) > 50
    for name in names[::10]:
        assert list_errors("record", json.loads(read_record(place, name))) == []


def test_the_schemas_of_files_for_people_accept_what_fleet_accepts(
    made_lab: Path,
) -> None:
    for path in (made_lab / "inventory.yaml", ROOT / "inventory.yaml"):
        assert list_errors("inventory", yaml.safe_load(path.read_text())) == []
    for mistake in ({"adress": "192.0.2.1"}, {"via": "telnet"}, {"port": "ssh"}):
        assert list_errors("inventory", {"hosts": {"a": mistake}}), mistake
    expected = [
        {
            "host": "web*",
            "cas": {"smt": "5 to 7"},
            "chase/load": {"L2 random": "at most 5.5"},
        }
    ]
    assert list_errors("expected", expected) == []
    assert list_errors("expected", [{"host": "web*", "cas": {"smt": "5 until 7"}}])
    assert list_errors("expected", [{"cas": {"smt": "5 to 7"}}])


def test_the_schemas_are_of_today_and_keep_every_released_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import schemas  # noqa: PLC0415  of docs

    sys.modules.pop("schemas")
    texts = {path.stem: path.read_text() for path in SCHEMAS.glob("*.json")}
    assert texts == schemas.make_schemas(), "run .venv/bin/python docs/schemas.py"
    keys = {key for name in texts for key in list_keys(load_schema(name), name)}
    released = set(RELEASED.read_text().split())
    assert released <= keys, "a released key stays; a document without it is version 2"


def test_each_schema_is_printed_by_its_name(fleet_here: Callable[..., Done]) -> None:
    names = fleet_here("schema").stdout.split()
    assert {"show", "record", "inventory", "expected", *COMMANDS} <= set(names)
    for name in names:
        assert (
            fleet_here("schema", name).stdout == (SCHEMAS / f"{name}.json").read_text()
        )
    refused = fleet_here("schema", "shw")
    assert refused.exit_code == 2
    assert "fleet: schema shw: must be " in refused.stderr
