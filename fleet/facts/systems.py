"""The operating systems fleet can gather facts on: one module each, in the order they are tried."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from fleet.facts import linux, qnx
from fleet.facts.probe import Sections
from fleet.model import Facts, Finding, Load, Severity

WORST_FIRST = (Severity.SERIOUS, Severity.WARNING, Severity.INFO)


class Os(Protocol):
    """What a module must define to add its operating system to SYSTEMS. Its functions are pure.

    NAME: as in the inventory and in targets. TITLE: for messages. PROBE: the scripts whose answer `parse`
    reads; on a host of another OS they answer with the section `other`. LOAD: those whose answer
    `parse_load` reads; () if the OS does not publish its load.
    """

    NAME: str
    TITLE: str
    PROBE: tuple[str, ...]
    LOAD: tuple[str, ...]

    def is_answer(self, sections: Sections, /) -> bool:
        """Return whether a host of this OS gave the answer."""
        ...

    def parse(self, sections: Sections, declared_arch: str | None, /) -> Facts:
        """Return the facts in the probe's answer, without the directory for our files.

        declared_arch: the inventory's, for a host that does not name its own. Raises ValueError for an
        architecture or answer we do not understand, its text quoting what the host printed.
        """
        ...

    def parse_load(self, sections: Sections, /) -> Load:
        """Return the load in the answer to LOAD; what is missing there is None."""
        ...

    def findings(self, facts: Facts, later: Load | None, /) -> Iterable[Finding]:
        """Return what disturbs measurements. later: the load some time after the facts."""
        ...

    def search_path(self, sections: Sections, /) -> str | None:
        """Return the PATH for every later command; None for an OS with the usual tools on its own PATH."""
        ...

    def raw_lines(self, sections: Sections, /) -> tuple[str, ...]:
        """Return the answer in lines for `fleet check`; () where the facts are enough."""
        ...


SYSTEMS: Mapping[str, Os] = {system.NAME: system for system in (linux, qnx)}


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
