"""What `fleet clean` did, as text for people and JSON for programs. Prints nothing."""

from collections.abc import Sequence
from textwrap import indent

from fleet.console.summary import failures
from fleet.hostnames import folded, group_messages
from fleet.session.clean import Cleaned
from fleet.text import as_json, counted, printable


def cleaned_text(cleaned: Sequence[Cleaned], *, dry_run: bool = False) -> str:
    """What was removed and left on each host, equal hosts grouped; then the failures."""
    verb = "would remove" if dry_run else "removed"
    blocks = []
    for one in cleaned:
        if not one.outcome.message:
            lines = [f"{verb} {path}" for path in one.removed] + [f"left {text}" for text in one.left]
            blocks.append((one.outcome.host, "\n".join(lines) or "nothing of ours is there"))
    parts = [f"{folded(names)}:\n{indent(text, '  ')}" for text, names in group_messages(blocks)]
    parts += failures([one.outcome for one in cleaned])
    paths = counted(sum(len(one.removed) for one in cleaned), "path")
    parts.append(f"{paths} {'to be removed' if dry_run else 'removed'} on {counted(len(blocks), 'host')}.")
    return printable("\n\n".join(parts))


def cleaned_json(cleaned: Sequence[Cleaned]) -> str:
    """The same for programs: a list, one object a host."""
    return as_json(
        [
            {
                "host": one.outcome.host.name,
                "state": one.outcome.state,
                "stage": one.outcome.stage,
                "exit_code": one.outcome.exit_code,
                "message": one.outcome.message,
                "removed": list(one.removed),
                "left": list(one.left),
            }
            for one in cleaned
        ]
    )
