"""The log: one line an event, nothing that acts in a terminal."""

from __future__ import annotations

import datetime as dt

import pytest

from firstfault.app.journal import shown


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("plain-word_1.2", "plain-word_1.2"),
        (12, "12"),
        (True, "yes"),
        (dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC), "2026-11-30T16:00:00.000Z"),
        ("two words", '"two words"'),
        ('say "x"', '"say \\"x\\""'),
        ("a\nevent=forged", '"a\\nevent=forged"'),
        ("\x1b[2J", '"\\u001b[2J"'),
        ("\u202eright", '"\\u202eright"'),
        ("", '""'),
    ],
)
def test_a_value_is_one_harmless_word(value: object, said: str) -> None:
    assert shown(value) == said


def test_a_long_value_is_cut() -> None:
    assert len(shown("x" * 100_000)) < 1100
