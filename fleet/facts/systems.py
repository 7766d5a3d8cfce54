"""The operating systems fleet can gather facts on: a row and a module each, in the order they are tried."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fleet.facts import linux, linux_noise, qnx
from fleet.facts.probe import Sections
from fleet.model import Facts, Finding, Load, Severity

WORST_FIRST = (Severity.SERIOUS, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True)
class Os:
    """An operating system: its title for messages, and its module's functions, which are pure.

    probe: the scripts whose answer `parse` reads, told the inventory's architecture; ValueError quotes what
    it does not know. On another OS they answer with the section `other`. findings: what disturbs, told the
    load some time later. load: the scripts that `parse_load` reads. search_path: the PATH for later commands,
    None for the usual one. raw_lines: the answer for `fleet check`, () where the facts are enough.
    """

    title: str
    probe: tuple[str, ...]
    is_answer: Callable[[Sections], bool]
    parse: Callable[[Sections, str | None], Facts]
    findings: Callable[[Facts, Load | None], Iterable[Finding]]
    load: tuple[str, ...] = ()
    parse_load: Callable[[Sections], Load] = lambda _: Load()
    search_path: Callable[[Sections], str | None] = lambda _: None
    raw_lines: Callable[[Sections], tuple[str, ...]] = lambda _: ()


SYSTEMS: Mapping[str, Os] = {
    "linux": Os(
        "Linux",
        ("load_linux.sh", "probe_linux.sh"),
        linux.is_answer,
        linux.parse,
        linux_noise.findings,
        ("load_linux.sh",),
        linux.parse_load,
    ),
    "qnx": Os(
        *("QNX", ("probe_qnx.sh",), qnx.is_answer, qnx.parse, qnx.findings),
        search_path=qnx.search_path,
        raw_lines=qnx.raw_lines,
    ),
}


OF_STEPS = SYSTEMS["linux"]
"""Of the nodes on which a scheduler begins a step."""


def of_answer(sections: Sections) -> Os | None:
    """Return the OS of the host that gave this answer; None for one we do not know."""
    return next((system for system in SYSTEMS.values() if system.is_answer(sections)), None)


def findings(facts: Facts, later: Load | None = None) -> tuple[Finding, ...]:
    """What disturbs measurements there, the worst first. later: load read some time after the facts."""
    found = SYSTEMS[facts.target.os].findings(facts, later)
    return tuple(sorted(found, key=lambda finding: WORST_FIRST.index(finding.severity)))


def serious(facts: Facts) -> tuple[str, ...]:
    """The serious findings as sentences, for a run's notes."""
    return tuple(finding.found for finding in findings(facts) if finding.severity is Severity.SERIOUS)
