"""`fleet run --alternate`: sides measured in turn, in a drawn order, with a command that switches them."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.errors import UsageError
from fleet.late import random
from fleet.plan.options import labels

_STDERR = 2  # stdout is for results


@dataclass(frozen=True, slots=True)
class Alternation:
    """A label that has another value in each session. command: switches the hosts to it; may be empty."""

    key: str
    values: tuple[str, ...]
    command: str = ""

    def order(self, repeat: int, seed: int | None = None) -> list[str]:
        """Each value `repeat` times, once in each pass, in an order drawn for each pass.

        A drift affects all values alike, and a disturbance that comes back does not keep in step with one. So
        orders that repeat themselves from one pass, or two, to the next, as A B B A A B B A, are drawn again.
        """
        chance, once = random.Random(seed), len(self.values)
        while True:
            drawn = [value for _ in range(repeat) for value in chance.sample(self.values, once)]
            if not any(drawn[period:] == drawn[:-period] != [] for period in (once, 2 * once)):
                return drawn

    def switch(self, value: str) -> None:
        """Run the command with FLEET_KEY and FLEET_VALUE set. Raises UsageError where it fails."""
        if not self.command:
            return
        environment = {**os.environ, "FLEET_KEY": self.key, "FLEET_VALUE": value}
        done = subprocess.run(  # noqa: S602  the user's own command
            self.command, shell=True, env=environment, stdin=subprocess.DEVNULL, stdout=_STDERR, check=False
        )
        if done.returncode:
            raise UsageError(
                f"--switch {self.command}: exit status {done.returncode} for {self.key}={value}, which is "
                "not measured. Correct the command; the sessions before it are stored."
            )


def turns(sides: Alternation | None, repeat: int) -> Iterator[Mapping[str, str]]:
    """The further labels of each session; what `sides` switch is switched before it. Raises UsageError."""
    if sides is None:
        yield from ({} for _ in range(repeat))
        return
    before = None
    for value in sides.order(repeat):
        if value != before:
            sides.switch(value)
        before = value
        yield {sides.key: value}


def alternation(text: str | None, command: str | None, given: Mapping[str, str]) -> Alternation | None:
    """Read "kernel=old,new"; None without it. given: the labels of all sessions. Raises UsageError."""
    if text is None:
        if command is not None:
            raise UsageError("--switch is for --alternate, which is not given.")
        return None
    key, equals, rest = text.partition("=")
    values = tuple(rest.split(","))
    if not equals or len(values) < 2 or "" in values or len(set(values)) < len(values):
        raise UsageError(
            f"--alternate {text}: write a key and two different values or more: --alternate kernel=old,new."
        )
    if key in given:
        raise UsageError(f"--alternate and --label both set {key}; keep one of them.")
    labels(f"{key}={value}" for value in values[:1])
    return Alternation(key, values, command or "")
