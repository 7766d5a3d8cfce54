"""Imports matrices of other tools as a summary: reads the files, checks the metadata, stores the rows."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleet.analysis.exchange import tools
from fleet.analysis.exchange.grid import Grid
from fleet.analysis.exchange.imports import PREFIX, check_name, renumbered, rows_of
from fleet.analysis.reduce.load import load_cpus, view_of
from fleet.analysis.reduce.topology import GROUPS
from fleet.analysis.selection import select
from fleet.analysis.views.text import is_none, records
from fleet.errors import UsageError
from fleet.model import Cpu, Topology, View
from fleet.model.frozen import dataclass, field
from fleet.plan.cpulist import cpus_text
from fleet.plan.variants import VARIANTS
from fleet.store import Store
from fleet.store.imports import write_summary
from fleet.text import counted, printable

MOST_BYTES = 64 << 20  # 2,500 CPUs as CSV
_STATED = ("benchmark", "variant", "estimator", "cpu_model", "os", "conditions")


@dataclass(frozen=True, slots=True)
class ImportMetadata:
    """What the user states about the files; topology: a selection, whose last run has their CPUs."""

    tool: str | None = None
    benchmark: str | None = None
    variant: str | None = None
    estimator: str | None = None
    cpus: tuple[int, ...] | None = None
    cpu_model: str | None = None
    os: str | None = None
    conditions: str | None = None
    source: str | None = None
    topology: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def import_files(root: str | Path, files: Sequence[Path], name: str, metadata: ImportMetadata) -> str:
    """Store every matrix in `files` as the summary `name`; return a message for the user.

    Raises UsageError for what cannot be read or stored; nothing is stored then.
    """
    _check(name, metadata)
    machine = None if metadata.topology is None else _topology(root, metadata.topology)
    now = datetime.now(UTC)
    rows, kinds = [], []
    for file in files:
        tool, grids = tools.read(_text(file), str(file), metadata.tool)
        if metadata.benchmark is not None and len(grids) > 1:
            raise UsageError(f"{file}: holds {len(grids)} matrices; --benchmark can name only one.")
        for grid in grids:
            columns: dict[str, Any] = {key: getattr(metadata, key) for key in _STATED}
            source = metadata.source or printable(str(file))
            columns |= {"source": source, "imported_utc": now, "labels": dict(metadata.labels)}
            numbered = grid if metadata.cpus is None else renumbered(grid, metadata.cpus)
            if machine is not None:
                _check_cpus(file, numbered, machine, metadata.topology)
            found = rows_of(name, tool, numbered, columns, machine)
            if not found:
                raise UsageError(f"{file}: the matrix has no values.")
            kinds.append(found[0]["benchmark"])
            if len(set(kinds)) < len(kinds):
                raise UsageError(f"{file}: a second matrix of {kinds[-1]}; import it under another --name.")
            rows += found
            cpus, cells = len(numbered.cpus), len(numbered.cells)
            half = "" if cells > cpus * (cpus - 1) // 2 else " (half a matrix)"
            size = f"{counted(cpus, 'CPU')}, {counted(cells, 'cell')}{half}"
    stored = "Stored" if write_summary(root, name, rows) else "Is here already:"
    return f"{stored} {PREFIX}{name}: {', '.join(kinds)}, {size}. See it: fleet show {PREFIX}{name}"


def _topology(root: str | Path, text: str) -> Topology:
    store = Store(root)
    run = select(store.published(), [text], store.place)[-1]
    rows = records(load_cpus(root, run_id=run.run_id)[["cpu", *GROUPS]])
    known = [{name: None if is_none(one) else int(one) for name, one in row.items()} for row in rows]
    return Topology(tuple(Cpu(**row) for row in known))  # type: ignore[arg-type]


def _check_cpus(file: Path, grid: Grid, machine: Topology, text: str | None) -> None:
    if unknown := sorted(set(grid.cpus) - {cpu.cpu for cpu in machine.cpus}):
        raise UsageError(
            f"--topology {text}: that machine has no CPU {cpus_text(unknown)}, which {file} has; "
            "name the CPUs of the matrix with --cpus, or choose a run of the machine it was measured on."
        )


def _check(name: str, metadata: ImportMetadata) -> None:
    check_name(name)
    for word, known in (
        ("tool", tools.TOOLS),
        ("benchmark", tuple(one for one in VARIANTS if view_of(one) is View.MATRIX)),
        ("estimator", ("median", "mean", "min")),
    ):
        value = getattr(metadata, word)
        if value is not None and value not in known:
            raise UsageError(f"--{word} {value}: unknown; there are {', '.join(known)}.")
    for word in ("variant", "cpu_model", "os", "conditions", "source"):
        if not (getattr(metadata, word) or "").isprintable():
            raise UsageError(f"--{word.replace('_', '-')}: must be one line of text in UTF-8.")


def _text(file: Path) -> str:
    """A file's text; UTF-8, or UTF-16 as PowerShell writes what is redirected."""
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with file.open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
    except OSError as err:
        raise UsageError(f"{file}: cannot be read: {err.strerror}.") from err
    if len(data) > MOST_BYTES:
        raise UsageError(f"{file}: larger than {MOST_BYTES >> 20} MiB; no matrix is.")
    utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        return data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as err:
        raise UsageError(f"{file}: not text in UTF-8 or UTF-16 (byte {err.start}).") from err
