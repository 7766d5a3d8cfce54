"""A function is about one thing: what a reader holds in mind at once does not grow.

A node is a node of the syntax tree, without docstrings and annotations. The limits are
what each room has reached; lower them when it reaches less.
"""

import ast
from functools import cache
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parent.parent / "fleet"
_LARGE = 150  # nodes
# by room: the most nodes of its median function, and the largest share of large ones
LIMITS = {
    ".": (66, 0.11),
    "agent": (71, 0.09),
    "analysis/base": (53, 0.03),
    "analysis/compare": (70, 0.12),
    "analysis/exchange": (66, 0.10),
    "analysis/reduce": (78, 0.06),
    "analysis/report": (69, 0.13),
    "analysis/views": (76, 0.09),
    "cli": (57, 0.12),
    "console": (70, 0.06),
    "facts": (64, 0.11),
    "inventory": (72, 0.12),
    "model": (52, 0.04),
    "plan": (50, 0.05),
    "remote": (53, 0.11),
    "session": (70, 0.11),
    "store": (58, 0.09),
}


class _Bodies(ast.NodeTransformer):
    """Drop what is no statement to be held in mind."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.Assign([node.target], node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        self.generic_visit(node)
        return node


@cache
def count_nodes_in_file(path: Path) -> list[int]:
    module = _Bodies().visit(ast.parse(path.read_text()))
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    return [len([*ast.walk(node)]) for node in functions]


def count_nodes(folder: Path) -> list[int]:
    """Count the nodes of each function below a folder."""
    counts = []
    for path in folder.rglob("*.py"):
        counts += count_nodes_in_file(path)
    return counts


@pytest.mark.parametrize("room", LIMITS)
def test_functions_of_a_room_do_not_grow(room: str) -> None:
    counts = count_nodes(ROOT / room)
    most, share = LIMITS[room]
    assert median(counts) <= most
    assert sum(count > _LARGE for count in counts) / len(counts) <= share


def test_what_a_function_says_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('def f(x: int) -> int:\n    """Words."""\n')
    (tmp_path / "b.py").write_text("def g(x):\n    y = x + 1\n    return y\n")
    one, other = sorted(count_nodes(tmp_path))
    assert (one, other) == (4, 14)
