import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from fleet.model import frozen

Decorator = Callable[..., Callable[[type], type]]


def of(dataclass: Decorator) -> Any:
    """A class with all that ours use, made by this decorator, and one that inherits from it."""

    @dataclass(frozen=True, slots=True)
    class Base:
        name: str
        many: dict[str, int] = dataclasses.field(default_factory=dict, hash=False, repr=False)
        seconds: float = 1.5
        known: str = dataclasses.field(init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "known", f"<{self.name}>")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        rounds: int | None = None
        seconds: float = 2.5

    return Base, Derived


@dataclasses.dataclass(frozen=True)
class Standard:
    text: str


@frozen.dataclass(frozen=True, slots=True)
class Ours:
    text: str
    number: int = 3


def test_it_is_made_compared_and_shown_as_the_standard_one() -> None:
    for ours, theirs in zip(of(frozen.dataclass), of(dataclasses.dataclass), strict=True):
        mine, other = (list(inspect.signature(one).parameters.values()) for one in (ours, theirs))
        assert [(one.name, one.kind) for one in mine] == [(one.name, one.kind) for one in other]
        assert repr(ours("x")) == repr(theirs("x"))
        assert repr(dataclasses.replace(ours("x"), seconds=3)) == repr(theirs("x", seconds=3))
        assert ours.__match_args__ == theirs.__match_args__
        assert dataclasses.asdict(ours("x", {"a": 1})) == dataclasses.asdict(theirs("x", {"a": 1}))
        assert ours("x") == ours("x", {}) != ours("y")
        assert ours("x", {"a": 1}) != ours("x")
        assert hash(ours("x", {"a": 1})) == hash(ours("x"))
        assert not hasattr(ours("x"), "__dict__")
        for wrong in ({}, {"name": "x", "known": ""}):
            with pytest.raises(TypeError):
                ours(**wrong)
    assert of(frozen.dataclass)[0]("x") != of(frozen.dataclass)[1]("x")


def test_each_has_its_own_default() -> None:
    base, _ = of(frozen.dataclass)
    one, other = base("x"), base("x")
    assert one.many == other.many
    assert one.many is not other.many


def test_it_cannot_be_changed_but_copied_hashed_and_sent() -> None:
    one = Ours("x", 4)
    for change in (lambda: setattr(one, "text", "y"), lambda: delattr(one, "text")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="text"):
            change()
    assert {one: 1}[pickle.loads(pickle.dumps(one))] == 1
    assert copy.deepcopy(one) == one
    assert one != Standard("x")
    assert len({one, Ours("x", 4), Ours("x")}) == 2
