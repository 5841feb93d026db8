import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.report import wording as w


def test_a_log_line_cannot_hide_or_steer():
    shown = w.visible("a\x1b[31mred\x1b[0m\x1b]0;t\x07\u202eb\u200b\x9b2J\nnext\ttab\x00\ud800")

    assert shown == "ared\\e]0;t\\x07\\u202eb\\u200b\\x9b2J\\nnext    tab\\0\\ud800"


def test_what_a_colour_sequence_conceals_is_seen():
    assert w.visible("\x1b[8mhidden\x1b[0m") == "hidden"


def test_ordinary_text_of_any_script_stays_as_it_is():
    text = "Größe 模型 «данные» 🙂 x² — ok"

    assert w.visible(text) == text


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_what_is_visible_is_one_line_that_utf8_can_carry(text: str):
    shown = w.visible(text)

    assert shown.isprintable()
    assert shown.encode().decode() == shown
    assert w.visible(shown) == shown


@given(st.text(max_size=400), st.integers(20, 120))
def test_a_cut_text_never_exceeds_its_limit(text: str, limit: int):
    assert len(w.cut(text, limit)) <= limit
    assert len(w.clean(text, limit)) <= limit


def test_a_cut_text_says_how_much_was_left_out():
    text = "x" * 1000
    shown = w.cut(text, 100)
    kept, note = shown.split("… (+")

    assert len(kept) + int(note.rstrip(")")) == 1000


def test_a_line_of_a_hundred_megabytes_is_cut_without_being_read_through():
    shown = w.clean("\x00" * 100_000_000, 100)

    assert len(shown) <= 100
    assert shown.endswith(")")


@pytest.mark.parametrize(
    ("values", "said"),
    [([], ""), ([3], "3"), ([2, 1, 0], "0-2"), ([0, 1, 5, 7, 8, 8], "0-1,5,7-8")],
)
def test_ranks_are_said_as_ranges(values: list[int], said: str):
    assert w.ranges(values) == said


AT = dt.datetime(2026, 11, 30, 15, 36, 2, 970000, tzinfo=dt.UTC)
LATER = AT + dt.timedelta(milliseconds=30)


@pytest.mark.parametrize(
    ("earliest", "latest", "said"),
    [
        (None, None, None),
        (AT, AT, "2026-11-30 15:36:02.970 UTC"),
        (AT, LATER, "2026-11-30 15:36:02.970 to 15:36:03 UTC"),
        (AT, None, "not before 2026-11-30 15:36:02.970 UTC"),
        (None, AT, "not after 2026-11-30 15:36:02.970 UTC"),
        (AT, AT + dt.timedelta(days=1), "2026-11-30 15:36:02.970 to 2026-12-01 15:36:02.970 UTC"),
    ],
)
def test_an_interval_says_which_of_its_ends_is_known(earliest, latest, said):
    assert w.span(earliest, latest) == said


def test_a_time_in_another_zone_is_said_in_utc():
    zone = dt.timezone(dt.timedelta(hours=2))

    assert w.moment(dt.datetime(2026, 11, 30, 1, 0, tzinfo=zone)) == "2026-11-29 23:00:00 UTC"


@pytest.mark.parametrize(
    ("rank", "host", "said"),
    [
        (5, "n4", "rank 5 on n4"),
        (0, None, "rank 0 (host not known)"),
        (None, "n4", "host n4"),
        (None, None, None),
    ],
)
def test_a_place_is_never_more_than_is_known(rank, host, said):
    assert w.place(rank, host) == said
