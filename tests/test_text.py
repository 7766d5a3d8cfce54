"""Tables keep their numbers, whatever hosts are called."""

import shlex

from fleet.text import NAME_LENGTH, format_command, table

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


def test_a_command_to_paste_means_its_words_and_nothing_else() -> None:
    words = ("fleet", "show", "$(touch RAN); `id` 'x", "plain", "two\nlines\x1b[2J")
    command = format_command(*words)
    assert command.isprintable()
    assert shlex.split(command) == [*words[:-1], r"two\nlines\x1b[2J"]
    assert format_command("fleet", "show", "web01") == "fleet show web01"
