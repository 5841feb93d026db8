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
| teardown | a process crashed after it was told to stop | any |
"""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.faults.processes import proof
from firstfault.faults.slurm import stop_of
from firstfault.model.event import AgentSignalled, StepEnded, TaskEnd, Traceback
from firstfault.model.fault import Effect
from firstfault.model.run import Happened, Run
from firstfault.signatures import meaning

# How the report counts each kind: one and many.
WORDING = {
    "peer-lost": ("rank lost a peer", "ranks lost a peer"),
    "waited": ("rank waited in vain for its peers", "ranks waited in vain for their peers"),
    "stopped": ("process was told to stop", "processes were told to stop"),
    "ended-by-agent": ("rank was ended by its agent", "ranks were ended by their agents"),
    "terminated": ("rank was terminated", "ranks were terminated"),
    "agent-stopped": ("agent was told to stop", "agents were told to stop"),
    "step-ended": ("note that the step was ended", "notes that the step was ended"),
    "task-ended": ("task's end noted by srun", "tasks' ends noted by srun"),
    "launcher": ("report of the launcher", "reports of launchers"),
    "teardown": ("crash while shutting down", "crashes while shutting down"),
    "unlogged": (
        "rank ended with an error that was not captured",
        "ranks ended with errors that were not captured",
    ),
}


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
        elif isinstance(event, TaskEnd):
            yield Effect("task-ended", proof(each), count=max(1, len(event.tasks)))
        elif isinstance(event, Traceback) and each.process is None and is_launchers(each):
            yield Effect("launcher", proof(each))


def is_launchers(each: Happened) -> bool:
    """Whether a traceback is the launcher's own: an envelope, or its order to stop."""
    event = each.event
    if not isinstance(event, Traceback):
        return False
    found = meaning("exception", f"{event.type}: {event.message}")
    return found is not None and found.means in ("launcher", "stopped")
