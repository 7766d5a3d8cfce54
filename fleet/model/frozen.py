"""The dataclasses of fleet; of frozen ones only `__init__` is compiled, when it is first asked for."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

__all__ = ["asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, **options: Any) -> Callable[[type], type]:
        """As the standard one, which compiles six methods for each frozen class."""
        if not frozen:
            return dataclasses.dataclass(**options)
        bare = dataclasses.dataclass(init=False, repr=False, eq=False, **options)

        def made(plain: type) -> type:
            plain.__doc__ = plain.__doc__ or plain.__name__  # else the standard one writes the signature
            cls = bare(plain)
            compared = [one for one in fields(cls) if one.compare]
            cls._compared = attrgetter(*(one.name for one in compared))
            cls._hashed = attrgetter(*(one.name for one in compared if one.hash is not False))
            for name, method in _METHODS.items():
                if plain.__dict__.get(name) is None:
                    setattr(cls, name, method)
            cls.__init__ = _Init(cls)
            return cls

        return made


class _Init:
    """The `__init__` of a frozen dataclass, compiled when it is first asked for."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> Any:
        self._cls.__init__ = made = _init_of(self._cls)
        return made.__get__(instance, owner)


def _init_of(cls: Any) -> Any:
    """The `__init__` of a frozen dataclass."""
    known: dict[str, Any] = {"put": object.__setattr__, "MISSING": MISSING}
    plain, by_name, lines = ["self"], list[str](), list[str]()
    for one in fields(cls):
        name, value, given = one.name, one.name, one.name
        if one.default_factory is not MISSING:
            known[f"make_{name}"] = one.default_factory
            value, given = f"make_{name}() if {name} is MISSING else {name}", f"{name}=MISSING"
        elif one.default is not MISSING:
            known[f"else_{name}"], given = one.default, f"{name}=else_{name}"
        if one.init:
            (by_name if one.kw_only else plain).append(given)
            lines.append(f" put(self, {name!r}, {value})")
    lines.append(" self.__post_init__()" if hasattr(cls, "__post_init__") else " pass")
    parameters = ", ".join((*plain, "*", *by_name) if by_name else plain)
    exec("\n".join((f"def __init__({parameters}):", *lines)), known)  # noqa: S102  as dataclasses do
    return known["__init__"]


class _Frozen:
    """The methods that all have in common."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    _compared: Any
    _hashed: Any

    def __repr__(self) -> str:
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return self._compared(self) == self._compared(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._hashed(self))

    def __setattr__(self, name: str, *_: object) -> None:
        raise FrozenInstanceError(f"cannot assign to or delete {name!r}")

    __delattr__ = __setattr__

    def __getstate__(self) -> list[Any]:
        return [getattr(self, one.name) for one in fields(self)]

    def __setstate__(self, state: Sequence[Any]) -> None:
        for one, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, one.name, value)


_METHODS = {name: method for name, method in vars(_Frozen).items() if callable(method)}
