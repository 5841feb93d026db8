"""The prefixes that launchers put before a worker's line, and whom they name.

These name their speaker by their form alone; those that only a whole file can tell are in
`firstfault.streams.wrappers`.

| form | made by | names |
|---|---|---|
| ``[default1]:`` (no blank) | torchrun --tee, role and LOCAL rank | local rank |
| ``[default1|17]:`` | torchrun, template ``[${role_name}${local_rank}|${rank}]:`` | local and global rank |
| ``[host:1]:`` or ``[host:1]`` | torchrun --role "$(hostname -s)" | host and local rank |
| ``[rank3]: `` | torch's excepthook | global rank |
| ``[rank3]:[E...``, ``[rank3]:W0825 ...`` | torch's own C++ and Python logs | global rank |
| ``[rank: 2] `` | Lightning | global rank |
| ``[1,3]<stderr>:``, ``[name@1,3]<stdout>: `` | mpirun --tag-output, prterun --output tag | job and MPI rank |
| ``[1,mpirank:3,algo-1]<stderr>:`` | SageMaker, around mpirun's | MPI rank and host |
| ``[pod/NAME/CONTAINER] `` | kubectl logs --prefix | host (a pod's host name is its name) |
| ``(RayTrainWorker pid=12, ip=10.0.0.2) `` | Ray | host and process |

``[rank0]:`` without a blank, before anything but torch's own log lines, is torchrun's for
``--role rank``: a local rank. An MPI rank is the global rank where mpirun started the ranks
themselves, and a task where it started launchers.
"""

from __future__ import annotations

import re

import msgspec

from firstfault.model.line import Speaker
from firstfault.streams.wrappers import PLAIN, POD, TASK, Layout

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
# A program's "[epoch3]:" is no role.
_TEE = re.compile(
    r"\[(?!(?:epoch|step|iter|iteration|batch|fold|trial|phase|layer|block|stage|seed)[_-]?\d)"
    r"[A-Za-z_][\w.-]{0,63}?(\d{1,6})(?:\|(\d{1,7}))?\]:"
)
# Open MPI's own "[host:00123] " is a pid: it has five digits at least.
_TEE_HOST = re.compile(r"\[([A-Za-z0-9][\w.-]{0,252}):(\d{1,4})\]:?")
_RANK = re.compile(
    r"\[rank(?P<rank>\d{1,7})\]:(?= |\[[A-Z][\d ]|\[\d{4}-\d\d-|[VIWEFC]\d{4} \d\d:|$)(?P<blank> ?)"
)
_LIGHTNING = re.compile(r"\[rank: (\d{1,7})\] ")
_MPI = re.compile(
    r"\[(?:[\w.-]{1,253}@)?\d{1,9},(?:mpirank:)?(\d{1,7})(?:,([A-Za-z][\w.-]{0,252}))?\]"
    r"<std(?:out|err|diag)>:"
)
_RAY = re.compile(
    r"\([A-Za-z_][\w.]{0,100}(?:\([\w.:-]{1,100}\))? (?:rank=\d{1,7} )?pid=(?P<pid>\d{1,10})(?:, ip=(?P<ip>[\w.:-]{1,253}))?\)(?: |$)"
)
# vLLM's logger stamps each line of a message.
_LOGGED = re.compile(
    r"(?:ERROR|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{1,200}:\d{1,6}\] ?"
)
_LEVELS = ("ERROR ", "WARNING ", "INFO ")
_OPENS = ("[", "(")
_BAR = ("it/s", "s/it", "%|")
# A worker's first words after prefixes in the midst of a line.
_GLUED = re.compile(
    r"(?:\[[A-Za-z_][\w.-]{0,63}\]:(?! )){0,2}"
    r"(?:\[rank\d{1,7}\]:(?: Traceback \(most| {2,9}File \"|\[[EWF][\d ])"
    r"|(?<=\]:)Traceback \(most)"
)
_LABEL = re.compile(r"\d{1,7}: $")


class Peeled(msgspec.Struct, frozen=True, gc=False):
    """A line's speaker and the rest; ``hooked`` when torch's own rank prefix stood there.

    ``outer`` is the speaker without what torch's own prefix names: what is glued behind a
    progress bar is of the same process, node or task.
    """

    speaker: Speaker
    text: str
    hooked: bool
    outer: Speaker


# Host, task, rank, local rank, pid.
_Names = tuple[str | None, int | None, int | None, int | None, int | None]
_NOBODY: _Names = (None, None, None, None, None)


class Peeler:
    """Takes the prefixes off one file's lines; a speaker is one value for all its lines."""

    def __init__(self, layout: Layout = PLAIN) -> None:
        self._layout = layout
        self._speakers: dict[_Names, Speaker] = {}

    def peel(self, text: str, outer: Speaker | None = None) -> Peeled:
        """``text`` without its prefixes; ``outer`` speaks where they name nobody else."""
        names, at = self._wrapped(text) if self._layout.wrappers else (_NOBODY, 0)
        rank: int | None = None
        hooked = False
        while text.startswith(_OPENS, at):
            torchs = text.startswith("[rank", at)
            if torchs and (match := _RANK.match(text, at)):
                rank, hooked = int(match[1]), hooked or bool(match[2])
            elif torchs and (match := _LIGHTNING.match(text, at)):
                rank = int(match[1])
            elif found := self._named(text, at, names):
                names, at = found
                continue
            else:
                break
            at = match.end()
        if at and text.startswith(_LEVELS, at) and (logged := _LOGGED.match(text, at)):
            at = logged.end()
        own = outer if outer is not None and names == _NOBODY else self._speaker(names)
        speaker = own
        if rank is not None:
            speaker = self._speaker((own.host, own.task, rank, own.local_rank, own.pid))
        return Peeled(speaker, text[at:] if at else text, hooked, own)

    def seam(self, text: str) -> int | None:
        """Where in ``text`` (without its own prefixes) another line's prefixes begin.

        A progress bar has no line end: what is written next, be it another rank's, is glued to
        it. None where all is one line.
        """
        if "]:" not in text:
            return None
        match = _GLUED.search(text)
        if match is None:
            bar = max(text.rfind(mark) for mark in _BAR)
            match = _TEE.search(text, bar) if bar >= 0 else None
        if match is None:
            return None
        at = match.start()
        if self._layout.labelled and (label := _LABEL.search(text, max(0, at - 9), at)):
            at = label.start()
        return at or None

    def _speaker(self, names: _Names) -> Speaker:
        speaker = self._speakers.get(names)
        if speaker is None:
            host, task, rank, local_rank, pid = names
            speaker = Speaker(host, task, rank, local_rank, pid=pid)
            self._speakers[names] = speaker
        return speaker

    def _wrapped(self, text: str) -> tuple[_Names, int]:
        names = _NOBODY
        at = 0
        for wrapper in self._layout.wrappers:
            match = wrapper.regex.match(text, at)
            if match is None:
                continue
            if wrapper.regex is TASK:
                at = match.end()
                names = (names[0], int(match[1]), names[2], names[3], names[4])
                continue
            groups = match.groupdict()
            host = groups.get("host")
            if wrapper.hosts and host not in wrapper.hosts:
                continue
            at = match.end()
            names = (
                _host(host) or names[0],
                _number(groups.get("task"), names[1]),
                _number(groups.get("rank"), names[2]),
                names[3],
                _number(groups.get("pid"), names[4]),
            )
        if names[2] is not None and self._layout.launchers:
            names = (names[0], names[2], None, names[3], names[4])
        return names, at

    # The names with those of the one prefix at ``at``, and its end; None where none stands there.
    def _named(self, text: str, at: int, names: _Names) -> tuple[_Names, int] | None:
        host, task, rank, local_rank, pid = names
        if match := _TEE.match(text, at):
            local_rank, rank = int(match[1]), _number(match[2], rank)
        elif (match := _TEE_HOST.match(text, at)) and not match[1].isdigit():
            host, local_rank = _host(match[1]) or host, int(match[2])
        elif match := _MPI.match(text, at):
            host = _host(match[2]) or host
            if self._layout.launchers:
                task = int(match[1])
            else:
                rank = int(match[1])
        elif match := POD.match(text, at):
            host = match[1]
        elif match := _RAY.match(text, at):
            host, pid = _host(match["ip"]) or host, int(match["pid"])
        else:
            return None
        return (host, task, rank, local_rank, pid), match.end()


def _number(text: str | None, other: int | None) -> int | None:
    return other if text is None else int(text)


# Every node calls itself so: it names none.
def _host(name: str | None) -> str | None:
    if name is None or name.partition(".")[0] == "localhost" or name.startswith("127."):
        return None
    return name
