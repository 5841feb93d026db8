"""torchelastic: its agents' lines, in four layouts since torch 1.9, and those of its forerunner.

Formats as in torch 1.9 to 2.13, torch/distributed/elastic/multiprocessing/api.py,
agent/server/api.py and run.py; before torch 1.9 in torch/distributed/launch.py.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable

import msgspec

from firstfault.model.event import (
    AgentSignalled,
    ClosingSignal,
    ExitNoticed,
    Frame,
    GroupEnded,
    LaunchBegan,
    WorkersStarted,
)
from firstfault.model.line import Line, Span
from firstfault.readers.times import Zone, glog, moment, noticed

_GLOG = re.compile(
    r"[VIWEFC](?P<day>\d{4}) (?P<clock>\d\d:\d\d:\d\d\.\d{3,9}) +(?P<pid>\d+) (?P<path>[^\]]{1,512})\] "
)
_BRACKETED = re.compile(r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] [\w.]+: \[[A-Z]+\] ")
_PLAIN = re.compile(r"[A-Z]{4,8}:[\w.]{1,200}:")
_FAILED = re.compile(
    r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d{1,6}) \(pid: (\d{1,10})\) of (?:binary|fn): "
)
_CLOSING = re.compile(r"Sending process (\d{1,10}) closing signal SIG[A-Z]+")
_FORCED = re.compile(r"Unable to shutdown process (\d{1,10}) via \S+, forcefully exitt?ing via ")
_DEATH = re.compile(r"Received (?:Signals\.)?(\w{1,12}) death signal, shutting down workers")
# torch.distributed.launch before torch 1.9.
_OLD_DEATH = re.compile(r"Main process received SIGTERM, exiting\s*$")
_OLD_CLOSING = re.compile(r"Killing subprocess (\d{1,10})\s*$")
_EXCEPTION_SIGNAL = re.compile(r"SignalException: Process (\d{1,10}) got signal: (\d{1,3})")
_SIGNAL_NUMBERS = {"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGTERM": 15}
_GROUP = (
    (re.compile(r"Worker group (?:FAILED|UNHEALTHY)\. \d+/\d+ attempts left; will "), "failed"),
    (re.compile(r"Detected \d+ new nodes from group_rank=\d+; will restart worker"), "changed"),
    (re.compile(r"worker group successfully finished\. Waiting \d+ seconds for "), "finished"),
    (re.compile(r"Local worker group finished \((?:WorkerState\.)?FAILED\)\. "), "over"),
)
# torchrun, once for each agent, before its workers: the one line that it writes by default.
_THREADS = "Setting OMP_NUM_THREADS environment variable for each process to be "
_RESULT = re.compile(r"\[[^\]]{0,64}\] Rendezvous complete for workers\. Result:\s*$")
_RESULT_FIELD = re.compile(
    r"\s*(restart_count|master_addr|master_port|group_rank|group_world_size|local_ranks|"
    r"role_ranks|global_ranks|role_world_sizes|global_world_sizes|event_log_handler)=(.*)$"
)
_NUMBERS = re.compile(r"\[(\d{1,7}(?:, ?\d{1,7}){0,9999})\]\s*$")

AgentEvent = ExitNoticed | ClosingSignal | AgentSignalled | GroupEnded | LaunchBegan


# Frames that only torchrun and its agent have.
_AGENT_FRAME = re.compile(
    r"/torchrun$|torch/distributed/(?:run|launch)\.py$|"
    r"torch/distributed/(?:launcher|elastic/(?:agent|rendezvous))/"
)


def of_agent(frames: Iterable[Frame]) -> bool:
    """Whether a stack is of torchrun or its agent; @record's own frame in a rank tells nothing."""
    return any(_AGENT_FRAME.search(frame.file) for frame in frames)


class Head(msgspec.Struct, frozen=True, gc=False):
    """What stands before an agent's message: ``layout`` is None for a line without one.

    ``agent`` is the agent's pid, before torch 2.5 its main thread's id (15 digits); ``end`` is
    where the message begins.
    """

    layout: str | None = None
    at: dt.datetime | None = None
    agent: int | None = None
    end: int = 0


def head(text: str, zone: Zone) -> Head:
    """The head of an agent's line, in any of its layouts."""
    if match := _GLOG.match(text):
        at = glog(match["day"], match["clock"], zone)
        return Head("glog", at, int(match["pid"]), match.end())
    if match := _BRACKETED.match(text):
        return Head("bracketed", moment(match["time"], zone), None, match.end())
    match = _PLAIN.match(text)
    return Head("plain", end=match.end()) if match else Head()


def agent_event(line: Line, zone: Zone) -> AgentEvent | None:
    """The event in one line of an agent, None for any other line."""
    text = line.text
    begin = head(text, zone)
    if match := _FAILED.search(text):
        return ExitNoticed(
            line.place,
            line.speaker,
            noticed(begin.at),
            int(match[1]),
            int(match[2]),
            int(match[3]),
            begin.agent,
        )
    span = None if begin.at is None else Span(begin.at, begin.at)
    if match := _CLOSING.search(text):
        return ClosingSignal(line.place, line.speaker, span, int(match[1]), False, begin.agent)
    if match := _FORCED.search(text):
        return ClosingSignal(line.place, line.speaker, span, int(match[1]), True, begin.agent)
    if match := _OLD_CLOSING.match(text):
        return ClosingSignal(line.place, line.speaker, None, int(match[1]), False)
    if _OLD_DEATH.match(text):
        return AgentSignalled(line.place, line.speaker, None, 15)
    if match := _DEATH.search(text):
        return AgentSignalled(line.place, line.speaker, span, _signal_number(match[1]))
    if match := _EXCEPTION_SIGNAL.search(text):
        return AgentSignalled(line.place, line.speaker, None, int(match[2]))
    if _THREADS in text:
        return LaunchBegan(line.place, line.speaker, span, "torchrun")
    if begin.layout is not None:
        for pattern, how in _GROUP:
            if pattern.search(text):
                return GroupEnded(line.place, line.speaker, span, begin.agent, how)
    return None


def _signal_number(word: str) -> int:
    return int(word) if word.isdigit() else _SIGNAL_NUMBERS.get(word, 0)


class _Started:
    """One message that is not through yet."""

    def __init__(self, line: Line, begin: Head) -> None:
        self.line = line
        self.begin = begin
        self.fields: dict[str, str] = {}


class StartReader:
    """Takes one stream's lines and gives what its agents say of the ranks that they start.

    The message has a line for each of its fields, each with the agent's head since torch 2.3. Of
    two that are written into one another and have no such head, nothing is told.
    """

    def __init__(self) -> None:
        self._open: dict[int | None, _Started] = {}

    @property
    def active(self) -> bool:
        """Whether a message is not through yet."""
        return bool(self._open)

    def feed(self, line: Line, zone: Zone) -> WorkersStarted | None:
        """The event that ``line`` ends."""
        begin = head(line.text, zone)
        agent = begin.agent
        if "Rendezvous complete for" in line.text:
            if self._open.pop(agent, None) is None and _RESULT.search(line.text):
                self._open[agent] = _Started(line, begin)
            return None
        if begin.layout is None and len(self._open) == 1:
            agent = next(iter(self._open))
        told = self._open.get(agent)
        if told is None:
            return None
        match = _RESULT_FIELD.match(line.text, begin.end)
        if match is None or match[1] in told.fields:
            del self._open[agent]
            return None
        told.fields[match[1]] = match[2]
        if match[1] != "global_world_sizes":
            return None
        del self._open[agent]
        return _started(told)


def _started(told: _Started) -> WorkersStarted | None:
    fields, begin = told.fields, told.begin
    local, ranks = _list(fields.get("local_ranks")), _list(fields.get("global_ranks"))
    restarts, agents = fields.get("restart_count", ""), fields.get("group_world_size", "")
    if len(local) != len(ranks) or not ranks or not restarts.isdigit():
        return None
    sizes = set(_list(fields.get("global_world_sizes")))
    return WorkersStarted(
        place=told.line.place,
        speaker=told.line.speaker,
        at=None if begin.at is None else Span(begin.at, begin.at),
        agent_pid=begin.agent,
        restarts=int(restarts),
        ranks=tuple(zip(local, ranks, strict=True)),
        agents=int(agents) if agents.isdigit() else None,
        world_size=sizes.pop() if len(sizes) == 1 else None,
    )


def _list(text: str | None) -> list[int]:
    match = _NUMBERS.match(text or "")
    return [int(each) for each in match[1].split(",")] if match else []
