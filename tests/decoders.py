"""Call each decoder of what a host or file says with bytes; `recordings/fuzz` holds the
first to be tried.
"""

import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from fleet.agent import forecast
from fleet.agent.wire import machine
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.parts import decode_bursts, read_run
from fleet.agent.wire.records import WireError
from fleet.analysis.exchange import TOOLS, make_summary_rows, read_matrices
from fleet.errors import DataError, DeployError, ProbeError, StoreError, UsageError
from fleet.facts import gather, probe
from fleet.model import BENCHMARKS, Facts, Host, Load
from fleet.store import Store, gate, schema
from fleet.store.amendments import read_amendment
from fleet.store.checksums import seal_file
from fleet.store.journal import Journal
from fleet.store.places import Folder
from fleet.store.reading import TableFile
from fleet.store.rows import unpack_record
from fleet.store.runs import _COLUMNS, read_journal_run
from fleet.store.writing import write_summary
from tests.lies import pack_record

CORPUS = Path(__file__).parent / "recordings" / "fuzz"
FOLDER = Path(tempfile.gettempdir())  # of the file that is read; tests name another


@dataclass(frozen=True)
class Decoder:
    """read: takes whatever it is given, in a folder that is empty, or raises one of
    `refusals`.
    """

    read: Callable[[bytes, Path], object]
    refusals: tuple[type[Exception], ...]

    def take(self, data: bytes) -> bool:
        """Whether the decoder takes this; any other exception than a refusal passes."""
        with (
            tempfile.TemporaryDirectory(dir=FOLDER) as folder,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # what is left out is named by one
            try:
                self.read(data, Path(folder))
            except self.refusals as err:
                assert len(str(err)) < 3000, str(err)[:100]
                return False
        return True


def wire(data: bytes, _: Path) -> None:
    reader = Reader()
    for line in data.split(b"\n"):
        reader.read_line(line)
    reader.explain_unfinished()


def journal(data: bytes, folder: Path) -> None:
    (folder / "stream.jsonl").write_bytes(data)
    with Journal(folder) as opened:
        partial_run = read_run(opened.parts())
        opened.line_limits = partial_run.lines
        assert len(list(decode_bursts(opened.parts()))) == partial_run.bursts


def record(data: bytes, _: Path) -> None:
    parsed = gate.parse_record(
        unpack_record(pack_record(data) if data.startswith(b'{"run"') else data)
    )
    pa.Table.from_pylist([parsed.row], schema.arrow_schema("runs"))
    pa.Table.from_pylist(list(parsed.cpus or ()), schema.arrow_schema("cpus"))


def rows(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        write_resealed(folder / "x.parquet", data)
        file = TableFile(Folder(folder), "x.parquet", name)
        list(file.iter_tables(where={schema.TABLES[name][0].name: {"x"}}))
        for row in file.read().to_pylist():
            if name in ("runs", "cpus"):
                gate.convert_row(name, row)

    return read


def write_resealed(path: Path, data: bytes) -> None:
    """Write a changed Parquet file with checksums that fit; what is none, or without
    their mark, as it is.
    """
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if (
        footer < 20
        or data[-4:] != b"PAR1"
        or data[footer - 16 : footer - 8] != b"fleetcrc"
    ):
        path.write_bytes(data)
        return
    path.write_bytes(data[: footer - 16] + data[footer:])
    seal_file(path)


def amendment(data: bytes, folder: Path) -> None:
    (folder / "x").write_bytes(data)
    read_amendment(Folder(folder), "x")


def index(data: bytes, _: Path) -> None:
    for line in data.split(b"\n"):
        with suppress(DataError):
            gate.decode_listed_row(line, _COLUMNS)


def note(data: bytes, folder: Path) -> None:
    (folder / ".fleet/journal").mkdir(parents=True)
    (folder / ".fleet/journal" / "s.json").write_bytes(data)
    Store(folder).read_idle_intents()


def run_file(data: bytes, folder: Path) -> None:
    (folder / "run.json").write_bytes(data)
    read_journal_run(folder)


def matrix(data: bytes, folder: Path) -> None:
    text = data.decode("utf-8", "replace")
    with suppress(UsageError):
        read_matrices(text, "x")
    for tool in TOOLS:
        with suppress(UsageError):
            for number, grid in enumerate(read_matrices(text, "x", tool)[1]):
                named = replace(grid, benchmark="cas")
                summary_rows = make_summary_rows("x", tool, named, {"source": "x"})
                write_summary(folder, f"{tool}-{number}", summary_rows)


def answer(data: bytes, _: Path) -> None:
    text = probe.extract_answer(data)
    facts = gather.parse_answer(text or "", Host("x", "192.0.2.1"))
    gate.check_machine(facts)
    gate.check_machine(gather.parse_load(data, facts))
    gather.describe_answer(facts.probe)


def cpus(data: bytes, _: Path) -> None:
    gate.check_machine(
        machine.merge_facts(
            Facts(os="qnx", arch="x86_64", load=Load()), machine.read_machine(data)
        )
    )


DECODERS = {
    "wire": Decoder(wire, (WireError,)),
    "journal": Decoder(journal, ()),
    "record": Decoder(record, (DataError,)),
    **{
        name: Decoder(rows(name), (StoreError, DataError))
        for name in ("runs", "cpus", "counters")
    },
    "samples": Decoder(rows("samples"), (StoreError,)),
    "summaries": Decoder(rows("summaries"), (StoreError,)),
    "amendment": Decoder(amendment, (StoreError,)),
    "index": Decoder(index, ()),
    "session": Decoder(note, ()),
    "run": Decoder(run_file, (StoreError,)),
    "matrix": Decoder(matrix, ()),
    "answer": Decoder(answer, (ProbeError, DeployError, DataError)),
    "machine": Decoder(cpus, (WireError, DataError)),
    "forecast": Decoder(
        lambda data, _: forecast.read_forecast(data, BENCHMARKS), (WireError,)
    ),
}


def corpus(name: str) -> list[bytes]:
    """Choose samples of a decoder: one of each kind that it takes, and what was once
    wrong.
    """
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def one(data: bytes) -> None:
    """Run a fuzzer's input: the first byte says which decoder is given the rest."""
    if data:
        names = [*DECODERS]
        DECODERS[names[data[0] % len(names)]].take(data[1:])


def begin(folder: Path) -> None:
    """Make and fill the folder that a fuzzer begins with."""
    folder.mkdir()
    for position, name in enumerate(DECODERS):
        for number, data in enumerate(corpus(name)):
            (folder / f"{name}-{number}").write_bytes(bytes([position]) + data)
