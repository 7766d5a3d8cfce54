"""Parses YAML as data that remembers its lines. Scalars stay text: `no` is not false."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]

NODE_LIMIT = 200_000  # aliases of aliases can make a small file enormous
DEPTH_LIMIT = 20
_STANDARD = "tag:yaml.org,2002:"
_MERGE = _STANDARD + "merge"
_NULL = _STANDARD + "null"


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in the file: where, and what to do about it."""

    line: int
    where: str
    text: str


class BrokenError(Exception):
    """The text is not YAML that fleet can read. problem: why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


@dataclass(slots=True)
class Document:
    """A file as dicts, lists, strings and None, with the line of each path, and its mistakes."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """Return the line of this path, or of its nearest parent in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: Path, text: str) -> None:
        """Note a mistake in the value at `path`."""
        self.problems.append(Problem(self.line(path), format_path(path), text))


def format_path(path: Path) -> str:
    """Format a path: ("hosts", "a", "jump", 0) -> "hosts.a.jump[0]"."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def describe_problems(file: object, problems: Iterable[Problem]) -> str:
    """Describe mistakes, a line each that begins `file:line: `, in the order of the file."""
    lines = [
        f"{file}:{problem.line}: {problem.where and problem.where + ': '}{problem.text}"
        for problem in sorted(problems, key=lambda problem: problem.line)
    ]
    return "\n".join(dict.fromkeys(lines))


def parse(text: str) -> Document:
    """Parse one YAML document. Raises BrokenError if it is not YAML; the data of an empty one are None."""
    import yaml  # noqa: PLC0415  costs 30 ms, which `fleet --help` need not pay

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_depth(yaml.parse(text, Loader=loader))
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        line = min(mark.line, text.rstrip().count("\n")) + 1 if mark else 1
        raise BrokenError(Problem(line, "", _describe_error(err, text))) from err
    except yaml.reader.ReaderError as err:
        line = text.count("\n", 0, err.position) + 1
        raise BrokenError(Problem(line, "", "a control character, which YAML does not allow")) from err
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise BrokenError(Problem(1, "", f"not YAML we can read: {type(err).__name__}")) from err
    document = Document()
    if root is not None:
        document.data = _Walk(document).convert(root, ())
    return document


def _refuse_depth(events: Iterator[Any]) -> None:
    """Refuse nesting so deep that libyaml's composer would crash the process."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > 2 * DEPTH_LIMIT:
            raise BrokenError(Problem(event.start_mark.line + 1, "", "nested too deeply"))


def _describe_error(err: Any, text: str) -> str:
    """Say in plain words what is wrong with the YAML."""
    mark = err.problem_mark
    if mark is not None and "\t" in "".join(text.splitlines()[mark.line : mark.line + 1]):
        return "broken YAML: this line contains a tab; YAML indents with spaces only"
    cause = ", ".join(filter(None, (err.context, err.problem)))
    return f"broken YAML: {cause}. Check indentation, colons and quotes here and in the line above"


class _Walk:
    """Turns YAML's nodes into data and notes their lines; refuses what no inventory needs."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.nodes = 0

    def convert(self, node: Any, path: Path, depth: int = 1) -> Any:
        self.nodes += 1
        line = node.start_mark.line + 1
        if self.nodes > NODE_LIMIT:
            raise BrokenError(Problem(line, "", "the file expands to too many values; are anchors nested?"))
        if depth > DEPTH_LIMIT:
            raise BrokenError(Problem(line, "", "nested too deeply; does an anchor contain itself?"))
        self.document.lines.setdefault(path, line)
        if not (node.tag or "").startswith(_STANDARD) or "python" in node.tag:
            self.document.problem(path, f"the YAML tag {node.tag} is not supported; remove it")
            return None
        if node.id == "mapping":
            return self._convert_mapping(node, path, depth)
        if node.id == "sequence":
            return [self.convert(item, (*path, index), depth + 1) for index, item in enumerate(node.value)]
        return None if node.tag == _NULL else str(node.value)

    def _convert_mapping(self, node: Any, path: Path, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                self.document.problem(path, "a key must be plain text")
                continue
            key = str(key_node.value)
            if key in first_lines:
                text = f"duplicate key (first in line {first_lines[key]}); keep one of them"
                self.document.problems.append(Problem(line, format_path((*path, key)), text))
                continue
            first_lines[key] = line
            self.document.lines.setdefault((*path, key), line)
            result[key] = self.convert(value_node, (*path, key), depth + 1)
        for key, value in self._convert_merge_keys(node, path, depth):
            result.setdefault(key, value)
        return result

    def _convert_merge_keys(self, node: Any, path: Path, depth: int) -> Iterator[tuple[str, Any]]:
        """Yield the keys that `<<: *anchor` merges; of several anchors the first wins, as YAML specifies."""
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for source in value.value if value.id == "sequence" else [value]:
                if source.id != "mapping":
                    self.document.problem(path, "`<<:` takes a mapping, or a list of them")
                    continue
                yield from (self.convert(source, path, depth + 1) or {}).items()
