"""The pending ends whose turn it is, put to the daemon in one question, and what its answer does.

A child asks: a daemon, a name service or a munged that does not answer delays no other end.
"""

import random
import select
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from firstfault_epilog import backlog, confined, pending, sending, wanted
from firstfault_epilog.collection import Asked
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import job_of
from firstfault_epilog.pending import Pending, Place, Tell
from firstfault_epilog.settings import Settings

# Who is asked about soon is asked about at once, in the same question.
TOGETHER_S = 5.0
# Nodes whose jobs end at the same moment do not ask at the same moment: up to this part later.
JITTER = 1 / 3
# An address that hangs, munged, the connection and the answer have limits of their own.
DEADLINE_S = 150.0
# Where the daemon says nothing at all an end is not given up as soon.
UNHEARD_TTL_S = 86400.0

Send = Callable[[Dict[str, Any]], None]


class Question(NamedTuple):
    """A question under way: ``ends`` by id, ``child`` asks, until ``stop_at`` (monotonic)."""

    ends: Dict[str, Tuple[Place, Pending]]
    child: confined.Child
    stop_at: float


class Outcome(NamedTuple):
    """``wanted`` are to be collected and ``unwanted`` let go, each with its end's file.

    ``lost`` ends were given up, ``later`` were put off; ``fault`` says why there was no answer.
    """

    wanted: Tuple[Tuple[Place, Pending, Asked], ...] = ()
    unwanted: Tuple[Tuple[Place, Pending], ...] = ()
    lost: int = 0
    later: int = 0
    fault: Optional[str] = None


def first_ask_at_s(entry: Entry, settings: Settings, now_s: float) -> float:
    """When the daemon is first asked about this end, in seconds since 1970."""
    nodes = entry.value("SLURM_JOB_NODELIST") or entry.value("SLURM_NODELIST")
    jitter_s = settings.pending_ask_s * random.uniform(0, JITTER)  # noqa: S311 (no secret)
    after_s = settings.pending_ask_s + backlog.stagger_s(nodes, job_of(entry).node)
    return max(now_s, entry.ended_at_s + after_s) + jitter_s


def begin(
    settings: Settings, now_s: float, tell: Tell
) -> Tuple[Optional[Question], Optional[float]]:
    """The question on the ends whose turn it is, and the seconds until it is worth another call.

    None where no end waits. Raises OSError.
    """
    places = pending.waiting(settings.spool)
    if not places:
        return None, None
    next_s = min(pending.due_in_s(place, now_s) for place in places)
    if next_s > 0:
        return None, next_s
    near = [place for place in places if pending.due_in_s(place, now_s) <= TOGETHER_S]
    near.sort(key=lambda place: place.ask_at_s)
    found = pending.readable(settings.spool, near[: wanted.ASKED_MAX], tell)
    return (_put(settings, found) if found else None), 0.0


# Those of the first one's node and cluster: a question has one sender.
def _put(settings: Settings, ends: List[Tuple[Place, Pending]]) -> Question:
    of = _asker(ends[0][1])
    chosen = {place.id: (place, end) for place, end in ends if _asker(end) == of}
    rows = [wanted.row(end.entry, each) for each, (_, end) in chosen.items()]
    node, cluster = of
    body = wanted.question(node, cluster, rows)

    def ask(send: Send) -> None:
        answer = sending.post(settings, sending.WANTED, node, body)
        reply = wanted.reply(answer.document, tuple(chosen))
        again_s = reply.ask_again_s if answer.retry_after_s is None else answer.retry_after_s
        for each, word in reply.words.items():
            send({"id": each, **word._asdict()})
        send({"heard": answer.status == 200, "again_s": again_s, "fault": answer.fault})

    return Question(chosen, confined.start(ask, None), time.monotonic() + DEADLINE_S)


def is_answered(question: Question) -> bool:
    """Whether there is an answer, or no hope of one."""
    ready, _, _ = select.select([question.child.receiver], [], [], 0)
    return bool(ready) or time.monotonic() >= question.stop_at


def end(settings: Settings, question: Question, now_s: float) -> Outcome:
    """What the answer says; ends that have to wait on are put off here. Raises OSError."""
    answer = confined.finish(question.child, 1.0)
    words, heard, again_s, fault = _heard(answer)
    outcome = Outcome(fault=fault)
    for each, (place, kept) in question.ends.items():
        word = words.get(each, wanted.Word(wanted.LATER)) if heard else wanted.Word(wanted.LATER)
        waited_s = max(0.0, now_s - kept.kept_at_s)
        if word.verdict == wanted.YES:
            asked = Asked(word.paths, word.reads_shared)
            outcome = outcome._replace(wanted=(*outcome.wanted, (place, kept, asked)))
        elif word.verdict == wanted.NO:
            outcome = outcome._replace(unwanted=(*outcome.unwanted, (place, kept)))
        elif waited_s > (settings.pending_ttl_s if heard else UNHEARD_TTL_S):
            pending.count_lost(settings.spool, 1)
            outcome = outcome._replace(
                unwanted=(*outcome.unwanted, (place, kept)), lost=outcome.lost + 1
            )
        else:
            pause_s = wanted.again_s(waited_s, again_s) * random.uniform(1.0, 1.2)  # noqa: S311
            pending.postpone(place, now_s + pause_s)
            outcome = outcome._replace(later=outcome.later + 1)
    return outcome


def _asker(end: Pending) -> Tuple[str, Optional[str]]:
    job = job_of(end.entry)
    return job.node, job.cluster


# The child is this program, but what it passes on is a stranger's answer: checked there.
def _heard(
    answer: confined.Answer,
) -> Tuple[Dict[str, wanted.Word], bool, Optional[float], Optional[str]]:
    if answer.fault is not None or not answer.frames:
        return {}, False, None, answer.fault or "the question was not put"
    *rows, last = answer.frames
    words = {
        frame["id"]: wanted.Word(frame["verdict"], tuple(frame["paths"]), frame["reads_shared"])
        for frame in rows
    }
    return words, last["heard"], last["again_s"], last["fault"]
