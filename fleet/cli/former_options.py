"""Options that commands had in earlier versions, and what to write instead."""

from collections.abc import Mapping

_OF_PLANS = {
    "--variant": "name it with its benchmark: -b cas/c11.",
    "--iterations": "write --plan iterations=N.",
    "--warmup": "write --plan warmup=N.",
    "--spread": "write --plan spread_s=DURATION.",
    "--few-pairs": "write --plan few_pairs=PAIRS.",
    "--order": "write --plan order=WORD.",
    "--owner": "write --plan owner=WORD.",
    "--node": "write --nodes N, or --plan node=N.",
    "--sep": "write --plan separation_bytes=BYTES.",
    "--stride": "write --plan stride_bytes=BYTES.",
    "--pages": "write --plan pages=WORD.",
    "--share": "write --plan share=LIST.",
    "--state": "write --plan states=LIST.",
    "--blocks": "write --plan blocks=SIZES.",
    "--seed": "write --plan seed=N.",
    "--priority": "write --plan priority=N.",
    "--deadline": "write --plan deadline_s=DURATION.",
}
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
