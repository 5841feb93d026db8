import datetime as dt

import msgspec
import pytest

from firstfault.model import verdict as v
from firstfault.report import html, text
from firstfault.report.outline import outline
from firstfault.report.sections import Limits
from tests.report import verdicts as examples

LIMITS = Limits(items=3, quote=200)


def where(initiator: v.Initiator, cause: str = "process.killed") -> str:
    given = v.Verdict(job=v.Job(), cause=v.Cause(cause, "t", "user", "likely"), initiator=initiator)
    return outline(given, LIMITS).where


@pytest.mark.parametrize(
    ("initiator", "cause", "said"),
    [
        (v.Initiator(rank=5, host="n4"), "process.killed", "rank 5 on n4"),
        (v.Initiator(rank=5), "process.killed", "rank 5 (host not known)"),
        (v.Initiator(host="n3"), "slurm.node-fail", "host n3"),
        (v.Initiator(), "slurm.time-limit", "the whole job; no rank failed first"),
        (v.Initiator(), "none", "nothing failed"),
        (v.Initiator(), "unknown", "not known which rank or host"),
        (
            v.Initiator(candidates=(v.Member(3, "n2"), v.Member(4, "n3"))),
            "process.killed",
            "one of 2 candidates: rank 3 on n2, rank 4 on n3",
        ),
        (
            v.Initiator(rank=0, host="n1", also=(v.Member(1, "n1"), v.Member(2, "n2"))),
            "python.import",
            "rank 0 on n1 and 2 others that failed the same way",
        ),
    ],
)
def test_the_place_says_who_or_why_nobody_is_named(initiator, cause, said):
    assert where(initiator, cause) == said


def test_ranks_that_failed_alike_are_grouped_by_host():
    also = outline(examples.EXCEPTION_ON_ALL, LIMITS).also

    assert also == "rank 1 on n1, ranks 2-3 on n2, ranks 4-5 on n3, ranks 6-7 on n4"


def test_a_list_that_is_too_long_says_how_many_were_left_out():
    said = outline(examples.huge(), LIMITS)

    assert len(said.notes.items) == 3
    assert said.notes.left_out == 4_997
    assert said.evidence.left_out == 4_997
    assert said.also is not None
    assert said.also.endswith("and 613 more")


def test_a_command_that_is_not_what_it_looks_like_is_not_offered():
    bad = ("true", "echo \u202eevil", "a\nb", "x" * 5000)
    given = msgspec.structs.replace(examples.CGROUP_OOM, remedy=v.Remedy(commands=bad))
    said = outline(given, Limits(items=10, quote=200))

    assert said.commands.items == ("true",)
    assert said.commands.left_out == 3


def test_an_event_refers_only_to_evidence_that_is_shown():
    links = tuple(v.ChainLink(None, None, None, None, "e", "cause", k) for k in (0, 2, 3, 99, -1))
    given = msgspec.structs.replace(
        examples.CGROUP_OOM, chain=links, evidence=(examples.KERNEL,) * 5
    )
    said = outline(given, LIMITS)

    assert [event.proof for event in said.events.items] == [1, 3, None, None, None]


def test_a_time_line_over_midnight_shows_the_days():
    late = examples.at("23:59:59")
    links = tuple(
        v.ChainLink(at, at, "n1", 0, "e", "context")
        for at in (late, late + dt.timedelta(seconds=2))
    )
    said = outline(msgspec.structs.replace(examples.CGROUP_OOM, chain=links), LIMITS)

    assert [event.when for event in said.events.items] == [
        "2026-11-30 23:59:59",
        "2026-12-01 00:00:01",
    ]


def test_no_style_is_named_by_the_input():
    said = outline(examples.hostile(), LIMITS)

    assert said.tone == "failure"
    assert said.sure.mark == "unknown"
    assert {event.kind for event in said.events.items} == {"context"}


def test_consequences_are_counted_and_their_ranks_named():
    said = outline(examples.CGROUP_OOM, LIMITS)

    assert said.effects_sentence is not None
    assert said.effects_sentence.startswith("7 other alarming lines or failures: only consequences")
    assert [effect.sentence for effect in said.effects.items] == [
        "ranks that lost a peer: 6 (ranks 0-3,6-7)",
        "ranks that their agent terminated: 1 (rank 4)",
    ]


def test_a_time_line_says_its_zone_or_that_it_has_no_times():
    timeless = tuple(
        msgspec.structs.replace(link, earliest=None, latest=None)
        for link in examples.CGROUP_OOM.chain
    )
    without = msgspec.structs.replace(examples.CGROUP_OOM, chain=timeless)

    assert outline(examples.CGROUP_OOM, LIMITS).times == "UTC"
    assert outline(without, LIMITS).times == "no times to show"
    assert "Time line (no times to show)\n  - rank 5 on n4: " in text.render(without)
    assert "events timeless" in html.render(without)
    assert "events timeless" not in html.render(examples.CGROUP_OOM)


@pytest.mark.parametrize(
    ("cause_id", "confidence", "said"),
    [
        ("memory.cgroup-oom", "confirmed", True),
        ("memory.cgroup-oom", "likely", True),
        ("memory.cgroup-oom", "possible", False),
        ("unknown", "unknown", False),
        ("none", "confirmed", False),
        ("of.a-newer-release", "confirmed", False),
    ],
)
def test_plain_words_are_said_of_a_cause_that_is_known_well_enough(cause_id, confidence, said):
    verdict = v.Verdict(job=v.Job(), cause=v.Cause(cause_id, "x", "user", confidence))

    assert (outline(verdict, LIMITS).plain is not None) == said


def test_ranks_of_one_story_are_one_event_that_says_where_the_first_was():
    peers = v.Consequence("ranks that lost a peer", 3, "2-3,6", None)
    agents = v.Consequence("agents that were told to stop", 3, None, None)
    links = (
        v.ChainLink(None, None, "n4", 3, "lost a peer", "consequence"),
        v.ChainLink(None, None, None, None, "the agent was told to stop", "consequence"),
        v.ChainLink(None, None, "n1", 4, "got SIGTERM", "consequence"),
    )
    given = msgspec.structs.replace(examples.CGROUP_OOM, chain=links, consequences=(peers, agents))
    events = outline(given, LIMITS).events.items

    assert [(event.where, event.what) for event in events] == [
        ("ranks 2-3,6", "lost a peer (the first: rank 3 on n4)"),
        ("", "3 agents that were told to stop"),
        ("rank 4 on n1", "got SIGTERM"),
    ]
