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
from itertools import pairwise

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
_LEVELS = frozenset({"CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTE", "WARN", "WARNING"})
# What a worker writes with no head of its own, or an agent or torch with theirs.
_CHILDS = re.compile(
    r"Traceback \(most|\s{1,8}File \"|    \S|\[rank\d+\]:|\[default\d+\]:|[VIWEFC]\d{4} \d\d:|"
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] "
)
_BARE = re.compile(r"Traceback \(most|  File \"")
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
    return None


def has_task_labels(lines: Sequence[str]) -> bool:
    """Whether ``lines`` (a sample of a file) carry srun's labels.

    A log may have lines that begin with a number and a colon without being labelled; srun
    labels every line of every task, and leaves only srun's and the batch script's own bare.
    """
    numbers: list[int] = []
    bare = 0
    for line in lines:
        if not line.strip() or line.startswith(("srun:", "slurmstepd")):
            continue
        if match := TASK.match(line):
            numbers.append(int(match["task"]))
        else:
            bare += 1
    # Numbers that only grow are a counter's or grep's; tasks speak in turns.
    counted = len(numbers) > 2 and all(a < b for a, b in pairwise(numbers))
    return bool(numbers) and len(numbers) >= 2 * bare and not counted


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
def _hosts(regex: re.Pattern[str], lines: list[str], share: float) -> frozenset[str]:
    matches = [m for line in lines if (m := regex.match(line)) and _is_name(m["host"], regex)]
    if not matches or len(matches) < share * len(lines):
        return frozenset()
    if not any(_CHILDS.match(match.string, match.end()) for match in matches):
        return frozenset()
    names = Counter(match["host"] for match in matches)
    if regex is _STERN and len(names) < 2:
        return frozenset()
    return frozenset(name for name, count in names.items() if count > 1)


def _is_name(name: str, regex: re.Pattern[str]) -> bool:
    if name == "localhost":
        return True
    if regex is _PROGRAM:
        return name != "kernel"
    return not name.isdigit() and name not in _LEVELS and any(each.isdigit() for each in name)
