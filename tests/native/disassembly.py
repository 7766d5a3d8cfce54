"""Reading a function's loop out of objdump's listing, and comparing it with what was
intended.
"""

import re
import subprocess
from pathlib import Path

from tests import needs
from tests.native import encodings
from tests.native.targets import Target

_LINE = re.compile(r"^\s*([0-9a-f]+):\s+((?:[0-9a-f]{2,8} )+)\s*\t(.+)$")
_FRAME = r"(?:-?0x[0-9a-f]+)?\(%e[bs]p\)"  # a variable of an i386's function
_BRANCH_TARGET = re.compile(r"\b([0-9a-f]+) <[^>]*>")


def instructions(target: Target, binary: Path, symbol: str) -> list[tuple[int, str]]:
    """(address, text) of each instruction of a function; text has single spaces and no
    comments.
    """
    option = (
        "--disassemble-symbols"
        if target.objdump[0].startswith("llvm")
        else "--disassemble"
    )
    listing = subprocess.run(
        [needs.program(*target.objdump), "-d", f"{option}={symbol}", str(binary)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [
        line for line in map(_LINE.match, _lines_of_function(listing, symbol)) if line
    ]
    start = int(lines[0][1], 16)
    return [
        (int(line[1], 16), _absolute(_text(line[2], line[3]), symbol, start))
        for line in lines
    ]


def _lines_of_function(listing: str, symbol: str) -> list[str]:
    """The lines of one function, which objdump ends with an empty line."""
    return listing.partition(f" <{symbol}>:\n")[2].split("\n\n")[0].splitlines()


def _absolute(text: str, symbol: str, start: int) -> str:
    """Write a branch within the function with the address it goes to; LLVM writes the
    distance.
    """
    return re.sub(
        rf"-?\w+ <{symbol}(?:\+0x([0-9a-f]+))?>",
        lambda m: f"{start + int(m[1] or '0', 16):x} <{symbol}>",
        text,
    )


def _text(raw: str, text: str) -> str:
    """One instruction with single spaces, without comment; named by its encoding if
    objdump is too old.
    """
    text = " ".join(re.split(r"\s*//|\s*#\s|\s+@ ", text)[0].split())
    is_named = text and not text.startswith((".4byte", ".word", "0x", "<unknown>"))
    return (
        text
        if is_named
        else encodings.name_instruction(int("".join(reversed(raw.split())), 16))
    )


def loop(code: list[tuple[int, str]]) -> list[str]:
    """Return a function's only loop; its first label is written LOOP, those behind it
    INNER and SECOND.
    """
    branches = [
        (address, int(goal[1], 16))
        for address, text in code
        if (goal := _BRANCH_TARGET.search(text))
    ]
    backward = [
        (address, goal) for address, goal in branches if code[0][0] <= goal <= address
    ]
    starts = sorted({goal for _, goal in backward})
    assert 1 <= len(starts) <= 3, f"backward branches to {len(starts)} places: {code}"
    names = {
        f"{start:x}": name
        for start, name in zip(starts, ("LOOP", "INNER", "SECOND"), strict=False)
    }
    last = max(address for address, _ in backward)
    return [
        _BRANCH_TARGET.sub(lambda goal: names.get(goal[1], goal[0]), text)
        for address, text in code
        if starts[0] <= address <= last
    ]


def matches(actual: list[str], intended: tuple[str, ...]) -> bool:
    """Are these exactly the intended instructions, one register or variable for each
    name?
    """
    names: list[str] = []
    pattern = ""
    for piece in re.split(r"(<\w+>)", "\n".join(intended)):
        if not re.fullmatch(r"<\w+>", piece):
            pattern += re.escape(piece)
        elif piece[1:-1] in names:
            pattern += rf"(?P={piece[1:-1]})"
        else:
            names.append(piece[1:-1])
            place = _FRAME if piece.startswith("<stack_") else r"[%$]?[a-z][a-z0-9]*"
            pattern += rf"(?P<{piece[1:-1]}>{place})"
    match = re.fullmatch(pattern, "\n".join(_spelling(text) for text in actual))
    return match is not None and len(set(match.groups())) == len(names)


def _spelling(text: str) -> str:
    """Undo what differs by assembler or register only: spaces, sizes that operands
    tell, short forms.
    """
    text = text.replace(", ", ",").replace(",#0]", "]")
    # rbp and r13 are never encoded without an offset
    text = re.sub(r"\b0x0\(", "(", text)
    text = re.sub(r"^(mov|cmp|xor|dec)l ", r"\1 ", text)
    thumb = (  # 16 or 32 bits wide
        r"^(bne|bcc|beq|add|cmp|ldr|mov|str|eors?|subs)\.[nw] "
    )
    text = re.sub(thumb, r"\1 ", text)
    text = re.sub(r"^eors ", "eor ", text)
    text = re.sub(r"^dcbtct ", "dcbt ", text)
    text = re.sub(r"^add (\w+),(\w+)$", r"add \1,\1,\2", text)
    return re.sub(r"^(eor|subs) (\w+),#1$", r"\1 \2,\2,#1", text)
