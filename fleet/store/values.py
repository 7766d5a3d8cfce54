"""Check the values of tables, which their types do not bound: in `fleet import`, in
`fleet verify`, and of summaries where they are read. Other readers do without.
"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from fleet import model
from fleet.errors import DataError
from fleet.late import np, pa, pc
from fleet.store import schema
from fleet.store.gate import EXACT_MAX, INT64_MAX, MAX_CPUS, parse_json_column

_WORD_BYTES = 500  # of a text that is repeated often
_BURST_TICKS = 1 << 19  # as many as a line of the wire has room for
_LISTS_OF_OTHER_THREADS = ("other_ticks", "other_units")
_NUMBER_TYPES = ("int32", "int64", "float", "double")
_LARGEST = dict.fromkeys(("iterations", "ticks", *_LISTS_OF_OTHER_THREADS), EXACT_MAX)
_LARGEST |= dict.fromkeys(("ping_cpu", "pong_cpu"), MAX_CPUS - 1)
_SMALLEST = {"iterations": 1, "ns_per_tick": 1e-7}

_LISTS_BY_THREAD = ("cpus", *_LISTS_OF_OTHER_THREADS)
_POINT_NAMES = ("benchmark", "variant", "point", "unit", *schema.PARAMETERS)
# parameters of a point that are known only after a burst
_SET_BY_BURST = ("pages", "state")
_FIXED_PARAMETERS = [name for name in schema.PARAMETERS if name not in _SET_BY_BURST]


def check_values(name: str, table: Any) -> None:
    """Raise DataError if columns of a pyarrow table hold values that fleet never
    writes. name: samples, counters or summaries.
    """
    nullable = {column.name for column in schema.TABLES[name] if column.nullable}
    for column_name in table.column_names:
        values = table.column(column_name).combine_chunks()
        if values.null_count and column_name not in nullable:
            raise DataError(f"{column_name} is null")
        has_values = values.null_count < len(values)
        if has_values:
            _check_column(name, column_name, values)


def _check_column(table: str, name: str, values: Any) -> None:
    """Raise DataError if a column holds values that fleet never writes. table: the name
    of its table. values: a pyarrow array with at least one value that is not null.
    """
    while pa.types.is_list(values.type):
        values = values.flatten()
        if values.null_count:
            raise DataError(f"{name} has a null in a list")
    if pa.types.is_dictionary(values.type):
        _check_words(table, name, values.dictionary)
    if str(values.type) in _NUMBER_TYPES:
        _check_numbers(name, values)
    if name.endswith("_json"):
        for text in values.unique().to_pylist():
            parse_json_column(name, text)


def _check_words(table: str, name: str, words: Any) -> None:
    """Raise DataError if one of a column's distinct texts is too long; or, in the
    column `benchmark` or `relation`, is no name of a benchmark or of a relation.
    """
    lengths = pc.binary_length(words)
    longest = pc.max(lengths).as_py() or 0  # None if there are no words
    if longest > _WORD_BYTES:
        raise DataError(
            f"{name} is {longest} bytes long, and the limit is {_WORD_BYTES}"
        )
    is_summary = table == "summaries"
    if name == "benchmark" and not is_summary:
        problem = model.find_name_problem({*words.to_pylist()})
        if problem:
            raise DataError(problem)
    if name == "relation":
        for relation in sorted(words.to_pylist()):
            # only summaries tell kinds of core apart, as in "LLC P-E"
            has_misplaced_kinds = " " in relation and not is_summary
            if has_misplaced_kinds or not model.is_relation(relation):
                raise DataError(f"relation is {relation!r}")


def _check_numbers(name: str, values: Any) -> None:
    """Raise DataError if a column holds a number outside the range of its name."""
    numbers = values.drop_null().to_numpy()
    if not len(numbers):
        return
    smallest = _SMALLEST.get(name, 0)
    largest = _LARGEST.get(name, INT64_MAX)
    # a NaN makes both ends NaN, and is in no range: a comparison with NaN is false
    is_in_range = smallest <= numbers.min() <= numbers.max() <= largest
    if not is_in_range:
        raise DataError(f"{name} is {numbers.min()} to {numbers.max()}")


def check_bursts(table: Any, estimator: str, descriptions: model.Descriptions) -> None:
    """Raise DataError unless rows of a run's samples have possible values, and these
    fit each other, the run's estimator and its benchmarks.
    """
    check_values("samples", table)
    _check_lengths(table, estimator)
    _require_list_per_thread(table)
    # by benchmark, variant and point, the parameters of the first row of that point
    values_by_point: dict[tuple[str, ...], Sequence[Any]] = {}
    for row in _select_distinct_rows(table):
        parameters = _parse_parameters(row)
        # the columns have the names of a burst's attributes
        burst = SimpleNamespace(**row, parameters=parameters)
        mismatch = descriptions[row["benchmark"]].find_mismatch(burst)
        if mismatch:
            raise DataError(mismatch)
        if parameters is None:
            continue
        # all bursts of a point have the same parameters, except those set by a burst
        point = (row["benchmark"], row["variant"], row["point"])
        values = [row[name] for name in _FIXED_PARAMETERS]
        first_values = values_by_point.setdefault(point, values)
        if first_values != values:
            raise DataError(
                f"point {row['point']} of {row['benchmark']} has different parameters"
            )


def _parse_parameters(row: Mapping[str, Any]) -> model.Parameters | None:
    """Return the parameters of a row's point; None for a row without a point. Raises
    DataError if a row without a point has values that only a point can have.
    """
    if row["point"] is not None:
        return model.Parameters(*[row[name] for name in schema.PARAMETERS])
    for name in ("unit", *schema.PARAMETERS, *_LISTS_BY_THREAD):
        if row[name] is not None:
            raise DataError(
                f"{row['benchmark']}: a row without a point has values of a point"
            )
    return None


def _check_lengths(table: Any, estimator: str) -> None:
    """Raise DataError unless the rows' bursts have possible numbers of samples, few of
    which took no time.
    """
    ticks = table.column("ticks").combine_chunks()
    warmup_counts = table.column("warmup").to_numpy()
    lengths = np.diff(ticks.offsets.to_numpy())
    if lengths.max(initial=0) > _BURST_TICKS:
        raise DataError(f"a burst has {lengths.max()} ticks")
    if (warmup_counts > lengths).any():
        raise DataError("a burst has more warm-up samples than ticks")
    zero_counts = _count_zeros(ticks, warmup_counts)
    sample_counts = lengths - warmup_counts
    if (2 * zero_counts > sample_counts).any():
        raise DataError("most samples of a burst took no time")
    # this estimator takes a burst's smallest sample for its number, which would be 0
    if estimator == "min" and zero_counts.any():
        raise DataError("the least sample of a burst took no time")
    for name in _LISTS_OF_OTHER_THREADS:
        lists = table.column(name).combine_chunks()
        _check_samples_of_others(name, lists, lengths)


def _check_samples_of_others(name: str, lists: Any, lengths: Any) -> None:
    """Raise DataError unless each thread beside ping has as many samples as ping."""
    for row in np.flatnonzero(lists.is_valid()).tolist():
        for samples in lists[row]:
            if len(samples) != lengths[row]:
                raise DataError(f"{name} does not have as many values as ticks")


def _count_zeros(ticks: Any, warmup_counts: Any) -> Any:
    """Return, for each burst, the number of samples after its warm-ups that are 0.
    ticks: a pyarrow array with the list of each burst.
    """
    # positions in the ticks of all bursts, one after the other
    positions_of_zeros = np.flatnonzero(np.asarray(ticks.values) == 0)
    offsets = np.asarray(ticks.offsets)
    first_after_warmup = offsets[:-1] + warmup_counts
    end = offsets[1:]
    # as the positions of zeros are sorted, searchsorted counts those before a position
    zeros_before_first = np.searchsorted(positions_of_zeros, first_after_warmup)
    zeros_before_end = np.searchsorted(positions_of_zeros, end)
    return zeros_before_end - zeros_before_first


def _require_list_per_thread(table: Any) -> None:
    """Raise DataError unless each column about other threads has, in every row, one
    list for each thread but ping. A row may have no lists: it is empty or null. Raises
    DataError also for impossible `cpus`, which tell the number of threads.
    """
    other_thread_counts = _count_threads(table) - 1  # without ping
    for name in _LISTS_OF_OTHER_THREADS:
        column = table.column(name).combine_chunks()
        list_counts = np.diff(column.offsets)
        has_lists = np.asarray(column.is_valid()) & (list_counts != 0)
        is_incomplete = has_lists & (list_counts != other_thread_counts)
        if is_incomplete.any():
            raise DataError(f"{name} does not have a list for each further CPU")


def _count_threads(table: Any) -> Any:
    """Return the number of threads of each row: the length of its `cpus`, else 1 if
    ping and pong are on one CPU, and 2 if not. Raises DataError for `cpus` that do not
    begin with ping's CPU, end with pong's, and have each CPU once.
    """
    ping = table.column("ping_cpu").to_numpy()
    pong = table.column("pong_cpu").to_numpy()
    cpus = table.column("cpus").combine_chunks()
    thread_counts = np.where(ping == pong, 1, 2)
    rows_with_cpus = np.flatnonzero(cpus.is_valid())
    for row in rows_with_cpus.tolist():
        cpus_of_row = cpus[row].as_py()
        if not _is_path(cpus_of_row, ping[row], pong[row]):
            raise DataError(
                f"cpus of a burst from {ping[row]} to {pong[row]} are"
                f" {cpus_of_row!s:.100}"
            )
        thread_counts[row] = len(cpus_of_row)
    return thread_counts


def _is_path(cpus: Sequence[int], first: int, last: int) -> bool:
    """Report whether CPUs go from the first to the last, each once."""
    if not cpus or cpus[0] != first or cpus[-1] != last:
        return False
    return len(set(cpus)) == len(cpus)


def _select_distinct_rows(table: Any) -> list[dict[str, Any]]:
    """Return the first row of each combination of names, parameters and number of
    threads. Whether a burst fits its benchmark depends on these alone, so one row is
    checked for all that have them in common.
    """
    # Make `keys`, a table with a row for each row of `table`: its names and parameters,
    # then whether ping and pong are on one CPU, and the lengths of the lists. These two
    # show the number of threads.
    keys = table.select(_POINT_NAMES)
    # pyarrow groups a column of texts only if its chunks have one dictionary
    keys = keys.unify_dictionaries()
    is_one_cpu = pc.equal(table.column("ping_cpu"), table.column("pong_cpu"))
    keys = keys.append_column("is_one_cpu", is_one_cpu)
    for name in _LISTS_BY_THREAD:
        lengths = pc.list_value_length(table.column(name))
        keys = keys.append_column(name, lengths)
    names = [*_POINT_NAMES, "ping_cpu", "pong_cpu", *_LISTS_BY_THREAD]
    row_numbers = _find_first_of_equal_rows(keys)
    first_rows = table.select(names).take(row_numbers)
    rows: list[dict[str, Any]] = first_rows.to_pylist()
    return rows


def _find_first_of_equal_rows(keys: Any) -> Any:
    """Return the numbers of the rows that no earlier row equals."""
    row_numbers = pa.array(np.arange(len(keys)))
    numbered = keys.append_column("row", row_numbers)
    equal_rows = numbered.group_by(keys.column_names, use_threads=False)
    first_rows = equal_rows.aggregate([("row", "min")])
    return np.sort(first_rows.column("row_min"))
