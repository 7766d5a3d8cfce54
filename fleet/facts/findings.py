"""The words of what disturbs measurements, of `findings.json`; `linux_noise` and `qnx` tell when they apply.

A remedy is either a command, its cost after a `#`, or a sentence, which begins with a capital letter.
"""

import json
from pathlib import Path

from fleet.model import Facts, Finding, Severity

_FINDINGS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def finding(name: str, facts: Facts, severity: Severity | None = None, **values: object) -> Finding:
    """What is found under this name, up to a dot its kind, and shown by the fact called so or `evidence`."""
    about, kind = _FINDINGS[name], name.partition(".")[0]
    found, remedy = (about[part].format(facts=facts, **values) for part in ("found", "remedy"))
    return Finding(kind, severity or Severity(about["severity"]), found, remedy, about.get("evidence", kind))
