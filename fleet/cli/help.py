"""The help of a command with its options in groups: what, how much, where, how."""

import re
from collections.abc import Iterator, Mapping, Sequence

import click
from typer.core import TyperCommand

from fleet.plan.options import BY_NAME

_WHAT = (
    "benchmarks variant preset pairs ordered cpus sizes stride_bytes operations threads load share "
    "message_lines shape few_pairs states blocks counters"
)
_MUCH = "samples iterations warmup rounds precision time_budget_s spread_s repeat alternate switch"
_WHERE = "inventory results shard dask label output folder"
_HOW = "order line owner node nodes separation_bytes pages governor boost seed priority deadline_s lock"
PANELS: Mapping[str, Sequence[str]] = {
    "What to measure": _WHAT.split(),
    "How much": _MUCH.split(),
    "Where": _WHERE.split(),
    "How to measure": _HOW.split(),
}
_USUAL_OF_RUN = (
    "select benchmarks cpus counters rounds precision time_budget_s repeat alternate switch inventory "
    "results label governor dry_run map_ quiet json help help_all"
)
USUAL = frozenset(_USUAL_OF_RUN.split())
"""Of the options of a command with groups, those that its --help lists; --help-all has the others too."""
MEASURES = "run"  # the command whose help lists all options of a plan; `check` takes them, too
_OTHERS = "Options"
_HELP = ("-h, --help", "--help-all")  # come last
_HYPHEN = "\u2011"  # stands for "-" while lines are broken, so that names and options stay whole


class GroupedCommand(TyperCommand):
    """A command whose help lists its options under headings; of few options there is one heading."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As inherited; an unknown option that is a value of others names these."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as err:
            value = re.compile(rf"\[.*\b{re.escape(err.option_name.lstrip('-'))}\b.*\]")
            takes = [one.opts[0] for one in self.params if value.search(getattr(one, "help", None) or "")]
            if not takes:
                raise
            words = f"No such option {err.option_name!r}; it is a value of {' and '.join(takes)}."
            raise click.NoSuchOption(err.option_name, words, ctx=ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then each group of options."""
        records: dict[str, list[tuple[str, str]]] = {}
        grouped, whole = self.name == MEASURES, ctx.meta.get(_WHOLE)
        for parameter, record in self.listed(ctx):
            if whole or not grouped or parameter.name in USUAL:
                records.setdefault(_panel(parameter), []).append(record)
        for title, rows in _in_order(records, grouped=grouped):
            with formatter.section(title):
                formatter.write_dl([(name, text.replace("-", _HYPHEN)) for name, text in rows])
        formatter.buffer = [part.replace(_HYPHEN, "-") for part in formatter.buffer]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, --help and, where that lists only the usual ones, --help-all."""
        found = super().get_params(ctx)
        return [*found, _HELP_ALL] if self.name == MEASURES else found

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """--help, in fewer words than click has."""
        found = super().get_help_option(ctx)
        if found is not None:
            found.help = "Show this."
        return found

    def listed(self, ctx: click.Context) -> Iterator[tuple[click.Parameter, tuple[str, str]]]:
        """The parameters that help tells of; all options of a plan only in that of MEASURES."""
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            elsewhere = (
                self.name != MEASURES
                and parameter.name in BY_NAME
                and parameter.name not in ("benchmarks", "cpus")
            )
            if record is not None and not elsewhere:
                yield parameter, record


def _print_whole(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        ctx.meta[_WHOLE] = True
        click.echo(ctx.get_help())
        ctx.exit()


_WHOLE = f"{__name__}.whole"
_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_whole,
    help="Show every option.",
)


def _panel(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return "Arguments"
    return next((title for title, names in PANELS.items() if parameter.name in names), _OTHERS)


def _in_order(
    records: dict[str, list[tuple[str, str]]], *, grouped: bool
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The groups as they are listed; groups of short commands together."""
    if "Arguments" in records:
        yield "Arguments", records.pop("Arguments")
    if not grouped:
        listed = [row for rows in records.values() for row in rows]
        yield _OTHERS, sorted(listed, key=lambda row: row[0] in _HELP)
        return
    for title in (*PANELS, _OTHERS):
        if title in records:
            yield title, records[title]
