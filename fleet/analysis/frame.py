"""The part of pandas' frames that `fleet show` and the end of a session use, on numpy alone.

pandas takes longer to import than all else they do. What `reduce` and `views` do with a table works with
both, and gives what it was given; notebooks, comparisons, reports and exports have pandas' frames. Methods
have the names and arguments of pandas'. A Frame has no index; text is of objects, None where it is missing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fleet.analysis.arrays import Ints
from fleet.analysis.column import Column, column, objects, ranks
from fleet.late import pa
from fleet.store.columns import known, list_parts, raw

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    Rows: TypeAlias = DataFrame
    Values: TypeAlias = Series[Any]
else:
    Rows = Values = Any  # a table of either kind, and a column of it


def into_pandas(table: Any) -> "DataFrame":
    """An Arrow table as pandas has it."""
    frame: DataFrame = table.to_pandas()
    return frame


class Frame:
    """Columns of one length by name. data: these, or rows with the names `columns`."""

    def __init__(self, data: Any = (), columns: Sequence[str] | None = None) -> None:
        if isinstance(data, Mapping):
            self._columns = {name: column(values) for name, values in data.items()}
        elif data and isinstance(data[0], Mapping):
            names = columns or list(data[0])
            self._columns = {name: column([row[name] for row in data]) for name in names}
        else:
            of_each = zip(*data, strict=True) if data else ([] for _ in columns or ())
            self._columns = {
                name: column(list(values)) for name, values in zip(columns or (), of_each, strict=True)
            }

    @classmethod
    def of_arrow(cls, table: Any) -> Any:
        """An Arrow table; numbers with nulls become floats."""
        return cls({name: _of_arrow(table.column(name)) for name in table.column_names})

    def to_pandas(self) -> "DataFrame":
        """The same as pandas has it."""
        import pandas as pd  # noqa: PLC0415  for those who use it

        return pd.DataFrame({name: values.to_numpy() for name, values in self.items()})

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    @property
    def empty(self) -> bool:
        return not len(self)

    @property
    def iloc(self) -> "_Places":
        return _Places(self)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, what: Any) -> Any:
        if isinstance(what, str):
            return self._columns[what]
        if isinstance(what, list) and all(isinstance(name, str) for name in what):
            return Frame({name: self._columns[name] for name in what})
        return self._at(what)

    def _at(self, rows: Any) -> "Frame":
        return Frame({name: values[rows] for name, values in self._columns.items()})

    def __setitem__(self, name: str, values: Any) -> None:
        self._columns[name] = self._spread(values)

    def _spread(self, values: Any) -> Column:
        if isinstance(values, str) or not hasattr(values, "__len__"):
            return column([values] * len(self))
        return column(values)

    def items(self) -> Any:
        return self._columns.items()

    def get(self, name: str, other: Any = None) -> Any:
        return self._columns.get(name, other)

    def assign(self, **new: Any) -> Any:
        return Frame(self._columns | {name: self._spread(values) for name, values in new.items()})

    def drop(self, columns: str | Sequence[str]) -> "Frame":
        names = {columns} if isinstance(columns, str) else {*columns}
        return Frame({name: values for name, values in self._columns.items() if name not in names})

    def astype(self, types: Mapping[str, Any]) -> Any:
        return self.assign(**{name: self[name].astype(type_) for name, type_ in types.items()})

    def reset_index(self, *, drop: bool = False) -> "Frame":
        return self

    def head(self, count: int) -> "Frame":
        return self._at(slice(count))

    def tail(self, count: int) -> "Frame":
        return self._at(slice(-count, None))

    def itertuples(self, *, index: bool, name: None = None) -> Iterator[tuple[Any, ...]]:
        return zip(*(values.tolist() for values in self._columns.values()), strict=True)

    def sort_values(
        self, by: str | Sequence[str], *, ascending: bool = True, na_position: str = "last", kind: str = ""
    ) -> "Frame":
        """In this order, equals as they were."""
        places = []
        for name in [by] if isinstance(by, str) else by:
            place, missing = ranks(self[name]), self[name].isna()
            place = place if ascending else place.max(initial=0) - place
            places.append(np.where(missing, len(self) if na_position == "last" else -1, place))
        return self._at(np.lexsort(places[::-1]))

    def drop_duplicates(self, subset: Sequence[str] | None = None) -> "Frame":
        return self._at(numbered([self[name] for name in subset or self])[1])

    def groupby(self, by: Any, *, sort: bool = True, dropna: bool = True, observed: bool = True) -> "Groups":
        """by: a name, or several names or columns."""
        return Groups(self, by, sort=sort, dropna=dropna)


class _Places:
    def __init__(self, rows: Frame) -> None:
        self._rows = rows

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, int | np.integer):
            return {name: values[which] for name, values in self._rows.items()}
        return self._rows[which]


class Groups:
    """The rows of a frame that share the values of some columns."""

    def __init__(self, rows: Frame, by: Any, *, sort: bool, dropna: bool) -> None:
        self._rows, self._single = rows, not isinstance(by, list)
        keys = [by] if self._single else by
        self._names = [key if isinstance(key, str) else "" for key in keys]
        columns = [rows[key] if isinstance(key, str) else column(key) for key in keys]
        if dropna and (missing := np.any([each.isna() for each in columns], axis=0)).any():
            self._rows, columns = rows[~missing], [each[~missing] for each in columns]
        self._codes, self._first = numbered(columns, sort=sort)
        self._keys = [each[self._first] for each in columns]

    def _parts(self) -> list[Ints]:
        order = np.argsort(self._codes, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self._codes[order])) + 1) if len(order) else []

    def __iter__(self) -> Iterator[tuple[Any, Frame]]:
        keys = zip(*(each.tolist() for each in self._keys), strict=True)
        for key, part in zip(keys, self._parts(), strict=True):
            yield key[0] if self._single else key, self._rows[part]

    def __getitem__(self, name: str) -> "_GroupsOf":
        return _GroupsOf(self, name)

    def ngroup(self) -> Column:
        return column(self._codes)

    def agg(self, columns: Mapping[str, Any] | None = None, **named: tuple[str, Any]) -> Frame:
        """A row per group, the keys before these numbers of it."""
        named |= {name: (name, how) for name, how in (columns or {}).items()}
        keys = {name: each for name, each in zip(self._names, self._keys, strict=True) if name}
        return Frame(keys | {name: self.reduced(of, how) for name, (of, how) in named.items()})

    def reduced(self, name: str, how: Any) -> Column:
        """A number of each group."""
        values, count = self._rows[name], len(self._first)
        if how == "size":
            return column(np.bincount(self._codes, minlength=count))
        if how == "first":
            return column(values[self._first])
        if how == "median":
            return column(medians(values.to_numpy(np.float64), self._codes, count))
        if how in _REDUCED and values.dtype != object and count:
            order = np.argsort(self._codes, kind="stable")
            begins = np.flatnonzero(np.diff(self._codes[order], prepend=-1))
            return column(_REDUCED[how].reduceat(values[order], begins))
        found = [values[part] for part in self._parts()]
        made = [how(each) if callable(how) else getattr(each, how)() for each in found]
        return column(made) if found else column(values[:0])


_REDUCED = {"min": np.fmin, "max": np.fmax, "sum": np.add}


class _GroupsOf:
    """One column of groups."""

    def __init__(self, groups: Groups, name: str) -> None:
        self._groups, self._name = groups, name

    def __getattr__(self, how: str) -> Callable[[], Frame]:
        return lambda: self._groups.agg({self._name: how})

    def transform(self, how: str) -> Column:
        """The number of its group for each row."""
        return column(self._groups.reduced(self._name, how)[self._groups.ngroup()])


def below(parts: Sequence[Any]) -> Any:
    """Frames below one another, of either kind; a column that some lack is missing there."""
    if not isinstance(parts[0], Frame):
        import pandas as pd  # noqa: PLC0415  there already: these are its frames

        return pd.concat(parts, ignore_index=True)
    names = dict.fromkeys(name for part in parts for name in part)
    return Frame({name: _below([part.get(name, [None] * len(part)) for part in parts]) for name in names})


def _below(parts: Sequence[Any]) -> Any:
    if all(isinstance(part, np.ndarray) and part.dtype.kind == parts[0].dtype.kind for part in parts):
        return np.concatenate(parts)
    return [value for part in parts for value in (part.tolist() if isinstance(part, np.ndarray) else part)]


def numbered(columns: Sequence[Any], *, sort: bool = False) -> tuple[Ints, Ints]:
    """The number of each row's combination of values, in their order if `sort`, and the first row of each."""
    codes: Ints = np.zeros(len(columns[0]), dtype=np.int64)
    for each in columns:
        place = ranks(column(np.asarray(each)))
        codes = codes * (place.max(initial=0) + 1) + place
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    if not sort:
        order = np.argsort(first)
        codes, first = np.argsort(order)[codes], first[order]
    return codes, first


def medians(values: Any, codes: Ints, count: int) -> Any:
    """The median of each group's values that are known, NaN where none is."""
    known = ~np.isnan(values)
    values, codes = values[known], codes[known]
    values = values[np.lexsort((values, codes))]
    sizes = np.bincount(codes, minlength=count)
    first, there = np.cumsum(sizes) - sizes, sizes > 0
    found = np.full(count, math.nan)
    low, high = (values[(first + (sizes - odd) // 2)[there]] for odd in (1, 0))
    found[there] = (low + high) / 2
    return found


def _of_arrow(chunks: Any) -> Column:
    found = chunks.combine_chunks()
    if pa.types.is_dictionary(found.type):
        return column(objects([*found.dictionary.to_pylist(), None])[raw(found.indices, -1)])
    if pa.types.is_integer(found.type) and found.null_count:
        return column(np.where(known(found), raw(found), math.nan))
    if pa.types.is_integer(found.type) or pa.types.is_floating(found.type):
        return column(raw(found, math.nan))
    if pa.types.is_timestamp(found.type):
        return column(raw(found.view(pa.int64())).astype("datetime64[ms]"))
    if pa.types.is_list(found.type) and pa.types.is_floating(found.type.value_type):
        lengths, values = list_parts(found)
        parts = np.split(values, np.cumsum(lengths))[:-1]
        return objects(part if there else None for part, there in zip(parts, known(found), strict=True))
    return objects(found.to_pylist())
