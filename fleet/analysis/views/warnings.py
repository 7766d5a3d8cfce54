"""Warnings of a run, for `fleet show` and the report."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Floats
from fleet.analysis.base.text import (
    format_half_width,
    format_pair,
    format_share,
    to_records,
)
from fleet.analysis.reduce import cross_checks
from fleet.analysis.reduce.flags import (
    MEANINGS,
    MINOR_IF_FEW,
    PAIR_FLAGS,
    SIBLING_NEARER,
    count_flags,
)
from fleet.analysis.reduce.topology_check import FINDING_MEANINGS
from fleet.analysis.views.marked_rows import WIDE, MarkedRows
from fleet.model import FORECAST, describe_channels, has_empty_channels
from fleet.text import format_count, one_line

HEADING = "Warnings"
_CHANCE = 0.01  # share of the pairs without drift that the test reports by chance
_FEW_BURSTS = 0.05  # of a run's bursts; fewer do not move its medians
_LISTED = 3
_CAUSES = ("steal", "hypervisor")  # warnings that explain many others
# warnings that a run is not what was asked for, which are always told
_NOT_AS_ASKED = ("empty", "partial", "not_converged")
_TELLING_WARNINGS = 2
_FEW_WARNINGS = 3
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_FELT = 0.01  # of a burst's time; a hypervisor may take less without a warning
_LACK = 0.1  # of a burst's time; a burst with `busy_cpu` has lacked at least this
_QUIETER = "Stop other work (`fleet check` names it), then run again."
_FREQUENCY = "Fix the frequency (--governor performance, --boost off), then run again."
_PLACED = "Place the memory yourself (--nodes), then run again."
_TOPOLOGY = (
    "Trust the latencies, not the topology; without a hypervisor report it to the"
    " vendor."
)
# What the reader can do about each kind of warning, the most serious first.
ADVICE: Mapping[str, str] = {
    "empty": "Ask `fleet check` what hinders it, then run again.",
    "partial": "Remove the cause that is named, then run again.",
    "channel": "Put a module into each channel; one may be loose or broken.",
    "multimodal": (
        "Quote both levels (--pair draws them). Pin vCPUs; elsewhere fix the frequency."
    ),
    "smt_pair": _TOPOLOGY,
    "drift": (
        "Warm up, fix the frequency, run again; compare only runs taken alternately."
    ),
    "coarse_clock": "Leave the number of round trips to the agent.",
    "frequency_moved": _FREQUENCY,
    "skewed": "Stop other work, or take longer samples (--plan iterations=N).",
    "uneven": _QUIETER,
    "underfed": "Ask for a lower --load.",
    "outliers": "Quote medians, not means or maxima; isolated CPUs have fewer.",
    "not_converged": "Give it a longer --time-budget, or a quieter machine.",
    "wide": "More --rounds, or --precision instead of them.",
    "preempted": "Stop other work, raise --plan priority=N, or isolate CPUs.",
    "busy_cpu": _QUIETER,
    "busy": _QUIETER,
    "steal": (
        "Give the virtual machine CPUs of its own, or measure when its neighbours are"
        " idle."
    ),
    "hypervisor": (
        "Pin the virtual CPUs on the hypervisor's host, or measure on bare metal."
    ),
    "siblings": _TOPOLOGY,
    "order": "Expected of clusters of slow cores; otherwise mistrust the topology.",
    "history": "Pin the virtual machine's CPUs; `fleet compare HOST` says since when.",
    "asymmetry": (
        "Run again; if it stays, choose the home of the line (--nodes, --plan"
        " owner=pong)."
    ),
    "l1_cycles": _FREQUENCY,
    "ladder_order": (
        "Stop neighbours on a shared cache; check the cache sizes that the host"
        " reports."
    ),
    "port_limit": _FREQUENCY,
    "group_rate": _QUIETER,
    "one_buffer": _PLACED,
    "contend_places": _QUIETER,
    "contend_own": "Take one CPU a core (--cpus), and fix the frequency.",
    "loaded_rate": _QUIETER,
    "message_readwrite": "Quote the mean of both directions (`fleet show --ways`).",
    "node_order": "Expected of HBM; otherwise check the firmware's NUMA settings.",
    "gemm_peak": _FREQUENCY,
    "gemm_units": _FREQUENCY,
    "minor": "Nothing to do: medians tolerate them.",
}
ORDER = (*ADVICE, "")  # keys of warnings; notes have none
# kinds of warnings, by words of the notes that state their fact
_KINDS_OF_NOTES = {
    "A hypervisor (": "hypervisor",
    "The host is busy": "busy",
    " numbers are known to ": "not_converged",
}
_SAME_FACT = {"busy": "busy_cpu", "hypervisor": "steal"}
# By key of a warning about pairs: the column that ranks them, and what to show of one.
_MEASURES_OF_PAIRS: Mapping[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "multimodal": (
        "other_share",
        lambda row: f"{format_share(row['other_share'])} of bursts",
    ),
    "smt_pair": (
        "median_ns",
        lambda row: f"{row['median_ns']:.1f} ns, {row['relation']}",
    ),
    "drift": ("drift", lambda row: f"{row['drift']:+.1%}"),
    "underfed": ("other_rate", lambda row: f"{row['other_rate']:.1f} GB/s"),
    "outliers": ("outliers", lambda row: format_share(row["outliers"])),
    "not_converged": ("spread", lambda row: format_half_width(row["spread"])),
    "wide": ("spread", lambda row: format_half_width(row["spread"])),
}
# Keys for pairs that are too fast or get too little; of others, the largest is worst.
_SMALLEST_IS_WORST = ("smt_pair", "underfed")


@dataclass(frozen=True, slots=True)
class RunWarning:
    """A warning or a note about one run; `str()` is the whole line.

    key: the flag or check that a warning is about, one of ADVICE; "" for a note. text:
    a sentence that is the same for every run. extent: how much of this run it concerns.
    worst: the worst few cases. minor: medians tolerate it.
    """

    key: str
    text: str
    extent: str = ""
    worst: str = ""
    minor: bool = False

    def __str__(self) -> str:
        """Return the line: "outliers: pairs have many slow samples (3 of 120): cas 3-17
        (2%)". A note has no key before it.
        """
        words = self.text
        if not self.is_note:
            words = f"{self.key}: {words}"
        if self.extent:
            words += f" ({self.extent})"
        if self.worst:
            words += f": {self.worst}"
        return words

    @property
    def is_note(self) -> bool:
        """Report whether it is a note, which asks for nothing."""
        return not self.key

    @property
    def advice(self) -> str:
        """Return what the reader can do about it; empty for a note."""
        return ADVICE.get(self.key, "")


def list_warnings(
    run: dict[str, Any],
    rows: MarkedRows,
    comparisons: pd.DataFrame,
    findings: pd.DataFrame,
) -> list[RunWarning]:
    """List a run's warnings, one per fact, most serious first, then its notes. All
    minor warnings, about so few bursts that medians tolerate them, become one.

    rows: the run's pairs and bursts that may be worth a warning. comparisons: from
    `check_run`, a row per comparison of two numbers. findings: from `check_topology`, a
    row per oddity.
    """
    warnings = [
        *_warn_about_failures(run, rows),
        *_warn_about_flags(run, rows),
        *_warn_about_steal(rows),
        *_warn_about_memory(run),
        *_warn_about_checks(findings, comparisons),
    ]
    by_key = {warning.key: warning for warning in warnings if not warning.minor}
    minor = [warning for warning in warnings if warning.minor]
    if minor:
        by_key["minor"] = _merge_minor(minor)
    notes = _merge_notes(run["notes"], by_key)
    ordered = sorted(by_key.values(), key=lambda warning: ORDER.index(warning.key))
    return [*ordered, *notes]


def _merge_minor(warnings: Sequence[RunWarning]) -> RunWarning:
    """Merge warnings about few bursts into one."""
    extents = [f"{warning.key} {warning.extent}" for warning in warnings]
    words = "few bursts have a flag"
    return RunWarning("minor", words, worst=", ".join(extents), minor=True)


def _merge_notes(
    notes: Sequence[str], by_key: dict[str, RunWarning]
) -> list[RunWarning]:
    """Merge the notes that warn into the warnings `by_key`, which this changes. Return
    the other notes, which only inform.

    A note is a sentence that is stored with the run. Forecasts are left out. The note
    that pairs did not converge only informs, and is left out if a warning, made from
    the flags of these pairs, says so already. Any other note in which `_find_kind`
    finds a kind of warning, such as "busy", warns. All other notes only inform.

    by_key: the warnings, each by its key.
    """
    plain_notes = []
    for note in notes:
        if note.startswith(FORECAST):
            continue
        kind = _find_kind(note)
        if kind == "not_converged":
            is_told = kind in by_key  # by the warning made from flags
            if not is_told:
                plain_notes.append(RunWarning("", note))
        elif kind:
            _add_note(by_key, kind, note.removesuffix("."))
        else:
            plain_notes.append(RunWarning("", note))
    return plain_notes


def _find_kind(note: str) -> str:
    """Return the kind of warning that a note is; empty if it is just a note."""
    for words, kind in _KINDS_OF_NOTES.items():
        if words in note:
            return kind
    return ""


def _add_note(by_key: dict[str, RunWarning], kind: str, note: str) -> None:
    """Add a note to the warning about the same fact that bursts gave: a note of the
    kind `busy` to the warning `busy_cpu`, as _SAME_FACT says. If there is no such
    warning, make the note a warning of its own. by_key: the warnings, each by its key.
    """
    key_of_same_fact = _SAME_FACT[kind]
    if key_of_same_fact not in by_key:
        by_key[kind] = RunWarning(kind, note)
        return
    warning = by_key[key_of_same_fact]
    worst = f"{warning.worst}; {note}" if warning.worst else note
    by_key[key_of_same_fact] = replace(warning, worst=worst)


def render_warnings(warnings: Sequence[object]) -> str:
    """Render a heading, each warning with what to do about it, then the notes; return
    "" without any. Warnings may also be of other commands: those say in their own words
    what to do.
    """
    lines = []
    notes = []
    for warning in warnings:
        line = f"  {one_line(str(warning))}"
        if not isinstance(warning, RunWarning):
            lines.append(line)
        elif warning.is_note:
            notes.append(line)
        else:
            lines += [line, f"      {warning.advice}"]
    parts = []
    if lines:
        parts.append("\n".join([HEADING, *lines]))
    if notes:
        parts.append("\n".join(["Notes", *notes]))
    return "\n\n".join(parts)


def fold_warnings(
    warnings: Sequence[RunWarning], run: Mapping[str, Any]
) -> list[RunWarning]:
    """Shorten the warnings of a run on a virtual machine if they are many. Keep the
    warnings which say that the run is not what was asked for, the most telling other
    warnings, and the notes; only count the rest. Few warnings, and those of bare metal,
    stay as they are.
    """
    notes = [warning for warning in warnings if warning.is_note]
    proper_warnings = [warning for warning in warnings if not warning.is_note]
    if run["hypervisor"] is None or len(proper_warnings) <= _FEW_WARNINGS:
        return list(warnings)
    kept = []
    others = []
    for warning in proper_warnings:
        if warning.key in _NOT_AS_ASKED:
            kept.append(warning)
        else:
            others.append(warning)
    kept += _choose_telling(others)
    return [*kept, _count_left_out(proper_warnings, kept), *notes]


def _choose_telling(warnings: Sequence[RunWarning]) -> list[RunWarning]:
    """Choose a warning that explains others, if there is one, then the most serious."""
    causes = [warning for warning in warnings if warning.key in _CAUSES]
    others = [warning for warning in warnings if warning.key not in _CAUSES]
    return [*causes[:1], *others][:_TELLING_WARNINGS]


def _count_left_out(
    warnings: Sequence[RunWarning], chosen: Sequence[RunWarning]
) -> RunWarning:
    """Count the warnings that were not chosen, and name their kinds."""
    keys = [warning.key for warning in warnings if warning not in chosen]
    count = format_count(len(keys), "more warning")
    names = ", ".join(keys)
    where = "`fleet report` describes them"
    return RunWarning("", f"{count} of a virtual machine: {names}; {where}.")


def _warn_about_failures(run: dict[str, Any], rows: MarkedRows) -> Iterator[RunWarning]:
    """Yield a warning if the run has no samples, and one about the bursts that failed
    and have no number.

    `failed` of the run has a dict for each failure, with the `benchmark` and `reason`.
    `again` is true if that burst was taken again, so that it has a number in the end.
    """
    if not rows.pair_count:
        yield RunWarning("empty", "no samples are stored, so there are no latencies")
    failures = [failure for failure in run["failed"] if not failure.get("again")]
    if not failures:
        return
    reasons = [failure["reason"] for failure in failures]
    yield RunWarning(
        "partial",
        "bursts failed and have no samples",
        extent=_count_failures(failures),
        worst=_list_reasons(reasons),
    )


def _count_failures(failures: Sequence[Mapping[str, Any]]) -> str:
    """Count failed bursts and, of several benchmarks, those of each."""
    total = str(len(failures))
    counts = Counter(failure["benchmark"] for failure in failures)
    if len(counts) == 1:
        return total
    by_benchmark = [f"{name} {count}" for name, count in counts.most_common()]
    return f"{total}: {', '.join(by_benchmark)}"


def _list_reasons(reasons: Sequence[str]) -> str:
    """List the most frequent reasons, each with its count: "no answer for 3 to 5 s (7);
    no memory (2)". Reasons that differ only in numbers count as one, with the range of
    each number.
    """
    reasons_by_form: dict[str, list[str]] = {}
    for reason in reasons:
        # "no answer for 3 s" and "no answer for 5 s" have the form "no answer for # s"
        form = _NUMBER.sub("#", reason)
        reasons_by_form.setdefault(form, []).append(reason)
    most_first = sorted(reasons_by_form.values(), key=len, reverse=True)
    words = [
        f"{_merge_reasons(group)} ({len(group)})" for group in most_first[:_LISTED]
    ]
    return "; ".join(words)


def _merge_reasons(reasons: Sequence[str]) -> str:
    """Merge reasons that differ only in numbers into one, with a range for each
    number.
    """
    columns = zip(*map(_NUMBER.findall, reasons), strict=True)
    ranges = map(_format_range, columns)
    return _NUMBER.sub(lambda _: next(ranges), reasons[0])


def _format_range(numbers: Iterable[str]) -> str:
    """Format the least and the greatest of some numbers, or one if they are equal."""
    ordered = sorted(set(numbers), key=float)
    if len(ordered) == 1:
        return ordered[0]
    return f"{ordered[0]} to {ordered[-1]}"


def _warn_about_flags(run: dict[str, Any], rows: MarkedRows) -> Iterator[RunWarning]:
    """Yield one warning per flag that occurs. If pairs have the flag, the warning is
    about the pairs, else about the bursts.

    The flags of a pair include those of its bursts. PAIR_FLAGS are about a pair as a
    whole, so pairs are searched only for these.
    """
    burst_counts = {}
    if len(rows.bursts):
        burst_counts = count_flags(rows.bursts["flags"])
    for flag, text in MEANINGS.items():
        pairs = []
        if flag in PAIR_FLAGS:
            pairs = [row for row in rows.pairs if _has_flag(row["flags"], flag)]
        if pairs:
            yield from _warn_about_pairs(flag, text, run, pairs, rows.pair_count)
        elif flag in burst_counts:
            yield from _warn_about_bursts(flag, text, burst_counts[flag], rows)
    # if a precision was requested, the flag `not_converged` names the wide pairs
    if run["precision"] is None:
        yield from _warn_about_wide_pairs(rows)


def _has_flag(flags: str, flag: str) -> bool:
    return flag in flags.split(",")


def _warn_about_wide_pairs(rows: MarkedRows) -> Iterator[RunWarning]:
    """Yield a warning about the pairs whose interval is wider than WIDE, if any.
    `spread` of a pair is half its 95 % interval, as a share; None if unknown.
    """
    wide = [row for row in rows.pairs if (row["spread"] or 0) > WIDE]
    if wide:
        yield RunWarning(
            "wide",
            f"pairs have an interval wider than {format_half_width(WIDE)}",
            extent=f"{len(wide)} of {rows.pair_count}",
            worst=_format_worst_pairs(wide, "wide"),
        )


def _warn_about_bursts(
    flag: str, text: str, count: int, rows: MarkedRows
) -> Iterator[RunWarning]:
    """Yield a warning about bursts with a flag. Yield none about busy CPUs if a
    hypervisor took CPU time from all such bursts, for then the warning `steal` says so.

    flag, text: a key of MEANINGS and its sentence. count: of the bursts with the flag.
    rows: of the run; `burst_count` is of all its bursts.
    """
    cause = ""
    if flag == "busy_cpu":
        # not other work but a hypervisor may have taken the CPU time
        stolen = _count_stolen_of_busy(rows)
        if stolen == count:
            return
        if stolen:
            busy = format_count(count, "burst")
            cause = f"the hypervisor took it from {stolen} of {busy}"
    share = count / rows.burst_count
    minor = flag in MINOR_IF_FEW and share <= _FEW_BURSTS
    yield RunWarning(flag, text, format_share(share), cause, minor=minor)


def _count_stolen_of_busy(rows: MarkedRows) -> int:
    """Count the bursts whose CPUs were busy because a hypervisor took their time."""
    is_busy = [_has_flag(flags, "busy_cpu") for flags in rows.bursts["flags"]]
    shares = _compute_steal_shares(rows.bursts[is_busy])
    return int((shares >= _LACK).sum())


def _compute_steal_shares(bursts: pd.DataFrame) -> Floats:
    """Return the largest share of each burst's time that a hypervisor took from a
    thread; 0 if unknown.
    """
    ping_ppm = bursts["ping_steal_ppm"].to_numpy(dtype=float)
    pong_ppm = bursts["pong_steal_ppm"].to_numpy(dtype=float)
    largest_ppm = np.fmax(ping_ppm, pong_ppm)  # NaN if both are unknown
    shares: Floats = np.nan_to_num(largest_ppm / 1e6)
    return shares


def _warn_about_memory(run: Mapping[str, Any]) -> Iterator[RunWarning]:
    """Yield a warning about channels without a module, as `fleet check` does."""
    memory = run.get("memory") or {}
    populated = memory.get("channels_populated")
    channels = memory.get("channels")
    if has_empty_channels(populated, channels):
        yield RunWarning(
            "channel",
            "memory channels have no module, and bandwidth is lower by as much",
            extent=describe_channels(populated, channels),
        )


def _warn_about_steal(rows: MarkedRows) -> Iterator[RunWarning]:
    """Yield one warning about the bursts that lost a share of _FELT or more of their
    time to the hypervisor, if there are any. Name those that lost the largest shares.
    The warning is minor if these bursts are so few that medians tolerate them.
    """
    if rows.bursts.empty:
        return
    bursts = rows.bursts.assign(share=_compute_steal_shares(rows.bursts))
    most_first = bursts.sort_values("share", ascending=False, kind="stable")
    felt = most_first[most_first["share"] >= _FELT]
    if felt.empty:
        return
    worst = map(_describe_stolen_burst, to_records(felt.head(_LISTED)))
    share = format_share(len(felt) / rows.burst_count)
    mean = format_share(felt["share"].mean())
    yield RunWarning(
        "steal",
        "bursts lost CPU time to the hypervisor",
        extent=f"{share}, on average {mean} of their time",
        worst=", ".join(worst),
        minor=len(felt) <= _FEW_BURSTS * rows.burst_count,
    )


def _describe_stolen_burst(burst: Mapping[str, Any]) -> str:
    """Name a burst, and the share of its time that it lost."""
    name = f"{burst['benchmark']} {format_pair(burst)} in round {burst['round']}"
    return f"{name} ({format_share(burst['share'])})"


def _warn_about_pairs(
    flag: str,
    text: str,
    run: dict[str, Any],
    pairs: list[dict[str, Any]],
    pair_count: int,
) -> Iterator[RunWarning]:
    """Yield a warning about pairs with a flag, if more have the flag than chance gives
    it to.

    flag, text: a key of MEANINGS and its sentence. pairs: rows of the pairs with this
    flag. pair_count: of all pairs of the run, with or without the flag.
    """
    if flag == "smt_pair":
        # Siblings of one core have this flag, too, if they are not clearly nearest to
        # each other. The check `siblings` of the topology warns about them.
        pairs = [row for row in pairs if row["relation"] != "smt"]
    by_chance = 0
    # drift alone is found by a test, which reports some pairs without drift
    if flag == "drift":
        by_chance = round(_CHANCE * pair_count)
    extent = f"{len(pairs)} of {pair_count}"
    if by_chance:
        extent += f", about {by_chance} expected by chance"
    # pairs have this flag only in runs that asked for a precision
    if flag == "not_converged":
        extent += f" wider than {format_half_width(run['precision'])}"
    if len(pairs) > by_chance:
        yield RunWarning(flag, text, extent, _format_worst_pairs(pairs, flag))


def _format_worst_pairs(pairs: list[dict[str, Any]], key: str) -> str:
    """Format the worst pairs of a warning: "cas 3-17 (31% of bursts), cas 4-9 (12% of
    bursts)". The column of its key in _MEASURES_OF_PAIRS ranks the pairs; pairs without
    a number in it are left out.
    """
    column, describe = _MEASURES_OF_PAIRS[key]
    measured_pairs = [row for row in pairs if row[column] is not None]
    is_largest_worst = key not in _SMALLEST_IS_WORST
    worst_first = sorted(
        measured_pairs, key=lambda row: abs(row[column]), reverse=is_largest_worst
    )
    texts = []
    for row in worst_first[:_LISTED]:
        name = f"{row['benchmark']} {format_pair(row)}"
        texts.append(f"{name} ({describe(row)})")
    return ", ".join(texts)


def _warn_about_checks(
    findings: pd.DataFrame, comparisons: pd.DataFrame
) -> Iterator[RunWarning]:
    """Yield a warning per failed check of the topology, then per failed cross-check;
    worst cases first.

    findings: a row per oddity of the topology. comparisons: a row per comparison of two
    numbers of the run; `value` is larger if worse. Both have `check`, the key of the
    warning, and `says`, the case as text.
    """
    if len(findings):
        worst = _sort_findings(findings)
        yield from _warn_about_cases(FINDING_MEANINGS, worst, "finding", ", ")
    if len(comparisons):
        breaches = cross_checks.select_breaches(comparisons)
        worst = breaches.sort_values("value", ascending=False, kind="stable")
        meanings = cross_checks.CROSS_CHECK_MEANINGS
        yield from _warn_about_cases(meanings, worst, "case", "; ")


def _sort_findings(findings: pd.DataFrame) -> pd.DataFrame:
    """Sort findings by how far they are from usual, the farthest first, and name the
    benchmark in what each says.
    """
    # Of siblings: how many times nearer they are than other CPUs, usually
    # SIBLING_NEARER or more. Else: the ratio of two times, usually about 1.
    ratios = findings["value"].to_numpy(dtype=float)
    usual = np.where(findings["check"] == "siblings", SIBLING_NEARER, 1.0)
    distances = np.abs(np.log(ratios / usual))
    farthest_first = np.argsort(-distances, kind="stable")
    says_with_benchmark = findings["benchmark"] + " " + findings["says"]
    named = findings.assign(says=says_with_benchmark)
    return named.iloc[farthest_first]


def _warn_about_cases(
    meanings: Mapping[str, str], rows: pd.DataFrame, noun: str, between: str
) -> Iterator[RunWarning]:
    """Yield a warning per check that has rows, with the first few of them.

    meanings: the sentence of each check. rows: a row per case, the worst first; `check`
    is the key of its check, and `says` the case as text. noun: what the cases are
    called. between: what separates two cases.
    """
    for check, text in meanings.items():
        is_of_check = rows["check"] == check
        cases = rows.loc[is_of_check, "says"].tolist()
        if not cases:
            continue
        worst = between.join(cases[:_LISTED])
        if len(cases) > _LISTED:
            worst += f" and {len(cases) - _LISTED} more"
        extent = format_count(len(cases), noun)
        yield RunWarning(check, text, extent, worst)
