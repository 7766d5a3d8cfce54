"""The help of a command with its options in groups: what, how much, where, how."""

from collections.abc import Iterator, Mapping, Sequence

import click
from typer.core import TyperCommand

_WHAT = (
    "benchmarks variant preset pairs ordered cpus sizes stride_bytes operations threads share "
    "message_lines shape few_pairs states blocks counters"
)
_MUCH = "samples iterations warmup rounds precision time_budget_s spread_s repeat alternate switch"
_WHERE = "inventory results shard dask label output folder"
_HOW = "order line owner node separation_bytes huge_page pages governor boost seed priority deadline_s lock"
PANELS: Mapping[str, Sequence[str]] = {
    "What to measure": _WHAT.split(),
    "How much": _MUCH.split(),
    "Where": _WHERE.split(),
    "How to measure": _HOW.split(),
}
_OTHERS = "Options"
_HELP = "-h, --help"  # comes last
_HYPHEN = "\u2011"  # stands for "-" while lines are broken, so that names and options stay whole


class GroupedCommand(TyperCommand):
    """A command whose help lists its options under headings; of few options there is one heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then each group of options."""
        records: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                records.setdefault(_panel(parameter), []).append(record)
        for title, rows in _in_order(records):
            with formatter.section(title):
                formatter.write_dl([(name, text.replace("-", _HYPHEN)) for name, text in rows])
        formatter.buffer = [part.replace(_HYPHEN, "-") for part in formatter.buffer]


def _panel(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return "Arguments"
    return next((title for title, names in PANELS.items() if parameter.name in names), _OTHERS)


def _in_order(records: dict[str, list[tuple[str, str]]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The groups as they are listed; groups of short commands together."""
    if "Arguments" in records:
        yield "Arguments", records.pop("Arguments")
    if next(iter(PANELS)) not in records:
        listed = [row for rows in records.values() for row in rows]
        yield _OTHERS, sorted(listed, key=lambda row: row[0] == _HELP)
        return
    for title in (*PANELS, _OTHERS):
        if title in records:
            yield title, records[title]
