"""Draws the pictures of report.md from `fleet demo`: .venv/bin/python docs/gallery.py
(needs Chromium).

Terminals are 100 columns wide; `SHOTS` lists what is typed, `PAGES` which part of which
page is taken.
"""

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import fleet

FOLDER = Path(__file__).parent / "gallery"
COLUMNS, LINE_PX, CHARACTER_PX = 100, 18, 8.4
COLOURS = 128

SHOTS = {
    "hosts": "fleet hosts",
    "runs": "fleet runs rome",
    "history": "fleet runs rome --relation llc",
    "show": "fleet show",
    "show-host": "fleet show rome",
    "show-map": "fleet show pisa -b cas --map",
    "show-ladder": "fleet show pisa -b bandwidth --ladder",
    "show-message": "fleet show verona -b message --ways",
    "show-fetch": "fleet show verona -b fetch",
    "show-interleave": "fleet show verona -b interleave",
    "show-gemm": "fleet show verona -b gemm",
    "compare": "fleet compare rome@kernel=old rome@kernel=new",
    "compare-fleet": "fleet compare kernel=old kernel=new",
    "over-time": "fleet compare lucca",
    "siblings": "fleet compare node* --siblings",
    "summaries": "fleet show summary:i7-4930k",
    "export": "fleet export siena -b cas",
}
MAX_LINES = 56
# By picture: the arguments of the command, the window, what is scrolled to, and whether
# it is dark.
PAGES: dict[str, tuple[str, tuple[int, int], str, bool]] = {
    "report": ("report rome milan pisa siena", (1280, 860), "", False),
    "report-dark": ("report rome milan pisa siena", (1280, 700), "runs", True),
    "report-map": ("report rome", (1280, 1240), "run-8", False),
    "report-forest": (
        "report --compare kernel=old kernel=new",
        (1280, 620),
        "differences",
        False,
    ),
    "report-machine": ("report pisa", (1280, 900), "", False),
    "report-ladders": ("report pisa", (1280, 760), "ladders", False),
}
HEATMAPS = {"heatmap": "rome"}  # by picture: the host
_HIDDEN_PX = 100  # at the lower end of a window, which Chromium does not draw
_ALONE = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
)
_FONT = "font: 14px/18px 'DejaVu Sans Mono', monospace"


def main() -> None:
    """Draw the pictures named on the command line, or all."""
    names = sys.argv[1:] or [*SHOTS, *PAGES, *HEATMAPS]
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        lab = Path(scratch) / "lab"
        subprocess.run([_fleet(), "demo", lab], check=True)
        # reduces the samples, which is reported once
        subprocess.run(
            [_fleet(), "runs", "--relation", "smt"],
            cwd=lab,
            check=True,
            capture_output=True,
        )
        for name in names:
            picture = FOLDER / f"{name}.png"
            if name in SHOTS:
                _shoot_terminal(SHOTS[name], lab, picture)
            elif name in HEATMAPS:
                axes = fleet.open(lab / "results").heatmap(HEATMAPS[name])
                axes.figure.savefig(picture, dpi=90, bbox_inches="tight")
            else:
                _shoot_page(name, lab, picture)
            sys.stdout.write(f"{picture}: {picture.stat().st_size // 1024} KB\n")


def _fleet() -> str:
    return str(Path(sys.executable).with_name("fleet"))


def _shoot_terminal(command: str, lab: Path, picture: Path) -> None:
    text = Text.from_ansi(_run_in_terminal(command, lab))
    lines = text.split("\n")[:MAX_LINES]
    console = Console(
        record=True,
        file=StringIO(),
        width=COLUMNS,
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Text(f"$ {command}", style="bold"))
    for line in lines:
        console.print(line, soft_wrap=True)
    shape = (
        "<!DOCTYPE html><meta charset=utf-8><style>{stylesheet}</style><body"
        " style='margin: 10px; background: {background}; color: {foreground}'><pre"
        f' style="margin: 0; {_FONT}">{{code}}</pre>'
    )
    page = lab / "terminal.html"
    page.write_text(console.export_html(theme=MONOKAI, code_format=shape))
    _shoot(
        page,
        picture,
        (round(COLUMNS * CHARACTER_PX) + 30, LINE_PX * (len(lines) + 1) + 24),
    )


def _run_in_terminal(command: str, lab: Path) -> str:
    """Run a command in a terminal and return what it shows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 500, COLUMNS, 0, 0))
    words = [_fleet(), *command.split()[1:]]
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "PAGER": "cat",
    }
    with subprocess.Popen(
        words, cwd=lab, stdin=slave, stdout=slave, stderr=slave, env=environment
    ):
        os.close(slave)
        output = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # so Linux says that the other end is closed
                break
            if not part:
                break
            output += part
    os.close(master)
    return output.decode().replace("\r\n", "\n").rstrip("\n")


def _shoot_page(name: str, lab: Path, picture: Path) -> None:
    command, size, place, dark = PAGES[name]
    page = lab / f"{name}.html"
    subprocess.run(
        [_fleet(), *command.split(), "-o", page],
        cwd=lab,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    if (
        place
    ):  # what comes before it is not drawn, since a picture is of the top of a page
        keep = (
            f"<style>main > :not(#{place}):not(.sections), header {{ display: none"
            " }</style></head>"
        )
        if place == "ladders":
            keep = (
                "<style>header, main > :not(.sections), section > :not(.ladder),"
                " section > .ladder ~ h3:not(:has(+ .ladder)) { display: none"
                " }</style></head>"
            )
        page.write_text(page.read_text().replace("</head>", keep))
    _shoot(page, picture, size, dark=dark)


def _shoot(
    page: Path, picture: Path, size: tuple[int, int], *, dark: bool = False
) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("docs/gallery.py needs Chromium: apt-get install chromium")
    theme = (
        ("--force-dark-mode", "--blink-settings=preferredColorScheme=0") if dark else ()
    )
    window = f"--window-size={size[0]},{size[1] + _HIDDEN_PX}"
    subprocess.run(
        [
            chromium,
            *_ALONE,
            *theme,
            f"--user-data-dir={page.parent / 'profile'}",
            window,
            f"--screenshot={picture}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )
    with Image.open(picture) as drawn:
        small = (
            drawn.convert("RGB")
            .crop((0, 0, *size))
            .quantize(COLOURS, dither=Image.Dither.NONE)
        )
    small.save(picture, optimize=True)


if __name__ == "__main__":
    main()
