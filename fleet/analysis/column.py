"""The columns of `frame`: numpy's arrays with the methods of pandas' columns."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fleet.analysis.arrays import Ints


class Column(np.ndarray[Any, Any]):
    """The values of a column. What reduces them, and comparisons, leave out missing ones as pandas does."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    @property
    def iloc(self) -> "Column":
        return self

    @property
    def empty(self) -> bool:
        return not len(self)

    def to_numpy(self, dtype: Any = None, *, copy: bool = False) -> Any:
        return np.array(self, dtype) if copy else np.asarray(self, dtype)

    def astype(self, dtype: Any, *args: Any, **named: Any) -> Any:
        return objects(map(str, self.tolist())) if dtype is str else super().astype(dtype, *args, **named)

    def map(self, to: Callable[[Any], Any] | Mapping[Any, Any]) -> "Column":
        values = self.tolist()
        return column([to.get(each) for each in values] if isinstance(to, Mapping) else list(map(to, values)))

    def isna(self) -> "Column":
        if self.dtype == object:
            return column(np.array([_is_missing(each) for each in self.tolist()], dtype=bool))
        return column(np.isnan(self) if self.dtype.kind == "f" else np.zeros(len(self), dtype=bool))

    def notna(self) -> "Column":
        return column(~self.isna())

    def dropna(self) -> "Column":
        return column(self[~self.isna()])

    def fillna(self, value: Any) -> "Column":
        return self.where(self.notna(), value)

    def where(self, kept: Any, other: Any = math.nan) -> "Column":
        if self.dtype == object:
            other = None if _is_missing(other) else other
        return column(np.where(np.asarray(kept), self, other))

    def isin(self, values: Any) -> "Column":
        wanted = set(values)
        return column(np.array([each in wanted for each in self.tolist()], dtype=bool))

    def eq(self, value: Any) -> "Column":
        return column(np.asarray(self == value, dtype=bool))

    def unique(self) -> "Column":
        first = np.unique(ranks(self), return_index=True)[1]
        return column(self[np.sort(first)])

    def nunique(self) -> int:
        return len(set(self.dropna().tolist()))


def _known(how: Callable[..., Any]) -> Any:
    def of(self: Column, *_: Any, **named: Any) -> Any:
        there = self.dropna().to_numpy()
        if self.dtype.kind not in "fO" or len(there):
            return how(there, **named)
        return 0.0 if how is np.sum else math.nan

    return of


for _name in ("min", "max", "sum", "mean", "median", "std"):
    setattr(Column, _name, _known(getattr(np, _name)))


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def column(values: Any) -> Column:
    """An array as a column; of a list numbers, where all are, else objects."""
    if not isinstance(values, np.ndarray):
        types = {*map(type, values)}
        if types and all(issubclass(each, _INTEGERS) for each in types) and bool not in types:
            values = np.array(values)
        elif types in ({bool}, {np.bool_}):
            values = np.array(values, dtype=bool)
        elif any(issubclass(each, _FLOATS) for each in types) and all(
            issubclass(each, (*_INTEGERS, *_FLOATS, type(None))) for each in types
        ):
            values = np.array(values, dtype=np.float64)
        else:
            return objects(values)
    found: Column = values.view(Column)
    return found


_INTEGERS, _FLOATS = (int, np.integer), (float, np.floating)


def objects(values: Any) -> Column:
    """A column of objects as they are."""
    values = list(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found.view(Column)


def ranks(values: Column) -> Ints:
    """Numbers in the order of the values, the missing ones last."""
    if values.dtype == object:
        found = dict.fromkeys(values.tolist())
        ordered = sorted(each for each in found if not _is_missing(each))
        places = {each: at for at, each in enumerate(ordered)}
        return np.array([places.get(each, len(ordered)) for each in values.tolist()], dtype=np.int64)
    return np.unique(values.to_numpy(), return_inverse=True)[1]
