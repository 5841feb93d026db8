"""The filter of failures as it stands in the address."""

from __future__ import annotations

import datetime as dt
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.model.board import FailureFilter
from firstfault.web.board import filtering

SAID = st.text(
    st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=filtering.LONGEST
).filter(lambda text: text.strip() == text)
AT = st.integers(86400, 7258032000).map(lambda at: dt.datetime.fromtimestamp(at, dt.UTC))
FILTERS = st.builds(
    FailureFilter,
    since=st.none(),
    until=st.none() | AT,
    **dict.fromkeys(
        ("cluster", "cause", "user", "account", "partition", "node", "name", "fingerprint", "text"),
        st.none() | SAID,
    ),
    domain=st.sampled_from((None, "user", "system", "either")),
    confidence=st.sampled_from((None, "confirmed", "unknown")),
    sort=st.sampled_from(filtering.SORTS),
)


def read(query: str) -> filtering.Asked:
    return filtering.read(parse_qsl(query, keep_blank_values=True))


def test_every_field_of_the_filter_has_one_in_the_form() -> None:
    assert {*filtering.BY_NAME, "sort"} == set(FailureFilter.__struct_fields__)


@given(FILTERS)
def test_the_filter_is_the_address(which: FailureFilter) -> None:
    asked = read(urlsplit(filtering.address(which)).query)

    assert (asked.which, dict(asked.wrong)) == (which, {})
    assert len(filtering.chips(which)) == len(
        [name for name in filtering.BY_NAME if getattr(which, name) is not None]
    )


@given(st.lists(st.tuples(st.sampled_from(("since", "text", "sort", "page", "x")), st.text())))
def test_no_address_is_too_strange(query: list[tuple[str, str]]) -> None:
    asked = filtering.read(query)

    assert all(asked.wrong.values())
    filtering.inputs(asked)
    filtering.faults(asked)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T16:00",
        "2026-11-30 16:00",
        "2026-11-30T16:00:00Z",
        "2026-11-30T17:00:00+01:00",
        "2026-11-30t16:00z",
    ],
)
def test_a_time_may_be_written_in_several_ways(text: str) -> None:
    found = filtering.read([("since", text)])

    assert found.which.since == dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ("since=yesterday", "since", "A time is written 2026-11-30"),
        ("since=2026-02-30", "since", "There is no such time."),
        ("since=0001-01-01T00:00%2B14:00", "since", "There is no such time."),
        ("since=1066-10-14", "since", "No job ended then."),
        ("since=2026-11-30&until=2026-11-29", "until", "The end must lie after the start."),
        ("domain=both", "domain", "It is one of user, system, either."),
        ("sort=name", "sort", "It is one of -ended, ended, -lost, -nodes."),
        ("user=a%00b", "user", "There is a control character in it."),
        (f"user={'a' * 257}", "user", "At most 256 characters are looked for."),
        ("user=a&user=b", "user", "This was given more than once."),
        (f"page={'a' * 2001}", "page", "This is no page of the list."),
    ],
)
def test_what_is_wrong_is_said_of_its_field_and_what_was_typed_is_kept(
    query: str, field: str, said: str
) -> None:
    asked = read(f"{query}&node=n1")

    assert list(asked.wrong) == [field]
    assert asked.wrong[field].startswith(said)
    assert asked.which.node == "n1"
    assert asked.typed["node"] == "n1" and field in asked.typed


def test_a_field_for_times_shows_what_is_none() -> None:
    asked = read("since=yesterday&until=2026-11-30")

    shown = {each.field.name: (each.kind, each.value) for each in filtering.inputs(asked)}
    assert shown["since"] == ("text", "yesterday")
    assert shown["until"] == ("datetime-local", "2026-11-30T00:00")


def test_each_chip_leads_to_the_list_without_it() -> None:
    which = FailureFilter(domain="system", user="a&b", sort="-lost")

    assert [tuple(chip) for chip in filtering.chips(which)] == [
        ("Who can act", "the administrators", "/failures?user=a%26b&sort=-lost"),
        ("User", "a&b", "/failures?domain=system&sort=-lost"),
    ]


def test_the_headings_sort_and_the_end_of_jobs_both_ways() -> None:
    newest = filtering.heads(FailureFilter(user="a"))
    oldest = filtering.heads(FailureFilter(user="a", sort="ended"))

    assert newest["ended"] == ("/failures?user=a&sort=ended", "descending")
    assert oldest["ended"] == ("/failures?user=a", "ascending")
    assert newest["lost"] == ("/failures?user=a&sort=-lost", None)


def test_empty_fields_are_no_part_of_the_address() -> None:
    asked = read("text=&user=+alice+&since=")

    assert not asked.is_canonical
    assert filtering.address(asked.which) == "/failures?user=alice"
