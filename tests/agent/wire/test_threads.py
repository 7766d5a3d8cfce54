"""Types that msgspec inspects: no thread of a host may be the first to use one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import fleet

PACKAGE = Path(fleet.__file__).parent
# Their types are made as they are needed, under a lock: `prepare_type_for_threads`.
LOCKED = {"store/gate.py", "store/rows.py"}


def list_inspections(file: Path) -> Iterator[str]:
    """Yield the calls in functions by which msgspec may inspect a type."""
    text = file.read_text(encoding="utf-8")
    if "msgspec" not in text:
        return
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.Lambda):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and inspects(call):
                    yield f"{call.lineno}: {ast.unparse(call)}"


def inspects(call: ast.Call) -> bool:
    """Report whether the call takes a type that msgspec then reads the fields of."""
    name = ast.unparse(call.func)
    is_typed = any(keyword.arg == "type" for keyword in call.keywords)
    return name in ("msgspec.json.Decoder", "msgspec.convert") or (
        name == "msgspec.json.decode" and is_typed
    )


def test_every_decoder_is_made_while_its_module_is_imported() -> None:
    """Threads that use a type while another inspects it crash the program."""
    inspections = {
        str(file.relative_to(PACKAGE)): list(list_inspections(file))
        for file in PACKAGE.rglob("*.py")
        if file.relative_to(PACKAGE).parts[0] != "analysis"  # it starts no threads
    }
    named = {file: calls for file, calls in inspections.items() if calls}
    assert named.keys() <= LOCKED, named
