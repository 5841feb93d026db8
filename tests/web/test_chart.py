"""The picture of failures over time."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.model.board import Count, Overview, Slot
from firstfault.web.board.chart import DOMAINS, HEIGHT, LEFT, chart

AT = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def overview(counts: list[dict[str, int]], step_s: int = 86400) -> Overview:
    step = dt.timedelta(seconds=step_s)
    slots = tuple(Slot(AT + n * step, each, {}) for n, each in enumerate(counts))
    total = Count(sum(sum(each.values()) for each in counts))
    until = AT + len(counts) * step
    return Overview(AT, until, step_s, total, Count(), {}, (), slots, (), (), ())


def test_nothing_is_drawn_where_nothing_failed() -> None:
    assert chart(overview([{}, {}])) is None


@given(
    st.lists(
        st.dictionaries(st.sampled_from(("user", "system", "either", "x")), st.integers(0, 10**6)),
        min_size=1,
        max_size=370,
    ),
    st.sampled_from((3600, 21600, 86400, 604800)),
)
def test_every_bar_is_within_the_picture_as_high_as_its_failures(
    counts: list[dict[str, int]], step_s: int
) -> None:
    drawn = chart(overview(counts, step_s))

    if drawn is None:
        assert not any(sum(each.values()) for each in counts)
        return
    most = max(mark.failures for mark in drawn.marks)
    assert len(drawn.columns) == len(counts)
    assert 2 <= len(drawn.marks) <= 6 and len(drawn.labels) <= 8
    for column, each in zip(drawn.columns, counts, strict=True):
        assert column.failures == sum(each.values())
        assert column.left >= LEFT and column.left + column.width <= 100.01
        height = sum(part.height for part in column.parts)
        assert height == pytest.approx(column.failures / most * (HEIGHT - 12), abs=0.2)
        assert all(part.top >= 11.7 for part in column.parts)


def test_what_administrators_can_act_on_stands_on_the_axis() -> None:
    drawn = chart(overview([{"user": 5, "system": 2, "either": 1}]))

    assert drawn is not None
    column = drawn.columns[0]
    assert tuple(part.domain for part in column.parts) == DOMAINS
    assert column.parts[0].top + column.parts[0].height == HEIGHT
    assert column.said == (
        "2026-11-01 00:00 to 2026-11-02 00:00 UTC: 8 failed jobs, 2 by the system, "
        "1 by user or system, 5 by the user"
    )


def test_a_column_leads_to_its_failures() -> None:
    drawn = chart(overview([{"user": 1}]), "/failures?cluster=c1")

    assert drawn is not None
    assert drawn.columns[0].href == (
        "/failures?cluster=c1&since=2026-11-01T00:00:00Z&until=2026-11-02T00:00:00Z"
    )


def test_the_picture_is_said_in_a_sentence() -> None:
    drawn = chart(overview([{"user": 1}, {"system": 3}, {}], 3600))

    assert drawn is not None
    assert drawn.summary == (
        "4 failed jobs from 2026-11-01 00:00 to 2026-11-01 03:00 UTC: 3 by the system, "
        "1 by the user. Most of them, 3, ended from 2026-11-01 01:00 on, within one hour."
    )


@pytest.mark.parametrize(
    ("count", "step_s", "texts"),
    [
        (24, 3600, ["00:00", "04:00", "08:00", "12:00", "16:00", "20:00"]),
        (28, 21600, ["1 Nov", "2 Nov", "3 Nov", "4 Nov", "5 Nov", "6 Nov", "7 Nov"]),
        (30, 86400, ["1 Nov", "6 Nov", "11 Nov", "16 Nov", "21 Nov", "26 Nov"]),
        (364, 86400, ["Nov", "Jan 2027", "Mar", "May", "Jul", "Sep"]),
    ],
)
def test_times_below_are_as_coarse_as_the_span(count: int, step_s: int, texts: list[str]) -> None:
    drawn = chart(overview([{"user": 1}] * count, step_s))

    assert drawn is not None
    assert [label.text for label in drawn.labels] == texts
