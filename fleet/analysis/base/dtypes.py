"""Give each column the same dtype in every table that others get; inside, a frame has
the dtypes that its reader made.
"""

from collections.abc import Hashable
from typing import Any

import pandas as pd

from fleet.store.schema import TABLES

_TEXT: Any = pd.StringDtype("pyarrow")
_NULLABLE = {"int64": "Int64", "bool": "boolean"}
_TEXTS = ("verdict", "why")  # of no stored table, and null throughout in some


def set_dtypes(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts are `string`, whose numbers have 64 bits, and whose
    integers and booleans that may be unknown are `Int64` and `boolean`.

    Columns of lists, tuples and dates stay objects.
    """
    dtypes = {name: _choose_dtype(name, table[name]) for name in table}
    return table.astype(dtypes)


def drop_dtypes(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table as fleet's own functions take it: unknown numbers are NaN, texts
    and booleans None.
    """
    plain = {name: _to_plain(table[name]) for name in table}
    return pd.DataFrame(plain, table.index)


def _choose_dtype(name: Hashable, column: "pd.Series[Any]") -> Any:
    """Return the dtype of a column: by its name if a stored table has it, else by its
    values.
    """
    # for a column of lists, _STORED has None: such a column stays as it is
    if name in _STORED:
        return _STORED[name] or column.dtype
    if name in _TEXTS or pd.api.types.is_string_dtype(column.dropna()):
        return _TEXT
    if pd.api.types.is_float_dtype(column):
        return "float64"
    if pd.api.types.is_integer_dtype(column):
        return "int64"
    return column.dtype


def _to_plain(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column of one of pandas' own dtypes as `drop_dtypes` describes it:
    unknown numbers are NaN, unknown texts and booleans None. A column of a dtype of
    numpy stays as it is.
    """
    dtype = column.dtype
    if not pd.api.types.is_extension_array_dtype(dtype):
        return column
    if pd.api.types.is_integer_dtype(dtype):
        return column.astype("float64" if column.hasnans else "int64")
    if pd.api.types.is_string_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
        values = column.astype(object)
        return values.where(column.notna(), None)
    return column


def _list_stored() -> dict[Hashable, Any]:
    """Return the dtypes of stored columns by name; None for columns of lists.

    Columns of the same name in several tables have one dtype. If any of these columns
    may lack values, the dtype is one that can lack them: "Int64" instead of "int64".
    """
    columns = [column for table in TABLES.values() for column in table]
    names_of_nullable = {column.name for column in columns if column.nullable}
    dtypes = dict[Hashable, Any]()
    for column in columns:
        dtype = _translate(column.type)
        if column.name in names_of_nullable:
            dtype = _NULLABLE.get(dtype, dtype)
        dtypes[column.name] = dtype
    return dtypes


def _translate(stored: str) -> Any:
    """Return the dtype of a stored column of a type such as "int32", if it has a value
    in every row. Return None for a list, whose column stays as it is.
    """
    if stored == "string":
        return _TEXT
    if stored.startswith("timestamp"):
        return "datetime64[ms, UTC]"
    if stored.startswith("int"):
        return "int64"
    if stored.startswith("float"):
        return "float64"
    if stored == "bool":
        return "bool"
    return None


_STORED = _list_stored()
