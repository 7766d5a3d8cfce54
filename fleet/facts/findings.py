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
    filled in with the facts and with `values`.

    The file has its severity, if none is given here. It may name a condition that
    --require can name, and the facts that are the evidence, by default the fact KIND.
    """
    texts = _FINDINGS[name]
    kind, _, _ = name.partition(".")
    if severity is None:
        severity = Severity(texts["severity"])
    condition = None
    if "condition" in texts:
        condition = Condition(texts["condition"])
    return Finding(
        kind,
        severity,
        texts["found"].format(facts=facts, **values),
        texts["remedy"].format(facts=facts, **values),
        texts.get("evidence", kind),
        condition,
    )
