"""The table of effects: what a fault's consequences look like, and where they show.

| kind | what it is | whose fault explains it |
|---|---|---|
| peer-lost | a rank's connection to a peer broke | any process's, any node's |
| waited | a rank waited in vain for its peers | any process's, any node's |
| stopped | Python code was told to stop | any |
| ended-by-agent | an agent ended its other ranks (SIGTERM, then SIGKILL) | a rank's of that agent, or what ended the agent |
| terminated | SIGTERM from elsewhere: srun's or Slurm's | any, Slurm's own too |
| agent-stopped | srun or Slurm told an agent to stop | any, Slurm's own too |
| step-ended | slurmstepd ended the step, no reason given | any |
| task-ended | srun noted the end of a task | any |
| launcher | the launcher's own report of its ranks | any |
| teardown | a process failed while or after the job was being ended | any |
| repeated | a process failed as another had before it | the same fault in another process |
| unlogged | a process ended badly, its own words were not captured | not known |
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from firstfault.faults.processes import proof
from firstfault.faults.slurm import stop_of
from firstfault.model.event import AgentSignalled, StepEnded, TaskEnd, Traceback
from firstfault.model.fault import Effect
from firstfault.model.run import Happened, Run
from firstfault.readers.elastic import of_agent
from firstfault.signatures import meaning_of_exception


class Wording(msgspec.Struct, frozen=True):
    """``many`` is what a count counts; ``one`` stands after the name of whom it happened to."""

    many: str
    one: str


# In the order in which the report tells them.
WORDING = {
    "peer-lost": Wording("ranks that lost a peer", "lost a peer"),
    "waited": Wording("ranks that waited in vain for their peers", "waited in vain for its peers"),
    "stopped": Wording("processes that were told to stop", "was told to stop"),
    "ended-by-agent": Wording("ranks that their agent ended", "was ended by its agent"),
    "terminated": Wording("ranks that got SIGTERM", "got SIGTERM"),
    "agent-stopped": Wording("agents that were told to stop", "the agent was told to stop"),
    "step-ended": Wording("notes that the step was ended", "the step was ended"),
    "task-ended": Wording("tasks whose end srun noted", "srun noted the end of a task"),
    "launcher": Wording("launchers' own reports", "the launcher reported its failed ranks"),
    "teardown": Wording(
        "processes that failed as the job was ended", "failed as the job was ended"
    ),
    "repeated": Wording("ranks that failed the same way later", "failed the same way later"),
    "unlogged": Wording(
        "ranks whose own words were not captured", "ended with an error that was not captured"
    ),
}


# An agent's link to the store breaks when the agent that holds the store is gone.
_STORE_LOST = re.compile(r"(?:Dist(?:Network|Store)?Error|RendezvousConnectionError)$")


def launcher_and_slurm(run: Run) -> Iterator[Effect]:
    """The effects that are no rank's: agents, steps, srun's notes."""
    agents: set[tuple[str, int | None]] = set()
    for each in run.happened:
        event = each.event
        if isinstance(event, AgentSignalled):
            key = (event.place.document, event.speaker.task)
            if event.speaker.task is None or key not in agents:
                agents.add(key)
                yield Effect("agent-stopped", proof(each), at=event.at)
        elif isinstance(event, StepEnded) or stop_of(each):
            yield Effect("step-ended", proof(each), at=getattr(event, "at", None))
        elif isinstance(event, TaskEnd) and each.process is None:
            yield Effect("task-ended", proof(each), count=max(1, len(event.tasks)))
        elif isinstance(event, Traceback) and each.process is None and is_launchers(each):
            yield Effect("launcher", proof(each))


def is_launchers(each: Happened) -> bool:
    """Whether a traceback only reports: an envelope, an order to stop, or a link to a lost store."""
    event = each.event
    if not isinstance(event, Traceback):
        return False
    found = meaning_of_exception(event.type, event.message)
    if found is None or found.id == "peer.store-errno":
        return is_agents(event) and bool(_STORE_LOST.search(event.type))
    return found.means in ("launcher", "stopped")


def is_agents(event: Traceback) -> bool:
    """Whether the traceback is of torchrun or its agent, not of a rank."""
    return of_agent(event.frames)
