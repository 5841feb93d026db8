"""How launchers other than torchrun tell that one of their processes ended.

| launcher | where the text is from | what it identifies |
|---|---|---|
| torch.multiprocessing.spawn | torch/multiprocessing/spawn.py | the local index |
| mpirun, prterun | Open MPI 4 orte/tools/orterun/help-orterun.txt, PRRTE help-prterun.txt | rank, host |
| mpiexec | MPICH src/pm/hydra, Intel MPI: BAD TERMINATION box | host, pid; Intel's the rank |
| MPI_Abort | Open MPI help-mpi-api.txt | the rank that called it |
| horovodrun | horovod/runner/gloo_run.py, launch.py | the rank |
| deepspeed | deepspeed/launcher/launch.py | a pid that ended with success; else nobody |
| composer | composer/cli/launcher.py | the rank, the pid |
| Lightning | lightning/fabric/strategies/launchers/subprocess_script.py | a pid |
| Ray | src/ray/core_worker, raylet's message of a worker's death | host, pid |

The command that ``exits with return code`` in DeepSpeed's words, and the one in
``CalledProcessError`` of torch.distributed.launch before 1.9, is the last one started, whichever
failed: its ``--local_rank`` names nobody.
"""

from __future__ import annotations

import re

from firstfault.model.event import ClosingSignal, LaunchBegan, LauncherEnd
from firstfault.model.line import Line, Place

_SPAWN_SIGNAL = re.compile(
    r"Exception: process (\d{1,6}) terminated with signal (SIG[A-Z0-9]{2,10})\s*$"
)
_SPAWN_EXIT = re.compile(r"Exception: process (\d{1,6}) terminated with exit code (\d{1,5})\s*$")
_SPAWN_RAISED = re.compile(r"-- Process (\d{1,6}) terminated with the following error:\s*$")
_MPI_SIGNAL = re.compile(
    r"\s*(?P<who>mpirun|mpiexec|orterun|prterun|prun|oshrun) noticed that process rank "
    r"(?P<rank>\d{1,7}) with PID (?P<pid>\d{1,10}) on node (?P<host>[\w.-]{1,253}) exited on "
    r"signal (?P<signal>\d{1,3})\b"
)
_ABORT = re.compile(r"\s*MPI_ABORT was invoked on rank (\d{1,7}) in communicator MPI_COMM_WORLD\b")
_ABORT_CODE = re.compile(r"\s*(?:Proc: .*)?with errorcode (-?\d{1,6})\b")
# The two lines of these stand apart: the first one's end and the box's title open them.
_NON_ZERO = re.compile(
    r"(?:^\s{0,8}(?P<who>mpirun|mpiexec|orterun|prterun|prun|oshrun)|RuntimeError: Horovod) "
    r"detected that one or more processes exited with non-zero status"
)
_NAME = re.compile(r"\s*Process name: (?:\[[^\s]{1,200},(\d{1,7})\]|(\d{1,7}))\s*$")
_CODE = re.compile(r"\s*Exit code: {1,8}(-?\d{1,6})\s*$")
_BOX = re.compile(r"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\s*$")
_BOX_WHO = re.compile(
    r"=   (?:RANK (?P<rank>\d{1,7}) )?PID (?P<pid>\d{1,10}) RUNNING AT (?P<host>[\w.-]{1,253})\s*$"
)
_BOX_CODE = re.compile(
    r"=   (?:EXIT CODE|EXIT STATUS|KILLED BY SIGNAL): (?P<code>\d{1,5})(?: \(|\s*$)"
)
_HOROVOD = re.compile(r"Process (\d{1,7}) exit with status code (\d{1,5})\.\s*$")
_DEEPSPEED = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] \[(?:INFO|ERROR)\] \[launch\.py:\d{1,5}:\w{1,40}\] "
)
_DS_CODE = re.compile(r"exits with return code = (-?\d{1,6})\s*$")
_DS_FINE = re.compile(r"Process (\d{1,10}) exits successfully\.\s*$")
_DS_KILL = re.compile(r"Killing subprocess (\d{1,10})\s*$")
_DS_SIZE = re.compile(r"dist_world_size=(\d{1,7})\s*$")
# Those that it killed itself end with SIGTERM or SIGKILL, and may be told as the first.
_COMPOSER_CRASH = re.compile(r"\bRank (\d{1,7}) crashed with exit code (-?\d{1,6})\.")
_COMPOSER_END = re.compile(
    r"\bGlobal rank (\d{1,7}) \(PID (\d{1,10})\) exited with code (?!-15\b|-9\b)(-?\d{1,6})\s*$"
)
_COMPOSER_KILL = re.compile(
    r"\b(?:Killing|Failed to kill) global rank \d{1,7} \(PID (\d{1,10})\) with SIG(?P<forced>TERM; term)?"
)
_LIGHTNING = re.compile(
    r"Child process with PID (\d{1,10}) terminated with code (-?\d{1,6})\. Forcefully terminating "
)
_RAY = re.compile(
    r"A worker died or was killed while executing a task by an unexpected system error\."
)
_RAY_IP = re.compile(r"Worker IP address: ([\w.:-]{1,64})")
_RAY_PID = re.compile(r"Worker PID: (\d{1,10})")
# torch.distributed.launch before torch 1.9: the command is the last one started.
_OLD = "subprocess.CalledProcessError: Command '"
_OLD_END = re.compile(
    r"' (?:returned non-zero exit status (\d{1,5})|died with <Signals\.(SIG[A-Z0-9]{2,10}): \d{1,3}>)\.\s*$"
)
_SIGNALS = {
    "SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7,
    "SIGFPE": 8, "SIGKILL": 9, "SIGSEGV": 11, "SIGPIPE": 13, "SIGTERM": 15, "SIGXCPU": 24,
    "SIGSYS": 31,
}  # fmt: skip
# Each line that begins a launcher's or an agent's message has one of these.
WORDS = (
    "rocess",
    "exitcode",
    "orker group",
    "Rendezvous complete",
    "death signal",
    "SignalException",
    "APPLICATION",
    "MPI_ABORT",
    "exits with return",
    "A worker died",
    "dist_world_size",
    "crashed with exit code",
    "lobal rank ",
)
# How many lines after its title the rest of a message may stand.
_REACH = 8


def may_be_launchers(text: str) -> bool:
    """Whether a line may begin a launcher's or an agent's message: quick, for every line."""
    # A loop costs half of what `any` does.
    for word in WORDS:  # noqa: SIM110
        if word in text:
            return True
    return False


class LauncherReader:
    """Takes one stream's lines and gives what launchers say of their processes' ends."""

    def __init__(self) -> None:
        self._open = ""
        self._left = 0
        self._who: tuple[Place, int | None, int | None, str | None] | None = None

    @property
    def active(self) -> bool:
        """Whether the next lines may belong to a message that has begun."""
        return self._left > 0

    def feed(self, line: Line) -> ClosingSignal | LauncherEnd | LaunchBegan | None:
        """The event that ``line`` ends."""
        if self._left > 0:
            self._left -= 1
            if (found := self._rest(line)) is not None:
                self._left = 0
                return found
        self._begin(line)
        return _one_line(line)

    def _begin(self, line: Line) -> None:
        who = None
        if match := _NON_ZERO.search(line.text):
            self._open = match["who"] or "Horovod"
        elif _BOX.match(line.text):
            self._open = "mpiexec"
        elif match := _ABORT.match(line.text):
            self._open = "MPI_Abort"
            who = (line.place, int(match[1]), None, None)
        else:
            return
        self._left, self._who = _REACH, who

    def _rest(self, line: Line) -> LauncherEnd | None:
        text = line.text
        if self._open == "MPI_Abort":
            code = _ABORT_CODE.match(text)
        elif self._open == "mpiexec" and text.startswith("="):
            if match := _BOX_WHO.match(text):
                rank = int(match["rank"]) if match["rank"] else None
                self._who = (line.place, rank, int(match["pid"]), match["host"])
            code = _BOX_CODE.match(text)
        else:
            if match := _NAME.match(text):
                self._who = (line.place, int(match[1] or match[2]), None, None)
            code = _CODE.match(text)
        if code is None or (self._who is None and self._open != "mpiexec"):
            return None
        # The box of MPICH 3.0 and older names nobody.
        place, rank, pid, host = self._who or (line.place, None, None, None)
        return LauncherEnd(
            place,
            line.speaker,
            self._open.lower() if self._open == "Horovod" else self._open,
            _box_code(text, int(code[1])) if self._open == "mpiexec" else int(code[1]),
            rank=rank,
            host=_host(host),
            pid=pid,
            first=self._open not in ("MPI_Abort", "mpiexec"),
        )


# Hydra prints a wait status as "EXIT CODE": 9 is an exit status or a signal.
def _box_code(text: str, number: int) -> int | None:
    if "KILLED BY" in text:
        return -number
    return None if "EXIT CODE" in text and number in _SIGNALS.values() else number


def _one_line(line: Line) -> ClosingSignal | LauncherEnd | LaunchBegan | None:
    text, place, who = line.text, line.place, line.speaker
    if match := _MPI_SIGNAL.match(text):
        # A launcher that lost its daemon prints a pid of 0.
        return LauncherEnd(
            place,
            who,
            match["who"],
            -int(match["signal"]),
            rank=int(match["rank"]),
            host=_host(match["host"]),
            pid=int(match["pid"]) or None,
            first=True,
        )
    if match := _SPAWN_SIGNAL.search(text):
        number = _SIGNALS.get(match[2])
        code = None if number is None else -number
        return LauncherEnd(place, who, "spawn", code, local_rank=int(match[1]), first=True)
    if match := _SPAWN_EXIT.search(text):
        return LauncherEnd(place, who, "spawn", int(match[2]), local_rank=int(match[1]), first=True)
    if match := _SPAWN_RAISED.match(text):
        return LauncherEnd(place, who, "spawn", 1, local_rank=int(match[1]), first=True)
    if match := _HOROVOD.search(text):
        return LauncherEnd(place, who, "horovod", int(match[2]), rank=int(match[1]))
    if "ank " in text and (found := _composer(line)):
        return found
    if match := _LIGHTNING.search(text):
        return LauncherEnd(place, who, "lightning", int(match[2]), pid=int(match[1]), first=True)
    if _DEEPSPEED.match(text):
        return _deepspeed(line)
    if text.startswith(_OLD) and "--local_rank=" in text:
        ended = _OLD_END.search(text[-120:])
        code = None if ended is None else int(ended[1] or -_SIGNALS.get(ended[2], 0))
        return LauncherEnd(place, who, "torch.distributed.launch", code or None)
    if _RAY.search(text):
        host, pid = _RAY_IP.search(text), _RAY_PID.search(text)
        return LauncherEnd(
            place,
            who,
            "ray",
            None,
            host=_host(host[1]) if host else None,
            pid=int(pid[1]) if pid else None,
        )
    return None


def _composer(line: Line) -> ClosingSignal | LauncherEnd | None:
    text, place, who = line.text, line.place, line.speaker
    if match := _COMPOSER_CRASH.search(text):
        return LauncherEnd(place, who, "composer", int(match[2]), rank=int(match[1]), first=True)
    if match := _COMPOSER_END.search(text):
        rank, pid, code = (int(each) for each in match.groups())
        return LauncherEnd(place, who, "composer", code, rank=rank, pid=pid)
    if match := _COMPOSER_KILL.search(text):
        return ClosingSignal(place, who, None, int(match[1]), bool(match["forced"]))
    return None


def _deepspeed(line: Line) -> ClosingSignal | LauncherEnd | LaunchBegan | None:
    text = line.text
    if match := _DS_CODE.search(text):
        return LauncherEnd(line.place, line.speaker, "deepspeed", int(match[1]))
    if match := _DS_FINE.search(text):
        return LauncherEnd(line.place, line.speaker, "deepspeed", 0, pid=int(match[1]))
    if match := _DS_KILL.search(text):
        return ClosingSignal(line.place, line.speaker, None, int(match[1]), False)
    if _DS_SIZE.search(text):
        return LaunchBegan(line.place, line.speaker, None, "deepspeed")
    return None


def _host(name: str | None) -> str | None:
    return None if name is None or name.partition(".")[0] == "localhost" else name
