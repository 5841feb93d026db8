"""What a node says by a wrong clock is still of the job's time; what is of another time is not."""

from __future__ import annotations

import datetime as dt

from firstfault.faults.clocks import in_hosts_window
from firstfault.model.event import TableEntry
from firstfault.model.line import Place, Span, Speaker
from firstfault.model.run import Happened, Process, Run, Told
from firstfault.model.slurm import JobFacts

NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
JOB = JobFacts("500", started_at=NOON, ended_at=NOON + dt.timedelta(minutes=20))


def span(minutes: float) -> Span:
    moment = NOON + dt.timedelta(minutes=minutes)
    return Span(moment, moment + dt.timedelta(seconds=1))


def told(host: str, minutes: float) -> tuple[Told, Run]:
    """A job from noon to 12:20, and a failure that the agent of ``host`` noted so much later."""
    entry = TableEntry(
        Place("out", 0, 1, ""), Speaker(), span(minutes), 0, True, host, 3, 1, -9, 700
    )
    run = Run(0, (), (Happened(entry, Process(0, 3, 1, host), "agent"),), progressed=True)
    nothing: frozenset[str] = frozenset()
    return Told(
        (run,), JOB, nothing, None, None, None, ("c1",), nothing, (), (), 1, None, None, True
    ), run


def test_what_a_node_says_within_the_jobs_time_counts() -> None:
    assert in_hosts_window(span(5), "c1", *told("c1", 20))


def test_a_node_whose_agent_speaks_after_the_jobs_end_has_a_clock_that_is_ahead() -> None:
    assert in_hosts_window(span(50), "c1", *told("c1", 57))


def test_a_node_whose_agent_speaks_before_the_jobs_start_has_a_clock_that_is_late() -> None:
    assert in_hosts_window(span(-45), "c1", *told("c1", -40))


def test_what_came_before_the_job_by_a_wrong_clock_is_not_of_the_job() -> None:
    assert not in_hosts_window(span(25.5), "c1", *told("c1", 57))


def test_another_nodes_wrong_clock_says_nothing_of_this_one() -> None:
    assert not in_hosts_window(span(50), "c1", *told("c2", 57))


def test_what_lies_outside_the_jobs_time_does_not_count_where_the_nodes_clock_is_right() -> None:
    assert not in_hosts_window(span(50), "c1", *told("c1", 19))
