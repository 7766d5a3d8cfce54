"""Writes options.md from the table of plan options: .venv/bin/python
docs/options.py.
"""

from pathlib import Path

from fleet.model import RequestedOptions
from fleet.plan.options import OFFERED, PRESETS, Option

PAGE = Path(__file__).with_suffix(".md")
INTRODUCTION = """\
# Plan options

<!-- Written by docs/options.py; edit agent/options/option_table.c instead, and run `make describe`. -->

The options of `fleet run` and `fleet check` and, in [the inventory](inventory.md), the keys of an entry.
What few runs need has no option of its own: `--plan NAME=VALUE`, repeatable, sets it. The command line overrides a
host's entry; `-b` replaces its benchmarks with their variants. A duration is written `90` (seconds), `90s`, `500ms`, `5m` or
`1h`; a share `1%` or `0.01`. [Benchmarks](benchmarks.md) explains the options of each.

| option | in the inventory | | values; default |
| --- | --- | --- | --- |
"""
ENVIRONMENT = """
## From the environment

Every option of every command has a variable, `FLEET_`, the command and the option: `FLEET_RUN_ROUNDS=20`
for `fleet run --rounds 20`, `FLEET_CHECK_CONNECT_TIMEOUT=5s`, `FLEET_SHOW_JSON=1`. Values of a repeatable
option are separated by blanks. `FLEET_INVENTORY` and `FLEET_RESULTS` hold for all commands. The command line
comes first, then the environment, then [the inventory](inventory.md#defaults-of-options). A variable of a command
that has no such option is an error.
"""
PRESETS_HEAD = """
## Presets

`--preset` samples and estimates [as another program does](exchange.md#presets). An option given beside it
overrides its value.

| preset | stands for |
| --- | --- |
"""


def page() -> str:
    """The whole page."""
    options = "".join(f"{_row(option)}\n" for option in OFFERED)
    presets = "".join(
        f"| `{name}` | `{_format_as_flags(values)}` |\n"
        for name, values in PRESETS.items()
    )
    return INTRODUCTION + options + ENVIRONMENT + PRESETS_HEAD + presets


def _row(option: Option) -> str:
    letter = f", `-{option.letter}`" if option.letter else ""
    typed = option.as_typed(option.grammar.metavar)
    key = f"`{'.'.join(option.key)}`" if option.key else ""
    values = f"{option.grammar.allowed}; {option.default}"
    cells = (f"`{typed}`{letter}", key, option.help, values)
    return f"| {' | '.join(cells)} |"


def _format_as_flags(values: RequestedOptions) -> str:
    pairs = ((option, getattr(values, option.name)) for option in OFFERED)
    return " ".join(
        option.as_flag(value) for option, value in pairs if value is not None
    )


if __name__ == "__main__":
    PAGE.write_text(page())
