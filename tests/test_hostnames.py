"""Many host names at once: ranges written and read, messages that many hosts share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.hostnames import (
    HOST_LIMIT,
    expand_range,
    fold_names,
    join_names,
    strip_host_name,
)
from fleet.model import Host


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("db", ["db"]),
        ("b[08-10,12]", ["b08", "b09", "b10", "b12"]),
        ("b[9-11]", ["b9", "b10", "b11"]),
        ("b[3-3]", ["b3"]),
        ("b[7,5]x", ["b7x", "b5x"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("b[abc]", ["b[abc]"]),
        ("b[1]", ["b[1]"]),
        ("b[000000001-000000002]", ["b000000001", "b000000002"]),
    ],
)
def test_a_range_is_written_out_with_the_width_of_its_first_number(
    name: str, names: list[str]
) -> None:
    assert expand_range(name) == names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("b[2-1]", r"the range \[2-1\] runs backwards"),
        ("b[1-1000000000]", r"the numbers in \[1-1000000000\] are too long"),
        ("b[0000000001-2]", "are too long"),
        (f"b[1-{HOST_LIMIT + 1}]", f"is more than {HOST_LIMIT} names"),
        (f"b[1-{HOST_LIMIT},1-1]", f"is more than {HOST_LIMIT} names"),
        ("a[1-200]b[1-101]", f"is more than {HOST_LIMIT} names"),
    ],
)
def test_a_range_that_cannot_be_meant_is_refused(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        expand_range(name)


def test_a_range_may_be_as_long_as_the_limit() -> None:
    assert len(expand_range(f"b[1-{HOST_LIMIT}]")) == HOST_LIMIT
    assert len(expand_range("a[1-200]b[1-100]")) == HOST_LIMIT


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["db"], ["db"]),
        (["web1"], ["web1"]),
        (["web01", "web02", "db"], ["web[01-02]", "db"]),
        (["db", "web02", "web01"], ["db", "web[01-02]"]),
        (["web1", "web3"], ["web[1,3]"]),
        (["web1", "web2", "web4", "web5", "web9"], ["web[1-2,4-5,9]"]),
        (["web9", "web10", "web11"], ["web[9-11]"]),
        (["web09", "web10"], ["web[09-10]"]),
        (["web1", "web01"], ["web[1,01]"]),
        (["web1", "web1"], ["web1"]),
        (["r1n01", "r1n02", "r2n01", "r2n02"], ["r[1-2]n[01-02]"]),
        (["r1n01", "r1n02", "r2n01"], ["r1n[01-02]", "r2n01"]),
        (["1a", "2a"], ["[1-2]a"]),
        (["a1b", "a1c", "a2b"], ["a[1-2]b", "a1c"]),
    ],
)
def test_numbered_names_fold_into_ranges(names: list[str], expected: list[str]) -> None:
    assert fold_names(names) == expected


@given(
    st.lists(
        st.from_regex(r"[ab]?[0-9]{1,3}(c[0-9]{1,2})?", fullmatch=True), max_size=40
    )
)
def test_what_is_folded_expands_to_the_same_names(names: list[str]) -> None:
    assert sorted(
        name for part in fold_names(names) for name in expand_range(part)
    ) == sorted(set(names))


@pytest.mark.parametrize(
    ("names", "limit", "text"),
    [
        (["aa", "bb", "cc"], 10, "aa, bb, cc"),
        (["aa", "bb", "cc"], 9, "aa, bb, …"),
        (["aa", "bb", "cc"], 3, "aa, …"),
        (["aaaaaa"], 3, "aaa, …"),
        (["a1", "a3", "a5", "a7"], 10, "a[1,3,5,7]"),
        (["a1", "a3", "a5", "a7"], 9, "a[1,3,5,…]"),
        (["a1", "a3", "bbbbbb"], 9, "a[1,3], …"),
    ],
)
def test_a_list_too_long_is_cut_between_names(
    names: list[str], limit: int, text: str
) -> None:
    assert join_names(names, limit) == text


def test_a_sentence_about_a_host_loses_its_name_only_at_the_front() -> None:
    assert (
        strip_host_name(Host("db", ""), "db: no route to db: x") == "no route to db: x"
    )
    assert strip_host_name(Host("db", ""), "dbx: y") == "dbx: y"
