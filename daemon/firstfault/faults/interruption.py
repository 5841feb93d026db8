"""SIGINT, SIGHUP or SIGTERM from outside the launcher: a person, a closed terminal, a program."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.faults.death import Death
from firstfault.faults.processes import proof
from firstfault.faults.signals import exit_signal, signal_name
from firstfault.model.event import AgentSignalled, Cancelled, ExitNoticed, StepEnded, Traceback
from firstfault.model.fault import Fault
from firstfault.model.run import Happened, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY, POSSIBLE

_SIGNALS = frozenset({1, 2, 15})


def interruption(told: Told, run: Run, deaths: Sequence[Death]) -> list[Fault]:
    """The signal that ended a run in which nothing failed by itself and Slurm ended nothing.

    A rank that got a signal which its agent did not send is named; an agent that did names no
    rank.
    """
    if any(isinstance(each.event, Cancelled | StepEnded) for each in run.happened):
        return []
    lone = [d for d in deaths if exit_signal(d.exit_code) in _SIGNALS and not d.closed]
    agents = [each for each in run.happened if isinstance(each.event, AgentSignalled)]
    if len(lone) == 1 and not agents:
        return [_of_rank(lone[0], told)]
    pressed = [each for each in run.happened if _is_interrupt(each)]
    numbers = {e.event.signal for e in agents if isinstance(e.event, AgentSignalled)}
    numbers |= {2 for _ in pressed[:1]}
    if len(numbers) != 1:
        return []
    number = numbers.pop()
    seen = [*agents, *pressed]
    return [
        Fault(
            cause="process.interrupted",
            key=f"signal {number}",
            sources=frozenset({"agent" for _ in agents[:1]} | {"rank" for _ in pressed[:1]}),
            proofs=tuple(dict.fromkeys(proof(each) for each in seen))[:3],
            limit=_worth(number, agents, pressed, told),
            facts=(("signal", signal_name(number)),),
        )
    ]


def _is_interrupt(each: Happened) -> bool:
    return isinstance(each.event, Traceback) and each.event.type == "KeyboardInterrupt"


# SIGTERM is also what Slurm, a cloud and a container's manager send to a job that they end.
def _worth(number: int, agents: Sequence[Happened], pressed: Sequence[Happened], told: Told) -> str:
    if number == 15:
        return LIKELY if told.facts is not None and told.facts.state == "FAILED" else POSSIBLE
    return CONFIRMED if agents and (pressed or len(agents) > 1) else LIKELY


def _of_rank(death: Death, told: Told) -> Fault:
    number = exit_signal(death.exit_code) or 0
    failed = told.facts is not None and told.facts.state == "FAILED"
    # A table lists those too that their agent ended, and may be cut before it tells why.
    noticed = any(isinstance(each.event, ExitNoticed) for each in death.exits)
    return Fault(
        cause="process.interrupted",
        key=f"signal {number}",
        process=death.process,
        host=death.process.host,
        at=death.noticed_at,
        sources=frozenset({"agent"}),
        proofs=tuple(dict.fromkeys(proof(each) for each in death.exits[:2])),
        limit=CONFIRMED if failed and noticed and not told.absent else LIKELY,
        pid=death.process.pid,
        facts=(("signal", signal_name(number)),),
    )
