"""Lists the operating systems whose facts fleet can gather: a row and a module each,
tried in this order.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fleet.facts import linux, linux_noise, qnx
from fleet.facts.probe import Sections
from fleet.model import Condition, Facts, Finding, Load, Severity, Usage

WORST_FIRST = (Severity.SERIOUS, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True)
class Os:
    """An operating system: the scripts that probe it, and pure functions that interpret
    their answers.
    """

    title: str  # for messages
    # scripts; on another OS they answer with the section `other`
    probe: tuple[str, ...]
    is_answer: Callable[[Sections], bool]
    parse: Callable[[Sections, str | None], Facts]  # with the inventory's architecture
    find_noise: Callable[[Facts, Usage | None], Iterable[Finding]]
    load: tuple[str, ...] = ()  # scripts for `parse_load` and `parse_usage`
    parse_load: Callable[[Sections], Load] = lambda _: Load()
    # the number of CPUs online
    parse_usage: Callable[[Sections, int], Usage | None] = lambda *_: None
    # the PATH for later commands
    search_path: Callable[[Sections], str | None] = lambda _: None
    # lines for `fleet check`
    describe_answer: Callable[[Sections], tuple[str, ...]] = lambda _: ()


SYSTEMS: Mapping[str, Os] = {
    "linux": Os(
        title="Linux",
        probe=("load_linux.sh", "probe_linux.sh"),
        is_answer=linux.is_answer,
        parse=linux.parse,
        find_noise=linux_noise.find_noise,
        load=("load_linux.sh",),
        parse_load=linux.parse_load,
        parse_usage=linux.parse_usage,
    ),
    "qnx": Os(
        title="QNX",
        probe=("probe_qnx.sh",),
        is_answer=qnx.is_answer,
        parse=qnx.parse,
        find_noise=qnx.find_noise,
        search_path=lambda sections: qnx.parse_values(sections).get("path", ""),
        describe_answer=qnx.describe_answer,
    ),
}
STEP_OS = SYSTEMS["linux"]  # of nodes on which a scheduler starts a step


def os_from_answer(sections: Sections) -> Os | None:
    """Return the OS of the host that gave this answer; None if it is not supported."""
    return next(
        (system for system in SYSTEMS.values() if system.is_answer(sections)), None
    )


def list_unknown(facts: Facts) -> set[Condition]:
    """List the conditions whose fact the host does not tell: without the fact, whether
    the host meets the condition is unknown.
    """
    told = {
        Condition.PERFORMANCE: facts.governor,
        Condition.NO_BOOST: facts.boost,
        Condition.COOL: facts.core_throttles,
    }
    return {condition for condition, fact in told.items() if fact is None}


def find_noise(facts: Facts, usage: Usage | None = None) -> tuple[Finding, ...]:
    """Return findings on all that disturbs measurements on the host, worst first.
    usage: how busy it is.
    """
    unsorted = SYSTEMS[facts.target.os].find_noise(facts, usage)
    worst_first = sorted(
        unsorted, key=lambda finding: WORST_FIRST.index(finding.severity)
    )
    return tuple(worst_first)


def describe_serious_findings(facts: Facts) -> tuple[str, ...]:
    """Return the serious findings as sentences, for a run's notes."""
    return tuple(
        finding.found
        for finding in find_noise(facts)
        if finding.severity is Severity.SERIOUS
    )
