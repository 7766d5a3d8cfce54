"""YAML as data that remembers its lines; scalars stay text, so none of YAML's guesses (no: false) gets in."""

from collections.abc import Iterator
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
    """One thing wrong with the file: where, and what to do about it."""

    line: int
    where: str
    text: str


class BrokenError(Exception):
    """The text is not YAML that we can read; carries the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


@dataclass(slots=True)
class Document:
    """The file as dicts, lists, strings and None, the line of each path, and the problems found."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """The line of this path, or of its nearest parent that the file contains."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: Path, text: str) -> None:
        """Add a problem with the value at `path`."""
        self.problems.append(Problem(self.line(path), dotted(path), text))


def dotted(path: Path) -> str:
    """A path in dotted form: ("hosts", "a", "jump", 0) -> "hosts.a.jump[0]"."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read(text: str) -> Document:
    """Read one YAML document. Raises BrokenError if it is not YAML; an empty one has data None."""
    import yaml  # noqa: PLC0415  costs 30 ms, which `fleet --help` need not pay

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_depth(yaml.parse(text, Loader=loader))
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        line = min(mark.line, text.rstrip().count("\n")) + 1 if mark else 1
        raise BrokenError(Problem(line, "", _plain_words(err, text))) from err
    except yaml.reader.ReaderError as err:
        line = text.count("\n", 0, err.position) + 1
        raise BrokenError(Problem(line, "", "a control character, which YAML does not allow")) from err
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise BrokenError(Problem(1, "", f"not YAML we can read: {type(err).__name__}")) from err
    document = Document()
    if root is not None:
        document.data = _Walk(document).value(root, ())
    return document


def _refuse_depth(events: Iterator[Any]) -> None:
    """Refuse nesting so deep that libyaml's composer would crash the process."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > 2 * DEPTH_LIMIT:
            raise BrokenError(Problem(event.start_mark.line + 1, "", "nested too deeply"))


def _plain_words(err: Any, text: str) -> str:
    mark = err.problem_mark
    if mark is not None and "\t" in "".join(text.splitlines()[mark.line : mark.line + 1]):
        return "broken YAML: this line contains a tab; YAML indents with spaces only"
    cause = ", ".join(part for part in (err.context, err.problem) if part)
    return f"broken YAML: {cause}. Check indentation, colons and quotes here and in the line above"


class _Walk:
    """Turns nodes into data and records their lines; refuses what no inventory needs."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.nodes = 0

    def value(self, node: Any, path: Path, depth: int = 1) -> Any:
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
            return self._mapping(node, path, depth)
        if node.id == "sequence":
            return [self.value(item, (*path, index), depth + 1) for index, item in enumerate(node.value)]
        return None if node.tag == _NULL else str(node.value)

    def _mapping(self, node: Any, path: Path, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        own: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                self.document.problem(path, "a key must be plain text")
                continue
            key = str(key_node.value)
            if key in own:
                text = f"duplicate key (first in line {own[key]}); keep one of them"
                self.document.problems.append(Problem(line, dotted((*path, key)), text))
                continue
            own[key] = line
            self.document.lines.setdefault((*path, key), line)
            result[key] = self.value(value_node, (*path, key), depth + 1)
        for key, value in self._merged(node, path, depth):
            result.setdefault(key, value)
        return result

    def _merged(self, node: Any, path: Path, depth: int) -> Iterator[tuple[str, Any]]:
        """The keys that `<<: *anchor` merges; of several anchors the first wins, as YAML specifies."""
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for source in value.value if value.id == "sequence" else [value]:
                if source.id != "mapping":
                    self.document.problem(path, "`<<:` takes a mapping, or a list of them")
                    continue
                yield from (self.value(source, path, depth + 1) or {}).items()
