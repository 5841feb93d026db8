"""Prefixes that only many lines of a file together tell, and what they name.

| form | put there by | names |
|---|---|---|
| ``3: `` | srun --label, flux run --label-io | Slurm's task |
| ``node3 12: `` | PALS mpiexec --label | host and task |
| ``[3] ``, ``[3]:`` | MPICH and Intel MPI, torchrun's template ``[${rank}]:`` | MPI or global rank |
| ``node3: `` | pdsh, clush, DeepSpeed's pdsh launcher | host |
| ``worker-0  | `` | docker compose | host |
| ``POD CONTAINER `` | stern | host |
| ``[pod/NAME/CONTAINER] `` | kubectl logs --prefix, outside of other forms | host |
| ``Nov 30 12:00:01 node3 python[99]: `` | syslog, journalctl | host and process |
| ``node3 python[99]: ``, ``stderr: `` | the same without its time; accelerate test | host and process |
| ``2026-11-30T12:00:01.123456789Z stderr F `` | containerd, CRI-O (/var/log/pods) | nobody |
| ``> ``, ``# `` | mails and issues that quote, scripts that keep a log as a comment | nobody |
| ``2026-11-30T12:00:01.123456789Z `` and other times | kubectl --timestamps, docker logs -t, ts | nobody |

What a program prints may look like any of them. A launcher's prefix stands before every line of
its children, also before those that a program never writes with a head of its own: a traceback's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import itemgetter

import msgspec

# srun writes a blank after the label; "1078:[default0]:" is grep's line number.
TASK = re.compile(r" {0,8}(?:P?\d{1,7} )?(?P<task>\d{1,7}):(?: |$)")
_HOST_TASK = re.compile(r"(?P<host>[A-Za-z][\w.-]{0,252}) (?P<task>\d{1,7}):(?: |$)")
_NUMBER = re.compile(r"\[(?P<rank>\d{1,7})\](?:: ?| |$)")
_HOST = re.compile(r"(?P<host>[A-Za-z0-9][\w.-]{0,252}):(?: |$)")
_COMPOSE = re.compile(r"(?P<host>[A-Za-z0-9][\w.-]{0,252}) {1,60}\|(?: |$)")
_STERN = re.compile(r"(?P<host>[a-z0-9][a-z0-9.-]{0,252}) [a-z0-9][a-z0-9-]{0,62}(?: |$)")
POD = re.compile(r"\[pod/(?P<host>[a-z0-9][a-z0-9.-]{0,252})/[a-z0-9.-]{1,253}\] ")
_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_SHORT_DATE = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
_SYSLOG = re.compile(
    rf"(?:{_DATE}|{_SHORT_DATE}) (?P<host>[A-Za-z0-9][\w.-]{{0,252}}) "
    r"(?!kernel)[\w./@-]{1,128}(?:\[(?P<pid>\d{1,10})\])?:(?: |$)"
)
# The same without its time: grep and people cut it off.
_PROGRAM = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,252}) [\w./@-]{1,128}\[(?P<pid>\d{1,10})\]:(?: |$)"
)
# accelerate test repeats what its child said.
_QUOTED = re.compile(r"std(?:out|err):(?: |$)")
# torch 2.1's own "[time] logger: [LEVEL]" and DeepSpeed's "[time] [LEVEL]" are no stamps.
_STAMP = re.compile(
    rf"(?:\[{_DATE}\](?! (?:[\w.]{{1,128}}: )?\[[A-Z])|(?:{_DATE}|{_SHORT_DATE}))(?: |$)"
)
# kubelet's pkg/kubelet/kuberuntime/logs: time, stream, and F or P for a line that is whole or not.
_CRI = re.compile(rf"{_DATE} std(?:out|err) [FP](?: |$)")
_REPLY = re.compile(r"(?:> ?|# )(?!>)|#$")
# A program's own prefix.
_OWN_RANK = re.compile(r"rank_?\d+")
_LEVELS = frozenset({"CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTE", "WARN", "WARNING"})
# What a worker writes with no head of its own, or an agent or torch with theirs.
_CHILDS = re.compile(
    r"Traceback \(most|\s{1,8}File \"|    \S|\[rank\d+\]:|\[default\d+\]:|[VIWEFC]\d{4} \d\d:|"
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] "
)
_BARE = re.compile(r"Traceback \(most|  File \"")
# What a batch script does not print itself: a traceback, torch's and torchrun's own prefixes, an
# agent's log.
_WORKERS = re.compile(
    r"Traceback \(most|\s{1,8}File \"|\[rank\d+\]:|\[default\d+\]:|[VIWEFC]\d{4} \d\d:"
)
_WORKERS_LINES = 2
_SLURMS = ("srun:", "slurmstepd")
_DEEPEST = 4


class Wrapper(msgspec.Struct, frozen=True):
    """One form of prefix that a file's lines have.

    ``regex`` has the groups host, task, rank and pid as far as the form names them. ``hosts``
    are the names that count, all where it is empty.
    """

    regex: re.Pattern[str]
    hosts: frozenset[str] = frozenset()


class Layout(msgspec.Struct, frozen=True):
    """How a file's lines begin: its wrappers, outermost first.

    ``launchers`` says that mpirun (or what counts as it does) started launchers of ranks, so
    that its numbers are tasks.
    """

    wrappers: tuple[Wrapper, ...] = ()
    launchers: bool = False

    @property
    def labelled(self) -> bool:
        """Whether lines have srun's labels."""
        return any(each.regex is TASK for each in self.wrappers)


PLAIN = Layout()


def layout(samples: Sequence[Sequence[str]], *, launchers: bool = False) -> Layout:
    """The layout that one of the ``samples`` (the lines at a file's start, at its end) shows."""
    found: list[Wrapper] = []
    left = [[line for line in sample if line.strip()] for sample in samples]
    for _ in range(_DEEPEST):
        wrapper = next((w for sample in left if (w := _outermost(sample, found))), None)
        if wrapper is None:
            break
        found.append(wrapper)
        left = [[_without(wrapper, line) for line in sample] for sample in left]
    return Layout(tuple(found), launchers)


def _without(wrapper: Wrapper, line: str) -> str:
    match = wrapper.regex.match(line)
    return line[match.end() :] if match else line


def _outermost(lines: list[str], before: list[Wrapper]) -> Wrapper | None:
    worn = {wrapper.regex for wrapper in before}
    if TASK not in worn and has_task_labels(lines):
        return Wrapper(TASK)
    for regex in (POD, _SYSLOG, _CRI, _STAMP, _REPLY):
        if regex not in worn and _is_stamped(regex, lines):
            return Wrapper(regex)
    if (
        _QUOTED not in worn
        and sum(_QUOTED.match(each) is not None for each in lines) > len(lines) / 2
    ):
        return Wrapper(_QUOTED)
    if _NUMBER not in worn and _has_numbers(lines):
        return Wrapper(_NUMBER)
    for regex, share in (
        (_PROGRAM, 0.9),
        (_HOST_TASK, 0.9),
        (_HOST, 0.7),
        (_COMPOSE, 0.7),
        (_STERN, 0.9),
    ):
        if regex not in worn and (hosts := _hosts(regex, lines, share)):
            return Wrapper(regex, hosts)
    if _HOST not in worn and (hosts := _late_hosts(lines)):
        return Wrapper(_HOST, hosts)
    return None


def has_task_labels(lines: Sequence[str]) -> bool:
    """Whether ``lines`` (a sample of a file) carry srun's labels.

    A log may have lines that begin with a number and a colon without being labelled; srun
    labels every line of every task, and leaves only srun's and the batch script's own bare.
    """
    said, numbers = _numbered(lines)
    if _are_tasks(numbers):
        return True
    if not any(numbers):
        return False
    said, numbers = _numbered(_after_batch(lines))
    return _are_tasks(numbers[_late(TASK, said, numbers) :])


def _numbered(lines: Sequence[str]) -> tuple[list[str], list[str | None]]:
    said = [line for line in lines if line.strip() and not line.startswith(_SLURMS)]
    return said, [match["task"] if (match := TASK.match(line)) else None for line in said]


# ``lines`` without the tracebacks before all labels: a batch script tries a program, then starts
# the step. Where a step has ended before, they may be its own.
def _after_batch(lines: Sequence[str]) -> list[str]:
    first = next((n for n, line in enumerate(lines) if TASK.match(line)), len(lines))
    before = lines[:first]
    if any(line.startswith(_SLURMS) for line in before):
        return list(lines)
    return [*(line for line in before if not _BARE.match(line)), *lines[first:]]


# Of lines' numbers, None where one has none.
def _are_tasks(numbers: Sequence[str | None]) -> bool:
    found = [int(number) for number in numbers if number is not None]
    # Numbers that only grow are a counter's or grep's; tasks speak in turns.
    counted = len(found) > 2 and all(a < b for a, b in pairwise(found))
    return bool(found) and len(found) >= 2 * (len(numbers) - len(found)) and not counted


# From which line on most lines have labels, however many a batch script wrote before: the lines'
# number where that is not sure. A worker speaks behind those labels, and none without.
def _late(regex: re.Pattern[str], lines: Sequence[str], labels: Sequence[str | None]) -> int:
    if not any(labels):
        return len(lines)
    gains = accumulate(-2 if label is None else 1 for label in reversed(labels))
    length, gain = max(enumerate(gains, 1), key=itemgetter(1))
    start = len(lines) - length
    workers: dict[str, set[str]] = {}
    for line, label in zip(lines[start:], labels[start:], strict=True):
        if label and (match := regex.match(line)) and _WORKERS.match(line, match.end()):
            workers.setdefault(label, set()).add(line)
    spoken = max(map(len, workers.values()), default=0)
    if gain <= 0 or spoken < _WORKERS_LINES:
        return len(lines)
    bare = any(
        label is None and _WORKERS.match(line) for line, label in zip(lines, labels, strict=True)
    )
    return len(lines) if bare else start


# A program's logger stamps its own lines, never those of a traceback.
def _is_stamped(regex: re.Pattern[str], lines: list[str]) -> bool:
    stamped = sum(regex.match(line) is not None for line in lines)
    if not stamped or stamped < 0.9 * len(lines):
        return False
    return not any(_BARE.match(line) for line in lines)


def _has_numbers(lines: list[str]) -> bool:
    matches = [match for line in lines if (match := _NUMBER.match(line))]
    numbers = [int(match["rank"]) for match in matches]
    if len(numbers) < 0.8 * len(lines) or len(set(numbers)) < 2:
        return False
    grows = all(a <= b for a, b in pairwise(numbers))
    return not grows and any(_CHILDS.match(m.string, m.end()) for m in matches)


# The hosts that the lines' prefixes name, none where they are not surely prefixes: most lines
# have one, the names look like hosts' and come again, and a worker speaks behind one.
def _hosts(regex: re.Pattern[str], lines: Sequence[str], share: float) -> frozenset[str]:
    matches = [m for line in lines if (m := regex.match(line)) and _is_name(m["host"], regex)]
    if not matches or len(matches) < share * len(lines):
        return frozenset()
    if not any(_CHILDS.match(match.string, match.end()) for match in matches):
        return frozenset()
    names = Counter(match["host"] for match in matches)
    if regex is _STERN and len(names) < 2:
        return frozenset()
    return frozenset(name for name, count in names.items() if count > 1)


# The same where a batch script wrote before.
def _late_hosts(lines: Sequence[str]) -> frozenset[str]:
    names = [match["host"] if (match := _HOST.match(line)) else None for line in lines]
    labels = [name if name is not None and _is_name(name, _HOST) else None for name in names]
    return _hosts(_HOST, lines[_late(_HOST, lines, labels) :], 0.7)


def _is_name(name: str, regex: re.Pattern[str]) -> bool:
    if name == "localhost":
        return True
    if _OWN_RANK.fullmatch(name):
        return False
    if regex is _PROGRAM:
        return name != "kernel"
    return not name.isdigit() and name not in _LEVELS and any(each.isdigit() for each in name)
