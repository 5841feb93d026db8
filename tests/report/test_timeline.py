import datetime as dt
from itertools import pairwise

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.faults.effects import WORDING
from firstfault.model import verdict as v
from firstfault.report import html
from firstfault.report import wording as w
from firstfault.report.outline import outline
from firstfault.report.timeline import Picture, picture
from tests.report import verdicts as examples

BEGIN = examples.at("15:00:00")


def after(seconds: float) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=seconds)


def link(
    earliest: float | None,
    latest: float | None,
    what: str = "lost a peer",
    role: str = "consequence",
    rank: int | None = 0,
    host: str | None = "n1",
) -> v.ChainLink:
    moments = [None if at is None else after(at) for at in (earliest, latest)]
    return v.ChainLink(moments[0], moments[1], host, rank, what, role)


CAUSE = link(0, 0.002, "raised ValueError", "cause", 5, "n3")


def drawn(*links: v.ChainLink, **changed: object) -> Picture:
    others = {"consequences": (), "coverage": (), **changed}
    verdict = msgspec.structs.replace(examples.CGROUP_OOM, chain=links, **others)
    found = picture(verdict)
    assert found is not None
    return found


def test_the_first_fault_comes_first_and_is_marked():
    found = drawn(link(3, 3), CAUSE)

    assert [(lane.who, lane.kind) for lane in found.lanes] == [
        ("rank 5 on n3", "cause"),
        ("rank 0 on n1", "consequence"),
    ]
    assert found.first == found.lanes[0].mark
    assert [tick.label for tick in found.ticks] == ["15:00:00", "+3 s"]


def test_an_uncertain_time_is_an_interval():
    mark = drawn(CAUSE, link(2, 4), link(8, 8)).lanes[1].mark
    moment = drawn(CAUSE, link(2, 4), link(8, 8)).lanes[2].mark

    assert mark is not None
    assert moment is not None
    assert mark.start < mark.end < moment.start == moment.end


def test_what_was_at_the_latest_then_reaches_back_to_the_edge():
    early, late = (drawn(CAUSE, link(*at)).lanes[1].mark for at in ((None, 5), (5, None)))

    assert early is not None
    assert late is not None
    assert (early.reach, late.reach) == ("before", "after")
    assert early.start < drawn(CAUSE, link(5, 5)).first.start  # type: ignore[union-attr]
    assert late.end > late.start


def test_what_has_no_time_stands_in_a_column_of_its_own_after_the_others():
    found = drawn(CAUSE, link(None, None, "the step was ended"), link(3, 3))
    placed = [lane.mark for lane in found.lanes if lane.mark is not None]

    assert [lane.what for lane in found.lanes if lane.mark is None] == ["the step was ended"]
    assert found.lanes[-1].mark is None
    assert found.no_time is not None
    assert max(mark.end for mark in placed) < found.right < found.no_time


def test_with_fewer_than_two_times_nothing_is_drawn():
    alone = msgspec.structs.replace(examples.CGROUP_OOM, chain=(CAUSE, link(None, None)))

    assert picture(alone) is None


def test_ranks_of_one_story_share_a_lane_however_many_they_are():
    many = v.Consequence("ranks that lost a peer", 131_071, "0-4,6-131071", None)
    few = v.Consequence("ranks that lost a peer", 3, "0-2", None)
    wide, narrow = (drawn(CAUSE, link(3, 4), consequences=(each,)) for each in (many, few))

    assert [lane.who for lane in wide.lanes] == ["rank 5 on n3", "ranks 0-4,6-131071"]
    assert [lane.who for lane in narrow.lanes] == ["rank 5 on n3", "ranks 0-2"]
    assert wide.height == narrow.height


def test_ranks_that_failed_alike_are_one_lane():
    alike = [link(k, k, "raised KeyError", "cause", k, f"n{k}") for k in range(8)]
    also = tuple(v.Member(k, f"n{k}") for k in range(1, 16_384))
    initiator = v.Initiator(rank=0, host="n0", also=also)
    found = drawn(*alike, initiator=initiator)

    assert [lane.who for lane in found.lanes] == ["ranks 0-16383"]
    assert found.first is not None
    assert found.first.start < found.first.end


def test_a_node_of_which_nothing_came_has_an_empty_lane():
    silent = v.CoverageRow("n[7-9]", None, "none", "none", "no record came from this node")
    found = drawn(CAUSE, link(3, 3), coverage=(silent,))

    assert (found.lanes[-1].who, found.lanes[-1].kind) == ("n[7-9]", "silent")


def test_a_long_silence_is_shortened_and_says_how_long_it_was():
    found = drawn(CAUSE, link(1800, 1801), link(1802, 1802))
    last = found.lanes[-1].mark

    assert found.shortened is not None
    assert found.shortened.label == "30 min"
    assert last is not None
    assert last.start - found.lanes[1].mark.start > 10  # type: ignore[union-attr]
    assert drawn(CAUSE, link(1800, 1800)).shortened is None


def test_the_names_of_ticks_do_not_run_into_each_other():
    found = drawn(CAUSE, *(link(k / 10, k / 10) for k in range(1, 12)), link(900, 901))
    places = [tick.place for tick in found.ticks]

    assert all(b - a >= 20 for a, b in pairwise(places))


def test_too_many_stories_are_counted():
    found = drawn(CAUSE, *(link(k, k, f"did {k}") for k in range(1, 100)))

    assert found.left_out == 100 - len(found.lanes)
    assert found.lanes[0].kind == "cause"


@pytest.mark.parametrize("seconds", [0, 1e-6, 86_400 * 365 * 50])
def test_marks_stay_in_the_picture(seconds: float):
    found = drawn(CAUSE, link(None, seconds), link(seconds, None), link(None, None))
    places = [at for lane in found.lanes if lane.mark for at in (lane.mark.start, lane.mark.end)]

    assert all(0 < place < 100 for place in places)


def test_a_phone_is_given_fewer_words():
    lane = drawn(CAUSE, link(3, 3, "said " * 100)).lanes[1]

    assert len(lane.who) + len(lane.brief) <= 40
    assert len(lane.brief) < len(lane.what) < 100


def test_the_groups_are_those_that_a_verdict_counts():
    assert {one: group.of for one, group in w.GROUPS.items()} == {
        wording.one: wording.many for wording in WORDING.values()
    }


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_every_example_is_drawn_or_has_too_few_times(name: str):
    verdict = examples.EXAMPLES[name]
    timed = [each for each in verdict.chain if each.earliest or each.latest]

    assert (picture(verdict) is not None) == (len(timed) > 1)


def test_the_legend_explains_the_signs_that_are_drawn_and_no_others():
    many = v.Consequence("ranks that lost a peer", 3, "0-2", None)
    plain = drawn(link(0, 0, "raised ValueError", "cause"), link(3, 3))
    rich = drawn(CAUSE, link(3, 4), link(None, 5, "e"), link(6, None, "f"), consequences=(many,))

    assert plain.legend == ()
    assert [words.split()[1] for words in rich.legend] == ["bar", "dotted", "dotted", "several"]


MOMENTS = st.one_of(
    st.none(), st.floats(-1e9, 1e9), st.sampled_from([0.0, 1e-6, 0.001, 1.0, 1800.0])
)
LINKS = st.builds(
    link,
    MOMENTS,
    MOMENTS,
    st.sampled_from(["lost a peer", "e", ""]),
    st.sampled_from(["cause", "consequence", "context", "of a newer release"]),
    st.one_of(st.none(), st.integers(0, 9)),
    st.sampled_from([None, "n1", "n2", "\u202e<b>"]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(LINKS, max_size=30))
def test_whatever_the_events_are_all_of_them_are_drawn_within_the_picture(links: list[v.ChainLink]):
    verdict = msgspec.structs.replace(examples.CGROUP_OOM, chain=tuple(links))
    found = picture(verdict)
    if found is None:
        return
    marks = [lane.mark for lane in found.lanes if lane.mark is not None]
    ticks = [tick.place for tick in found.ticks]

    assert all(0 < place < 100 for mark in marks for place in (mark.start, mark.end))
    assert all(b - a >= 20 for a, b in pairwise(ticks))
    assert all(lane.kind in (*w.ROLES, "silent") for lane in found.lanes)
    assert html.render(verdict)


def of_local_time(of: v.ChainLink) -> v.ChainLink:
    naive = (None if at is None else at.replace(tzinfo=None) for at in (of.earliest, of.latest))
    return msgspec.structs.replace(of, earliest=None, latest=None, local=v.LocalTimes(*naive))


def test_local_times_are_drawn_as_such():
    found = drawn(of_local_time(CAUSE), of_local_time(link(3, 3)))

    assert [tick.label for tick in found.ticks] == ["15:00:00 local", "+3 s"]
    assert found.summary.startswith("The first fault is at 15:00:00 local time;")
    assert found.lanes == drawn(CAUSE, link(3, 3)).lanes


def test_local_times_so_far_apart_that_zones_may_differ_are_not_drawn():
    far = of_local_time(link(3600, 3600))
    verdict = msgspec.structs.replace(examples.CGROUP_OOM, chain=(of_local_time(CAUSE), far))

    assert picture(verdict) is None


@pytest.mark.parametrize(("first", "other"), [(CAUSE, link(3, 3)), (link(3, 3), CAUSE)])
def test_local_times_and_utc_are_not_drawn_to_one_scale(first: v.ChainLink, other: v.ChainLink):
    chain = (first, other, of_local_time(link(1, 1, "got SIGTERM")))
    found = drawn(*chain)

    assert [lane.what for lane in found.lanes if lane.mark is None] == ["got SIGTERM"]
    assert found.no_time_is == "no UTC time"


@pytest.mark.parametrize(
    ("chain", "said", "first"),
    [
        ((CAUSE, link(3, 3)), "UTC", "15:00:00"),
        (
            (of_local_time(CAUSE), of_local_time(link(3, 3))),
            "local time, zone not known",
            "15:00:00",
        ),
        (
            (of_local_time(CAUSE), link(3, 3)),
            "UTC, or local time where it says so",
            "15:00:00 local",
        ),
    ],
)
def test_the_table_says_whose_time_it_is(chain: tuple[v.ChainLink, ...], said: str, first: str):
    told = outline(msgspec.structs.replace(examples.CGROUP_OOM, chain=chain), html.LIMITS)

    assert told.times == said
    assert told.events.items[0].when == first


def test_the_name_of_a_long_host_leaves_room_for_what_happened_there():
    host = "ip-10-20-123-145.eu-central-1.compute.internal"
    (lane, _) = drawn(link(0, 0, "raised ValueError", "cause", 131071, host), link(3, 3)).lanes

    assert lane.who == f"rank 131071 on {host}"
    assert len(f"{lane.who_brief} {lane.brief}") <= 40
    assert lane.brief.startswith("raised Valu")
