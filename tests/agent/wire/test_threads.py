"""Types that msgspec inspects: no thread of a host may be the first to use one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import fleet

PACKAGE = Path(fleet.__file__).parent


def list_inspections(file: Path) -> Iterator[str]:
    """Yield the calls in functions by which msgspec may inspect a type, unless threads
    wait for the function.
    """
    text = file.read_text(encoding="utf-8")
    if "msgspec" not in text:
        return
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.Lambda) and not waits(function):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and inspects(call):
                    yield f"{call.lineno}: {ast.unparse(call)}"


def waits(function: ast.FunctionDef | ast.Lambda) -> bool:
    """Report whether one thread calls the function while others wait."""
    decorators = getattr(function, "decorator_list", [])
    return "once" in map(ast.unparse, decorators)


def inspects(call: ast.Call) -> bool:
    """Report whether the call takes a type that msgspec then reads the fields of; that
    of a decoder has been read.
    """
    name = ast.unparse(call.func)
    if name == "msgspec.convert":
        return ast.unparse(call.args[1]) != "decoder.type"
    is_typed = any(keyword.arg == "type" for keyword in call.keywords)
    return name == "msgspec.json.Decoder" or (
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
    assert named == {}
