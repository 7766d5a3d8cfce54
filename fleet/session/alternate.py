"""`fleet run --alternate`: measures hosts in several states in turn, in random order; a
command sets each.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleet.errors import UsageError
from fleet.late import random
from fleet.plan.options import parse_labels

_STDERR = 2  # stdout is for results


@dataclass(frozen=True, slots=True)
class Alternation:
    """A label and the values it takes in turn. command: switches the hosts to a value;
    "" for none.
    """

    key: str
    values: tuple[str, ...]
    command: str = ""

    def draw_order(self, repeat: int, seed: int | None = None) -> list[str]:
        """Return the values of `repeat` passes; each pass has every value once, in
        random order.

        A drift thus affects all values alike, and a periodic disturbance keeps in step
        with none of them. An order that repeats after every pass, or every two, such as
        A B B A A B B A, is drawn again.
        """
        chance = random.Random(seed)
        one_pass = len(self.values)
        # This ends, as there are two values or more: a single pass has no period, and
        # several passes have none if, for instance, only the last one differs.
        while True:
            drawn: list[str] = []
            for _ in range(repeat):
                drawn += chance.sample(self.values, one_pass)
            is_periodic = _repeats(drawn, one_pass) or _repeats(drawn, 2 * one_pass)
            if not is_periodic:
                return drawn

    def switch(self, value: str) -> None:
        """Run the user's command, if there is one, with the label's key in FLEET_KEY
        and `value` in FLEET_VALUE. Raises UsageError if the command fails.
        """
        if not self.command:
            return
        environment = {**os.environ, "FLEET_KEY": self.key, "FLEET_VALUE": value}
        done = subprocess.run(  # noqa: S602  the user's own command
            self.command,
            shell=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=_STDERR,
            check=False,
        )
        if done.returncode:
            raise UsageError(
                f"--switch {self.command}: exit status {done.returncode} for"
                f" {self.key}={value}, which is not measured. Correct the command; the"
                " sessions before it are stored."
            )


def _repeats(values: Sequence[str], period: int) -> bool:
    """Report whether every value after the first period is the one a period before.
    Return False if there are no values after it.
    """
    later = values[period:]
    return bool(later) and later == values[:-period]


def alternate_labels(
    sides: Alternation | None, repeat: int
) -> Iterator[Mapping[str, str]]:
    """Yield the label that each session has besides its others; {} if `sides` is None.
    Before a session with another value than the last one, switch the hosts to the new
    value. Raises UsageError.
    """
    if sides is None:
        for _ in range(repeat):
            yield {}
        return
    before = None  # the value of the session before
    for value in sides.draw_order(repeat):
        if value != before:
            sides.switch(value)
        before = value
        yield {sides.key: value}


def parse_alternation(
    text: str | None, command: str | None, labels: Mapping[str, str]
) -> Alternation | None:
    """Parse "kernel=old,new"; return None for None. labels: set on every session.
    Raises UsageError.
    """
    if text is None:
        if command is not None:
            raise UsageError("--switch applies only with --alternate.")
        return None
    key, equals, values_text = text.partition("=")
    values = tuple(values_text.split(","))
    has_distinct_values = len(values) >= 2 and len(set(values)) == len(values)
    if not equals or "" in values or not has_distinct_values:
        raise UsageError(
            f"--alternate {text}: write a key and two different values or more:"
            " --alternate kernel=old,new."
        )
    if key in labels:
        raise UsageError(f"--alternate and --label both set {key}; keep one of them.")
    # raises UsageError if the key may not be that of a label
    parse_labels([f"{key}={values[0]}"])
    return Alternation(key, values, command or "")
