"""Options, rules between them and presets, as the agent describes them in options.json.
`make describe` writes the file; docs/wire.md explains its keys.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class AgentOption:
    """An option of the agent that has a value."""

    name: str  # without dashes
    type: str
    least: int
    most: int
    multiple: int | None
    words: str | None  # separated by a bar
    allowed: str  # of a text, for people; else ""
    value: str
    usual: str | None
    with_rounds: str | None
    usual_words: str | None
    help: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Says that an option excludes the other, or needs it to be on; and why."""

    name: str
    relation: str  # excludes or needs
    other: str
    why: str


_DESCRIBED: Mapping[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("options.json").read_text()
)
AGENT_OPTIONS: Mapping[str, AgentOption] = MappingProxyType(
    {row["name"]: AgentOption(**row) for row in _DESCRIBED["options"]}
)
RULES = tuple(Rule(**row) for row in _DESCRIBED["rules"])
PRESET_ARGUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {row["name"]: tuple(row["arguments"]) for row in _DESCRIBED["presets"]}
)
