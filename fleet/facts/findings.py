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
    texts, kind = _FINDINGS[name], name.partition(".")[0]
    message, remedy = (
        texts[part].format(facts=facts, **values) for part in ("found", "remedy")
    )
    condition = Condition(texts["condition"]) if "condition" in texts else None
    severity = severity or Severity(texts["severity"])
    return Finding(
        kind, severity, message, remedy, texts.get("evidence", kind), condition
    )
