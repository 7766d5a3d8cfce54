"""What on a host disturbs measurements, and what to do about it. Pure: facts in, findings out."""

from fleet.facts.systems import SYSTEMS
from fleet.model import Facts, Finding, Load, Severity

_ORDER = (Severity.SERIOUS, Severity.WARNING, Severity.INFO)


def findings(facts: Facts, later: Load | None = None) -> tuple[Finding, ...]:
    """All findings, the most serious first. later: load read some time after the facts."""
    found = SYSTEMS[facts.target.os].findings(facts, later)
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.severity)))


def serious(facts: Facts) -> tuple[str, ...]:
    """The serious findings as sentences, for a run's notes."""
    return tuple(finding.found for finding in findings(facts) if finding.severity is Severity.SERIOUS)
