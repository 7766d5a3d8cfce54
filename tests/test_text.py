"""Tables keep their numbers, whatever hosts are called."""

from fleet.text import NAME_LENGTH, table

TITLES = ("run", "host", "bursts", "labels")
LONG = "n" * 82 + "1"


def test_a_long_name_is_cut_before_a_column_is_left_out() -> None:
    text = table(TITLES, [("r1", LONG, "224", "rack=b2")], width=60, drop=("bursts",))
    assert text.splitlines()[1].split() == [
        "r1",
        f"{'n' * (NAME_LENGTH - 1)}…",
        "224",
        "rack=b2",
    ]


def test_where_there_is_room_a_long_name_stays_whole() -> None:
    assert LONG in table(
        TITLES, [("r1", LONG, "224", "rack=b2")], width=200, drop=("bursts",)
    )
    assert LONG in table(TITLES, [("r1", LONG, "224", "rack=b2")])
