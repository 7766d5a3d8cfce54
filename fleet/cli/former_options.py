"""Options that commands had in earlier versions, and what to write instead."""

from collections.abc import Mapping

_OF_PLANS = {"--variant": "name it with its benchmark: -b cas/c11."}
FORMER_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "run": _OF_PLANS,
    "check": _OF_PLANS,
}
"""What to write instead, by command and option."""


def advise_on_former_option(command: str, option: str) -> str:
    """Return the end of an error's sentence about an option that a command had once;
    "" if it never had it.
    """
    instead = FORMER_OPTIONS.get(command, {}).get(option)
    return f" any more; {instead}" if instead else ""
