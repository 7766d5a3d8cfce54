"""Renders findings from the texts of `findings.json`; `linux_noise` and `qnx` decide
which apply.
"""

import json
from pathlib import Path

from fleet.model import Condition, Facts, Finding, Severity

_FINDINGS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def make_finding(
    name: str, facts: Facts, severity: Severity | None = None, **values: object
) -> Finding:
    """Return the finding `name` ("KIND" or "KIND.CASE" in `findings.json`), its texts
    filled in.
    """
    texts = _FINDINGS[name]
    kind = name.partition(".")[0]
    condition = texts.get("condition")
    return Finding(
        kind,
        severity or Severity(texts["severity"]),
        texts["found"].format(facts=facts, **values),
        texts["remedy"].format(facts=facts, **values),
        texts.get("evidence", kind),
        Condition(condition) if condition else None,
    )
