"""Lists the operating systems whose facts fleet can gather: a row and a module each, tried in this order."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fleet.facts import linux, linux_noise, qnx
from fleet.facts.probe import Sections
from fleet.model import Facts, Finding, Load, Severity, Usage

WORST_FIRST = (Severity.SERIOUS, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True)
class Os:
    """An operating system: its title for messages, and its module's functions, which are pure.

    probe: the scripts whose answer `parse` takes, with the inventory's architecture; on another OS they
    answer with the section `other`. load: the scripts for `parse_load` and `parse_usage`, which takes the
    number of online CPUs. search_path: the PATH for later commands; None for the usual one.
    describe_answer: lines for `fleet check`.
    """

    title: str
    probe: tuple[str, ...]
    is_answer: Callable[[Sections], bool]
    parse: Callable[[Sections, str | None], Facts]
    find_noise: Callable[[Facts, Usage | None], Iterable[Finding]]
    load: tuple[str, ...] = ()
    parse_load: Callable[[Sections], Load] = lambda _: Load()
    parse_usage: Callable[[Sections, int], Usage | None] = lambda *_: None
    search_path: Callable[[Sections], str | None] = lambda _: None
    describe_answer: Callable[[Sections], tuple[str, ...]] = lambda _: ()


SYSTEMS: Mapping[str, Os] = {
    "linux": Os(
        *("Linux", ("load_linux.sh", "probe_linux.sh"), linux.is_answer, linux.parse, linux_noise.find_noise),
        *(("load_linux.sh",), linux.parse_load, linux.parse_usage),
    ),
    "qnx": Os(
        *("QNX", ("probe_qnx.sh",), qnx.is_answer, qnx.parse, qnx.find_noise),
        search_path=qnx.parse_search_path,
        describe_answer=qnx.describe_answer,
    ),
}
STEP_OS = SYSTEMS["linux"]  # of nodes on which a scheduler starts a step


def os_from_answer(sections: Sections) -> Os | None:
    """Return the OS of the host that gave this answer; None if it is not supported."""
    return next((system for system in SYSTEMS.values() if system.is_answer(sections)), None)


def find_noise(facts: Facts, usage: Usage | None = None) -> tuple[Finding, ...]:
    """Return what disturbs measurements there, the worst first. usage: of a second after the facts."""
    unsorted = SYSTEMS[facts.target.os].find_noise(facts, usage)
    return tuple(sorted(unsorted, key=lambda finding: WORST_FIRST.index(finding.severity)))


def describe_serious_findings(facts: Facts) -> tuple[str, ...]:
    """Return the serious findings as sentences, for a run's notes."""
    return tuple(finding.found for finding in find_noise(facts) if finding.severity is Severity.SERIOUS)
