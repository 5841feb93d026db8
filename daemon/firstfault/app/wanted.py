"""Which ends are wanted: answers to the nodes, from the store, from Slurm and the configuration.

docs/transport.md tells what a node asks; docs/daemon.md in which order the answer is looked for.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import sqlalchemy as sa

from firstfault.app.ends import NEVER, SUCCEEDED, is_wanted
from firstfault.app.inquiry import Inquiry
from firstfault.config import Ends
from firstfault.intake.batch import StoreAway
from firstfault.intake.questions import LATER, NO, YES, Answers, Asked, Question, Wanted
from firstfault.model.slurm import JobFacts
from firstfault.readers import nodelist
from firstfault.slurm.facts import incarnation, is_final
from firstfault.store import ends as stored
from firstfault.store.database import Database
from firstfault.store.ends import StoredEnd

WAIT_S = 3.0
# The job's first two nodes read what all nodes see. Where they have said nothing for so long after
# the first that did, two others do.
FIRST_NODES = 2
LATE_S = 60.0
PATHS_MAX = 64
PATH_BYTES_MAX = 4095
_JOBS_MAX = 10_000
# A young end's answer is a matter of seconds; an old one's job is unknown to Slurm, or it is down.
_AGAIN_S = ((60.0, 10), (600.0, 60))
_AGAIN_OLD_S = 300


class _Readers:
    """When each end was first wanted, and how many nodes stand in for its first two."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: OrderedDict[object, dt.datetime] = OrderedDict()
        self._given: dict[object, int] = {}

    def first_wanted_at(self, end: object, now: dt.datetime) -> dt.datetime:
        with self._lock:
            first = self._since.setdefault(end, now)
            while len(self._since) > _JOBS_MAX:
                self._given.pop(self._since.popitem(last=False)[0], None)
            return first

    def may_stand_in(self, end: object) -> bool:
        with self._lock:
            given = self._given.get(end, 0)
            self._given[end] = given + 1
            return given < FIRST_NODES


class Decisions:
    """Answers questions; threads may share it. ``ends`` is read anew for each: it may change."""

    def __init__(
        self,
        database: Database,
        inquiry: Inquiry | None,
        ends: Callable[[], Ends],
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._database = database
        self._inquiry = inquiry
        self._ends = ends
        self._clock = clock
        self._readers = _Readers()

    def answer(self, question: Question) -> Answers:
        """The answers; it may wait `WAIT_S` for Slurm. Raises `StoreAway`."""
        try:
            known = stored.ends_of(self._database, {asked.job for asked in question.asked})
            here = stored.stored_ids(self._database, [asked.id for asked in question.asked])
            first = {
                asked.id: self._decide(question, asked, known, here) for asked in question.asked
            }
            open_ = {a.job for a in question.asked if first[a.id].wanted == LATER}
            if open_ and self._inquiry is not None:
                self._inquiry.want(open_, WAIT_S)
            answers = {
                asked.id: self._decide(question, asked, known, here)
                if first[asked.id].wanted == LATER
                else first[asked.id]
                for asked in question.asked
            }
            complete = {
                asked.id: self._complete(question, asked, answers[asked.id], known)
                for asked in question.asked
            }
        except sa.exc.SQLAlchemyError as error:
            raise StoreAway(f"the store is away ({type(error).__name__})") from error
        left = [asked for asked in question.asked if complete[asked.id].wanted == LATER]
        return Answers(complete, _again_s(left, self._clock()))

    def _decide(
        self,
        question: Question,
        asked: Asked,
        known: dict[str, list[StoredEnd]],
        here: frozenset[str],
    ) -> Wanted:
        if asked.id in here:
            return Wanted(NO)
        if self._inquiry is None:
            return Wanted(YES)  # nobody else can tell
        end = _end(question, asked, known)
        facts = self._facts(question, asked, end)
        wanted = None if facts is None else _by_slurm(self._ends(), facts)
        if wanted is not None:
            return Wanted(YES if wanted else NO)
        if end is not None and (end.suspicious or end.cause not in (None, "none")):
            return Wanted(YES)
        return Wanted(LATER)

    def _complete(
        self, question: Question, asked: Asked, answer: Wanted, known: dict[str, list[StoredEnd]]
    ) -> Wanted:
        """The answer with what its node is to read besides."""
        if answer.wanted != YES:
            return answer
        end = _end(question, asked, known)
        facts = self._facts(question, asked, end)
        paths = () if facts is None else _paths(facts, question.node)
        return Wanted(YES, paths, self._reads_shared(question, asked, end))

    def _facts(self, question: Question, asked: Asked, end: StoredEnd | None) -> JobFacts | None:
        if self._inquiry is not None:
            said = self._inquiry.facts(asked.job)
            fresh = incarnation(said, asked.ended_at, question.cluster)
            if fresh is not None:
                return fresh
        return None if end is None else end.facts

    def _reads_shared(self, question: Question, asked: Asked, end: StoredEnd | None) -> bool:
        key = (question.cluster, asked.job, asked.run)
        now = self._clock()
        since = self._readers.first_wanted_at(key, now)
        if end is not None:
            since = min(since, end.first_seen_at)
        if (now - since).total_seconds() < LATE_S or asked.nodes is None:
            return False
        try:
            first = nodelist.expand(asked.nodes)[:FIRST_NODES]
        except nodelist.NodeListError:
            return False
        if question.node in first:
            return False
        if end is not None and stored.have_reported(self._database, end.key, first):
            return False
        return self._readers.may_stand_in(key)


def _end(question: Question, asked: Asked, known: dict[str, list[StoredEnd]]) -> StoredEnd | None:
    for end in known.get(asked.job, ()):
        if end.is_of(question.cluster, asked.run, asked.ended_at):
            return end
    return None


def _by_slurm(ends: Ends, facts: JobFacts) -> bool | None:
    wanted = is_wanted(ends, facts)
    if facts.state != SUCCEEDED or wanted is None:
        return wanted
    if not is_final(facts):
        return None  # a step of it may still end otherwise
    # The script ended well though a step failed. Where the Epilog runs inside the job
    # (PrologFlags=RunInJob) the node is told zero for every exit code.
    derived = facts.derived_exit_code
    failed_inside = derived is not None and (derived.code, derived.signal) != (0, 0)
    return failed_inside and ends.failed != NEVER


def _paths(facts: JobFacts, node: str) -> tuple[str, ...]:
    named = [facts.stdout, facts.stderr]
    for step in facts.steps:
        named += [step.stdout, step.stderr]
    paths = (path.replace("%N", node) for path in named if path)
    usable = (
        path
        for path in paths
        if path.startswith("/")
        and path != "/dev/null"
        and "%" not in path  # a file for each task: its node alone knows which are its own
        and len(path.encode()) <= PATH_BYTES_MAX
    )
    return tuple(dict.fromkeys(usable))[:PATHS_MAX]


def _again_s(left: Iterable[Asked], now: dt.datetime) -> int:
    return min((_again_one_s((now - asked.ended_at).total_seconds()) for asked in left), default=60)


def _again_one_s(age_s: float) -> int:
    rungs: Sequence[tuple[float, int]] = _AGAIN_S
    return next((again_s for until_s, again_s in rungs if age_s < until_s), _AGAIN_OLD_S)
