"""Parses YAML to data with line numbers. Scalars stay text: `no` is not false."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from fleet.errors import InventoryError
from fleet.inventory.gate import read_bounded

KeyPath = tuple[str | int, ...]

SIZE_LIMIT_BYTES = 8 << 20
NODE_LIMIT = 200_000  # aliases of aliases can make a small file enormous
DEPTH_LIMIT = 20
_STANDARD = "tag:yaml.org,2002:"
_MERGE = _STANDARD + "merge"
_NULL = _STANDARD + "null"


class _BrokenError(Exception):
    """The text is not YAML that fleet can read. Its arguments: the line, and why."""


class Problem(NamedTuple):
    """What is wrong in a file. table: the top-level key that it is in, "" for all."""

    line: int
    text: str
    table: str | int = ""


class Risk(StrEnum):
    """What a value may do only in an inventory that the user has named or trusted."""

    NONE = ""
    PROGRAM = "would start a program"
    HOST_KEY = "would accept the key of an unknown host"
    RESULTS = "would send results away or write them outside this folder"
    FILES = "would choose where files are written"


class RiskyValue(NamedTuple):
    """A value that needs trust, and why. path: of its key."""

    path: KeyPath
    value: Any
    risk: Risk


@dataclass(slots=True)
class Document:
    """A file as dicts, lists, strings and None. lines: line numbers by path. problems
    and risky: what its schema found.
    """

    path: Path = Path()
    text: str = ""
    data: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    risky: list[RiskyValue] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The folder that relative paths in the file begin at."""
        return self.path.absolute().parent

    def line(self, path: KeyPath) -> int:
        """Return the line number of this path, or of its nearest parent in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def reject(self, path: KeyPath, text: str, line: int = 0) -> None:
        """Add a problem about the value at `path`. line: its line number; 0: where the
        path begins.
        """
        where = format_path(path)
        if where:
            text = f"{where}: {text}"
        table = path[0] if path else ""
        self.problems.append(Problem(line or self.line(path), text, table))

    def require_no_problems(self, table: str = "") -> None:
        """Raise InventoryError if there are problems; list each once, in file order,
        with `file:line: `. table: leave out problems of other top-level keys; "": leave
        out none.
        """
        problems = sorted(self.problems, key=attrgetter("line"))
        if table:
            # a problem whose table is "" is one of the whole file
            tables = (table, "")
            problems = [problem for problem in problems if problem.table in tables]
        lines = [f"{self.path}:{problem.line}: {problem.text}" for problem in problems]
        if lines:
            raise InventoryError("\n".join(dict.fromkeys(lines)))


def format_path(path: KeyPath) -> str:
    """Format a path: ("hosts", "a", "jump", 0) -> "hosts.a.jump[0]"."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def read_yaml(path: Path, advice: str, *, is_named: bool = False) -> Document:
    """Read a file and parse it as YAML. What is wrong in its text becomes the problems
    of the document. Raises InventoryError if it cannot be read as UTF-8.

    advice: added to the error if the file is missing. is_named: the user named the
    file, so it may be a pipe.
    """
    try:
        raw = read_bounded(path, SIZE_LIMIT_BYTES, is_named=is_named)
    except FileNotFoundError as err:
        raise InventoryError(f"{path}: no such file. {advice}") from err
    except OSError as err:
        raise InventoryError(f"{path}: cannot be read: {err}") from err
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line = raw.count(b"\n", 0, err.start) + 1
        raise InventoryError(
            f"{path}:{line}: not UTF-8 text; save the file as UTF-8"
        ) from err
    return parse(text, path)


def parse(text: str, path: Path = Path()) -> Document:
    """Parse a YAML document. `data` stays None if the text is empty, or invalid, which
    adds a problem.
    """
    document = Document(path, text)
    try:
        root = _compose(text)
        if root is not None:
            document.data = _Walk(document).convert(root, ())
    except _BrokenError as err:
        document.problems = [Problem(*err.args)]
    return document


def _compose(text: str) -> Any:
    """Return the root node of a YAML document, None if it is empty. Raises
    _BrokenError.
    """
    import yaml  # noqa: PLC0415  costs 30 ms, which `fleet --help` need not pay

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_huge(yaml.parse(text, Loader=loader))
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as err:
        line, why = _explain_yaml_error(err, text)
        raise _BrokenError(line, why) from err
    except yaml.reader.ReaderError as err:
        line = text.count("\n", 0, err.position) + 1
        raise _BrokenError(
            line, "a control character, which YAML does not allow"
        ) from err
    except (yaml.YAMLError, ValueError) as err:
        raise _BrokenError(1, f"not YAML we can read: {type(err).__name__}") from err


def _explain_yaml_error(err: Any, text: str) -> tuple[int, str]:
    """Return the line of a yaml.MarkedYAMLError, counted from 1, and what is wrong
    there. A mark behind the last line that has text becomes that line.
    """
    cause = ", ".join(filter(None, (err.context, err.problem)))
    hint = "Check indentation, colons and quotes here and in the line above"
    why = f"broken YAML: {cause}. {hint}"
    lines = text.splitlines()
    mark = err.problem_mark
    if mark and mark.line < len(lines) and "\t" in lines[mark.line]:
        why = "broken YAML: this line contains a tab; YAML indents with spaces only"
    if "nesting depth" in cause:  # libyaml has a limit of its own from 0.2.6 on
        why = "nested too deeply"
    mark = mark or err.context_mark
    if not mark:
        return 1, why
    last_line = text.rstrip().count("\n")
    return min(mark.line, last_line) + 1, why


def _refuse_huge(events: Iterator[Any]) -> None:
    """Raise _BrokenError for nesting so deep that libyaml's composer would crash the
    process, and for so many values that their nodes would fill the memory. The exact
    limits are for the values that are converted later; these are twice as high.
    """
    depth = 0
    for number, event in enumerate(events):
        name = type(event).__name__
        if name.endswith("StartEvent"):
            depth += 1
        elif name.endswith("EndEvent"):
            depth -= 1
        line = event.start_mark.line + 1
        if depth > 2 * DEPTH_LIMIT:
            raise _BrokenError(line, "nested too deeply")
        if number > 2 * NODE_LIMIT:
            raise _BrokenError(
                line, "the file has too many values; is it the right one?"
            )


class _Walk:
    """Converts YAML nodes to data and records their lines. Rejects tags and keys that
    no inventory needs.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.nodes = 0

    def convert(self, node: Any, path: KeyPath, depth: int = 1) -> Any:
        """Return a node's value: a dict, a list, a text or None. A tag that no
        inventory needs is a problem. Raises _BrokenError beyond NODE_LIMIT or
        DEPTH_LIMIT, which anchors may exceed in a small file.
        """
        self.nodes += 1
        line = node.start_mark.line + 1
        if self.nodes > NODE_LIMIT:
            raise _BrokenError(
                line, "the file expands to too many values; are anchors nested?"
            )
        if depth > DEPTH_LIMIT:
            raise _BrokenError(
                line, "nested too deeply; does an anchor contain itself?"
            )
        self.document.lines.setdefault(path, line)
        if not (node.tag or "").startswith(_STANDARD) or "python" in node.tag:
            self.document.reject(
                path, f"the YAML tag {node.tag} is not supported; remove it"
            )
            return None
        if node.id == "mapping":
            return self._convert_mapping(node, path, depth)
        if node.id == "sequence":
            return [
                self.convert(item, (*path, index), depth + 1)
                for index, item in enumerate(node.value)
            ]
        return None if node.tag == _NULL else str(node.value)

    def _convert_mapping(self, node: Any, path: KeyPath, depth: int) -> dict[str, Any]:
        """Return a mapping's values by key. Those that `<<:` merges are added where the
        mapping has no such key.
        """
        result: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        merged: list[Any] = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = key_node.value
            if key_node.tag == _MERGE:
                merged += self._list_merged_mappings(value_node, path)
            elif key_node.id != "scalar":
                self.document.reject(path, "a key must be plain text")
            elif key in first_lines:
                first_line = first_lines[key]
                text = f"duplicate key (first in line {first_line}); keep one of them"
                self.document.reject((*path, key), text, line)
            else:
                first_lines[key] = line
                self.document.lines.setdefault((*path, key), line)
                result[key] = self.convert(value_node, (*path, key), depth + 1)
        # a key of the mapping itself wins, then the first anchor with it, as YAML says
        for mapping in merged:
            values = self.convert(mapping, path, depth + 1) or {}
            for key, value in values.items():
                result.setdefault(key, value)
        return result

    def _list_merged_mappings(self, node: Any, path: KeyPath) -> list[Any]:
        """Return the nodes that `<<: *anchor` or a list of anchors names; reject what
        is not a mapping.
        """
        sources = [node]
        if node.id == "sequence":
            sources = node.value
        mappings = [source for source in sources if source.id == "mapping"]
        if len(mappings) < len(sources):
            self.document.reject(path, "`<<:` takes a mapping, or a list of them")
        return mappings
