"""Conditions that select hosts and runs by a label or a fact: `kind=board`,
`web*@smt=on`. Pure.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from fleet.text import suggest_similar

FACTS = (
    "model",
    "kernel",
    "governor",
    "boost",
    "smt",
    "numa",
    "hypervisor",
    "container",
    "os",
    "arch",
    "distribution",
    "microcode",
    "firmware",
    "board",
    "clock",
)
"""Names of facts that conditions may have, as `fleet hosts` and `fleet show` print
them.
"""
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class LastRuns:
    """What is stored of hosts' last runs, by host ID: when they began, their facts, and
    a text on SMT. Read only if something asks for it.
    """

    read_starts: Callable[[], Mapping[str, datetime]] = dict
    read_facts: Callable[[], Mapping[str, Mapping[str, str]]] = dict
    describe_smt: Callable[[], Mapping[str, str]] = dict


NO_LAST_RUNS = LastRuns()


@dataclass(frozen=True, slots=True)
class Condition:
    """KEY=VALUE of hosts whose name matches a glob or range. value: may be a glob."""

    hosts: str
    key: str
    value: str

    @property
    def is_of_fact(self) -> bool:
        """Report whether a fact has this name. A label may have it, too."""
        return self.key in FACTS

    def matches(self, labels: Mapping[str, str], facts: Mapping[str, str]) -> bool:
        """Report whether the label or the fact of this name has the value. Facts match
        in any case; an unknown one matches nothing.
        """
        label = labels.get(self.key)
        # a value may be equal though it does not match itself as a glob, as `a[1]`
        if label is not None and (
            label == self.value or fnmatchcase(label, self.value)
        ):
            return True
        fact = facts.get(self.key)
        return fact is not None and fnmatchcase(fact.lower(), self.value.lower())

    def describe_values(
        self, labels: Iterable[Mapping[str, str]], facts: Iterable[Mapping[str, str]]
    ) -> str:
        """Return the end of a sentence on a condition that no host fulfils: what there
        is instead, such as "; did you mean 'kind=board'? There are: …". labels, facts:
        of each host.
        """
        # texts "KEY=VALUE": of every label, and of the fact that `key` may name
        label_pairs = set[str]()
        for labels_of_host in labels:
            for key, value in labels_of_host.items():
                label_pairs.add(f"{key}={value}")
        fact_pairs = set[str]()
        if self.is_of_fact:
            for facts_of_host in facts:
                if self.key in facts_of_host:
                    fact_pairs.add(f"{self.key}={facts_of_host[self.key]}")
        pairs = sorted(label_pairs | fact_pairs)
        suggestion = suggest_similar(f"{self.key}={self.value}", pairs)
        pairs_of_key = [pair for pair in pairs if pair.startswith(f"{self.key}=")]
        if pairs_of_key:
            return f"{suggestion} There are: {_abbreviate(pairs_of_key)}."
        names_of_facts = ", ".join(FACTS)
        names = f"Labels: {_abbreviate(sorted(label_pairs))}. Facts: {names_of_facts}."
        return f"{suggestion} {names}"


def parse_condition(text: str) -> Condition | None:
    """Parse "kind=board", a condition on all hosts, or "web*@kind=board", one on hosts
    whose name matches; None for text without "=".
    """
    hosts, at, pair = text.rpartition("@")
    # in `kind=a@b` the @ is behind the =, so it is in the value
    if not at or "=" in hosts:
        hosts = "*"
        pair = text
    key, equals, value = pair.partition("=")
    return Condition(hosts, key, value) if equals else None


def _abbreviate(names: list[str]) -> str:
    first_names = names[:_SHOWN]
    if len(names) > _SHOWN:
        first_names.append("…")
    return ", ".join(first_names) or "none"
