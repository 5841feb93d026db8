"""The rank that its peers wait for, by the stacks of all.

Stacks are dumped while a job hangs (faulthandler's timer or signal, py-spy). Where the others stand
in a collective of torch and one stands elsewhere, that one has not arrived. A job at work has such
moments too: the dumps count only where the job hung by its last words, or where each process stood
in the same place at its dump before. A dump after which a step was counted is none
(`firstfault.readers.output`).
"""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.faults.processes import proof
from firstfault.model.event import Frame, Stack
from firstfault.model.fault import Fault
from firstfault.model.run import Happened, Process, Run
from firstfault.model.verdict import LIKELY
from firstfault.readers.elastic import of_agent

STUCK = "process.stuck"
# Where a rank waits for its peers: a collective's own frame; a backward pass, of which C++ sends
# and awaits the gradients; a device that runs the collective.
_COLLECTIVES = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/_functional_collectives.py",
    "torch/distributed/nn/functional.py",
)
_MAY_WAIT = (
    "torch/autograd/__init__.py",
    "torch/autograd/graph.py",
    "torch/cuda/__init__.py",
    "torch/cuda/streams.py",
)
# Before its group is there, a rank waits in these.
_JOINING = ("init_process_group", "_store_based_barrier", "_new_process_group_helper", "new_group")
_LONGEST = 80
_PAIR = 2


def standing_faults(run: Run, *, hung: bool) -> list[Fault]:
    """The one rank, or the few, that stand elsewhere than their peers, who wait in a collective.

    ``hung`` is whether the job is known to have hung.
    """
    stacks = _stacks(run)
    if not _are_all(run, stacks) or not (hung or _all_stand(stacks)):
        return []
    last = {who: dumps[-1] for who, dumps in stacks.items()}
    waiting = [who for who in last if _waits(last[who])]
    away = [who for who in last if not _waits(last[who]) and not _may_wait(last[who])]
    if not away or not waiting or (len(last) > _PAIR and 2 * len(away) >= len(last)):
        return []
    return [_fault(away, waiting, last)]


def waits(frames: Sequence[Frame]) -> bool:
    """Whether a stack stands in a collective of torch."""
    return any(frame.file.endswith(_COLLECTIVES) for frame in frames) and not any(
        frame.function in _JOINING for frame in frames
    )


def may_wait(frames: Sequence[Frame]) -> bool:
    """Whether a stack that is in no collective may wait for its peers all the same."""
    return any(frame.file.endswith(_MAY_WAIT) for frame in frames)


def place(frames: Sequence[Frame]) -> str:
    """The innermost frame of the program's own, with the library's that it is in, if it is in one."""
    own = [f for f in frames if "site-packages" not in f.file and "/lib/python" not in f.file]
    frame = own[-1] if own else frames[-1]
    name = frame.function if len(frame.function) <= _LONGEST else f"{frame.function[:_LONGEST]}…"
    inner = frames[-1]
    inside = f", in {inner.function}" if inner != frame and len(inner.function) <= _LONGEST else ""
    return f"{name} ({frame.file.rpartition('/')[2]}:{frame.line}){inside}"


def shared_place(run: Run) -> str | None:
    """Where all ranks stood by their last dumps, if that was one place and no collective."""
    last = {who: dumps[-1] for who, dumps in _stacks(run).items()}
    places = {_where(each) for each in last.values()}
    if len(last) < _PAIR or len(places) > 1 or any(map(_waits, last.values())):
        return None
    return places.pop()


def _fault(
    away: Sequence[Process],
    waiting: Sequence[Process],
    last: dict[Process, Happened],
) -> Fault:
    who = away[0] if len(away) == 1 else None
    lines = [last[each] for each in (*away[:2], *waiting[:2])]
    where = _where(lines[0])
    return Fault(
        cause=STUCK,
        key=f"stands {where}",
        process=who,
        host=who.host if who else None,
        candidates=() if who else tuple(away),
        sources=frozenset({"rank", "stacks"}),
        proofs=tuple(dict.fromkeys(proof(each) for each in lines)),
        rank_sure=who is not None,
        limit=LIKELY,
        pid=who.pid if who else None,
        facts=(("where", where), ("waiting", str(len(waiting)))),
    )


# Each process's dumps, in their order.
def _stacks(run: Run) -> dict[Process, list[Happened]]:
    found: dict[Process, list[Happened]] = {}
    for each in run.happened:
        stack = each.event
        if not isinstance(stack, Stack) or of_agent(stack.frames):
            continue
        who = each.process
        if who is None and stack.pid is not None and stack.speaker.host is not None:
            who = Process(run.attempt, host=stack.speaker.host, pids=(stack.pid,))
        if who is not None:
            found.setdefault(who, []).append(each)
    return found


def _frames(each: Happened) -> tuple[Frame, ...]:
    return each.event.frames if isinstance(each.event, Stack) else ()


# Of a rank that was not seen, nobody knows whether it is the one that all wait for.
def _are_all(run: Run, stacks: dict[Process, list[Happened]]) -> bool:
    heard = {process for process in run.roster if process.lines is not None}
    return heard <= set(stacks) and len(stacks) >= max(_PAIR, run.expected_ranks or 0)


# Whether each process stood in the same place at two dumps.
def _all_stand(stacks: dict[Process, list[Happened]]) -> bool:
    return all(
        len(dumps) > 1 and _frames(dumps[-1]) == _frames(dumps[-2]) for dumps in stacks.values()
    )


def _waits(each: Happened) -> bool:
    return waits(_frames(each))


def _may_wait(each: Happened) -> bool:
    return not _waits(each) and may_wait(_frames(each))


def _where(each: Happened) -> str:
    return place(_frames(each))
