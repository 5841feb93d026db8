"""How long a job had said nothing when it was ended, and how far it had come.

| what its last words tell | what is said |
|---|---|
| silent for much longer than between its last steps, and for a good part of its time | it hung, since then |
| silent no longer than between its last steps | it still advanced |
| silent for longer, but a while only, or after a word of an end or a checkpoint | how long; not that it hung |
| output that was cut off, or may be held back in buffers | nothing: more was said than was written |
| no times | nothing |

The times of one clock are compared: those that lines bear with the end that Slurm's line in the
output bears, or those of the ranks' own files. Where a line is later than the end, clocks differ,
and nothing is said.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from firstfault.faults.silence import late_faults
from firstfault.faults.standing import shared_place, standing_faults
from firstfault.model.event import AgentSignalled, Cancelled, LastWords, Stack
from firstfault.model.fault import Fault
from firstfault.model.line import is_local
from firstfault.model.run import Happened, Run, Told

# Slurm's causes whose end a hang may come before.
ENDED = ("slurm.time-limit", "slurm.cancelled", "slurm.preempted")

# So much longer than each pause before is no pause any more, and no silence is shorter than this.
_FACTOR = 10
_LEAST_S = 30.0
# So much of the job's time, or so long, nothing but a hang says nothing.
_SHARE = 0.1
_LONG_S = 1_800.0
# What Python holds back at most, as text and as bytes, where its output is no terminal (Lib/_pyio.py,
# TextIOWrapper and BufferedWriter; 3.14 has larger buffers).
_BUFFERS = 2 * 8_192
# Zones differ by half hours.
_ZONES_S = 1_800.0
# What clocks of one job may differ by.
_CLOCKS_S = 2.0
# Files whose lines bear no time have had at least so many before their pauses are known.
_MOST_LINES = 20


class Silence(msgspec.Struct, frozen=True):
    """What a job's last words tell of its end.

    ``quiet_s`` is for how long nothing was said before ``ended_at``, ``pause_s`` the longest pause
    before that, ``told_by`` is "lines" or "files", whose times these are. ``long`` is True for a
    silence that was no pause as before, ``hung`` where it was surely no work without a word. ``steps``
    are those that the last words name, of ``total``; ``behind`` are the last words of those that
    stand at a lower step than most of the others. ``last`` is the last line.
    """

    quiet_s: float
    ended_at: dt.datetime
    pause_s: float
    told_by: str
    voices: int
    hung: bool
    long: bool
    advancing: bool
    steps: tuple[int, ...] = ()
    total: int | None = None
    steps_per_s: float | None = None
    behind: tuple[Happened, ...] = ()
    last: str = ""


class _Voice(msgspec.Struct, frozen=True):
    happened: Happened
    words: LastWords
    quiet_s: float
    pause_s: float


def silence(told: Told, run: Run) -> Silence | None:
    """For how long the job was silent before it was ended; None where nothing tells."""
    end = _end(told, run)
    said = _said(run)
    if end is None or not said or any(words.cut for _, words in said):
        return None
    voices = [voice for each, words in said if (voice := _by_lines(each, words, end))]
    told_by = "lines"
    if not voices:
        told_by = "files"
        voices = [voice for each, words in said if (voice := _by_file(told, each, words, end))]
    elif _has_untimed_work(said):
        return None
    began = told.facts.started_at if told.facts else None
    run_s = (end - began).total_seconds() if began is not None else None
    if not voices or any(_is_another_clocks(each, run_s) for each in voices):
        return None
    return _weighed(voices, end, run_s, told_by)


# The last words of the job's own output: what py-spy printed is another program's.
def _said(run: Run) -> list[tuple[Happened, LastWords]]:
    others = {
        each.event.place.document
        for each in run.happened
        if isinstance(each.event, Stack) and each.event.pid is not None
    }
    return [
        (each, each.event)
        for each in run.happened
        if isinstance(each.event, LastWords) and each.event.place.document not in others
    ]


# Words without a time, perhaps after those with one.
def _has_untimed_work(said: Sequence[tuple[Happened, LastWords]]) -> bool:
    last: dict[str, int] = {}
    for _, words in said:
        if words.at is not None:
            place = words.place
            last[place.document] = max(last.get(place.document, -1), place.offset)
    return any(
        words.at is None
        and (words.step is not None or words.place.document in last)
        and words.place.offset > last.get(words.place.document, -1)
        for _, words in said
    )


# A word after the end or before the start, or whole half hours before the end: as where one clock
# shows the time of another zone.
def _is_another_clocks(voice: _Voice, run_s: float | None) -> bool:
    quiet_s = voice.quiet_s
    early = run_s is not None and quiet_s > run_s + _CLOCKS_S
    off_s = abs(quiet_s - _ZONES_S * round(quiet_s / _ZONES_S))
    zoned = quiet_s > _ZONES_S / 2 and off_s <= _CLOCKS_S + 2 * voice.pause_s
    return quiet_s < -_CLOCKS_S or early or (zoned and voice.words.at is not None)


def _weighed(
    voices: Sequence[_Voice], end: dt.datetime, run_s: float | None, told_by: str
) -> Silence:
    last = min(voices, key=lambda each: each.quiet_s)
    quiet_s = max(0.0, last.quiet_s)
    pause_s = max(each.pause_s for each in voices)
    counted = [each for each in voices if each.words.step is not None]
    steps = tuple(sorted({each.words.step for each in counted if each.words.step is not None}))
    closing = any(each.words.closing for each in voices)
    totals = {each.words.total for each in counted} - {None}
    paces = [each.words.steps_per_s for each in counted if each.words.steps_per_s]
    long = quiet_s >= max(_LEAST_S, _FACTOR * pause_s)
    unheard = all(each.words.flushed or quiet_s > _buffered_s(each) for each in voices)
    # A checkpoint or an evaluation may take minutes without a word.
    share_s = _SHARE * run_s if run_s is not None else _LONG_S
    return Silence(
        quiet_s=quiet_s,
        ended_at=end,
        pause_s=pause_s,
        told_by=told_by,
        voices=len(voices),
        hung=long and quiet_s >= min(_LONG_S, share_s) and unheard and not closing,
        long=long,
        advancing=bool(counted) and quiet_s <= max(_CLOCKS_S, 2 * pause_s),
        steps=steps,
        total=totals.pop() if len(totals) == 1 else None,
        steps_per_s=min(paces, default=None),
        behind=tuple(each.happened for each in _behind(counted, steps)),
        last=last.words.place.text,
    )


# How long a program may speak into its buffers before anything of it is written.
def _buffered_s(voice: _Voice) -> float:
    return voice.pause_s * _BUFFERS / max(1.0, voice.words.line_bytes)


# Those that are a step behind most of the others, in a job whose ranks all count their steps.
def _behind(counted: Sequence[_Voice], steps: tuple[int, ...]) -> list[_Voice]:
    if len(steps) != 2:
        return []
    late = [each for each in counted if each.words.step == steps[0]]
    return late if 2 * len(late) < len(counted) else []


# When the job was ended, by the clock of the node that says so in the job's output.
def _end(told: Told, run: Run) -> dt.datetime | None:
    spans = [
        each.event.at
        for each in run.happened
        if isinstance(each.event, Cancelled | AgentSignalled) and each.event.at is not None
    ]
    ends = [at for span in spans if (at := span.earliest or span.latest) is not None]
    if ends:
        return min(ends)
    return told.facts.ended_at if told.facts else None


def _by_lines(each: Happened, words: LastWords, end: dt.datetime) -> _Voice | None:
    if words.at is None or words.pause_s is None:
        return None
    return _Voice(each, words, (end - words.at).total_seconds(), words.pause_s)


# A file that was copied, or written to since, tells nothing; nor does one of which it is not known
# when its first line was written.
def _by_file(told: Told, each: Happened, words: LastWords, end: dt.datetime) -> _Voice | None:
    began = told.facts.started_at if told.facts else None
    at = words.written_at
    if each.source != "rank's log" or at is None or began is None or not began <= at <= end:
        return None
    if words.lines < _MOST_LINES:
        return None
    pause_s = (at - began).total_seconds() / words.lines
    return _Voice(each, words, (end - at).total_seconds(), pause_s)


def with_hang(told: Told, run: Run, faults: Sequence[Fault], *, alone: bool) -> list[Fault]:
    """``faults``, in which what Slurm did tells what the job was doing before.

    Where that is ``alone`` and the job hung, with the rank that others waited for, if it is known.
    """
    if not any(fault.cause in ENDED for fault in faults):
        return list(faults)
    found = silence(told, run)
    facts = facts_of(found) if found is not None else ()
    place = shared_place(run)
    if place is not None and found is not None and found.hung:
        facts = (*facts, ("standing", place))
    hung: list[Fault] = []
    if alone and all(fault.cause in ENDED for fault in faults if fault.sure):
        still = found is not None and found.hung
        moving = found is not None and found.advancing
        hung = [] if moving else standing_faults(run, hung=still) or late_faults(run)
    told_by = [msgspec.structs.replace(fault, facts=(*fault.facts, *facts)) for fault in hung]
    return told_by + [
        msgspec.structs.replace(fault, facts=(*fault.facts, *facts))
        if fault.cause in ENDED
        else fault
        for fault in faults
    ]


def facts_of(found: Silence) -> tuple[tuple[str, str], ...]:
    """What is told of a job's last words, as the facts of a fault."""
    since = found.ended_at - dt.timedelta(seconds=found.quiet_s)
    facts = {
        "quiet_s": str(round(found.quiet_s)),
        "pause_s": str(max(1, round(found.pause_s))),
        "told_by": found.told_by,
        "voices": str(found.voices),
        "since": f"{since:%Y-%m-%d %H:%M:%S}{' (local time)' if is_local(since) else ' UTC'}",
        "hung": "yes" if found.hung else "",
        "advancing": "yes" if found.advancing else "",
        "silent_after": found.last if found.long and not found.hung else "",
        "behind": ", ".join(filter(None, map(_name, found.behind))),
    }
    if found.steps:
        facts["step"] = str(found.steps[-1])
    if found.total is not None and found.steps and found.steps[-1] <= found.total:
        facts["total"] = str(found.total)
        if found.advancing and found.steps_per_s:
            facts["more_s"] = str(round((found.total - found.steps[-1]) / found.steps_per_s))
    return tuple((name, value) for name, value in facts.items() if value)


def _name(each: Happened) -> str | None:
    who = each.event.speaker if isinstance(each.event, LastWords) else None
    rank = each.process.rank if each.process else None
    if rank is not None:
        return f"rank {rank}"
    return f"task {who.task}" if who is not None and who.task is not None else None
