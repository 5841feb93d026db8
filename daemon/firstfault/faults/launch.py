"""What could not be started: a job, a step, a task, or the program that a script names.

A word of srun or slurmstepd is one source; that the task, the script or the job then failed is
another. A shell goes on after a command that it did not find: its word counts only where the exit
status is the one that it leaves, or where nothing else was ever said.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from firstfault.faults.launch_words import (
    exit_codes,
    job_failed,
    launch,
    ranks_ran,
    worth_of_launch,
)
from firstfault.faults.notes import notes_of_job
from firstfault.model.event import EndFacts, LaunchFailure, OomNoticed, SlurmNote, TaskEnd
from firstfault.model.fault import Fault, Proof
from firstfault.model.run import Happened, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY, POSSIBLE

CAUSE = "slurm.launch"
# "FAILED 0:53": slurmd's own number for a batch script that it could not start (no such working
# directory, no such folder for the output). scontrol's Reason, JobLaunchFailure, is no proof: it
# says so of every batch script that died of a signal.
_NOT_STARTED = 53


def launch_faults(told: Told, run: Run) -> list[Fault]:
    """At most one fault: what the job needed and what could not be started."""
    if told.facts is not None and told.facts.state == "COMPLETED":
        return []
    if _never_started(told):
        return [_of_accounting(told, run)]
    said = [each for each in run.happened if _is_jobs(each, told)]
    if any(_is_oom(each) for each in run.happened):
        # A container's start that was killed failed for that.
        said = [each for each in said if launch(each).what != "container"]
    if fatal := [each for each in said if launch(each).fatal]:
        return [_fatal_fault(fatal, told, run)]
    if words := [each for each in said if not launch(each).fatal]:
        return _words_fault(words, told, run)
    return _of_notes(told, run) or _of_code(told, run)


def _is_jobs(each: Happened, told: Told) -> bool:
    event = each.event
    if not isinstance(event, LaunchFailure):
        return False
    return event.job is None or not told.jobs or event.job in told.jobs


def _is_oom(each: Happened) -> bool:
    event = each.event
    return isinstance(event, OomNoticed) or (isinstance(event, TaskEnd) and event.kind == "oom")


def _never_started(told: Told) -> bool:
    facts = told.facts
    if facts is None:
        return _node_was_told(told) and not told.outputs
    if facts.state != "FAILED":
        return False
    return facts.exit_code is not None and facts.exit_code.signal == _NOT_STARTED


# The raw wait status: Slurm's own numbers begin at 4000, whose low bits read as this signal.
def _node_was_told(told: Told) -> bool:
    status = told.exit_status
    return status is not None and status & 0x7F == _NOT_STARTED and status > 4000


def _of_accounting(told: Told, run: Run) -> Fault:
    said = [each for each in run.happened if _is_jobs(each, told)]
    notes = [each for each in notes_of_job(told, run) if _is_launch_note(each)]
    hosts = {launch(each).host for each in said} - {None}
    # Where accounting has a row, that is quoted.
    row = told.facts is not None and told.facts.said_at is not None
    ends = [] if row else [each for each in run.happened if isinstance(each.event, EndFacts)]
    facts = _facts(said) or (("what", _noted(notes[0]) if notes else "batch"),)
    if not said and not notes and told.no_folder is not None:
        facts = (("what", "output-folder"), ("program", posixpath.dirname(told.no_folder)))
    return Fault(
        cause=CAUSE,
        key=CAUSE,
        host=hosts.pop() if len(hosts) == 1 else None,
        sources=frozenset({"accounting"} | {"slurm" for _ in said[:1]}),
        proofs=(*_proofs(said), *_proofs(notes), *_proofs(ends[:1])),
        limit=CONFIRMED if told.facts is not None else LIKELY,
        facts=facts,
    )


def _fatal_fault(said: Sequence[Happened], told: Told, run: Run) -> Fault:
    hosts = {launch(each).host for each in said}
    # "Application launch failed" follows the line that names the node.
    hosts = hosts - {None} or hosts
    ended = [
        each
        for each in run.happened
        if isinstance(each.event, TaskEnd)
        and each.event.kind == "exit"
        and (None in hosts or each.event.host in hosts)
    ]
    ran = ranks_ran(run)
    limit = worth_of_launch(said, ended, told, run)
    proofs = [*_proofs(said), *(Proof(e.event.place, e.source) for e in ended[:1])]
    return Fault(
        cause=CAUSE,
        key=CAUSE,
        host=_failed_host(hosts, said, told, run),
        sources=frozenset({"slurm"} | ({"accounting"} if job_failed(told) else set())),
        proofs=tuple(proofs),
        sure=limit != POSSIBLE and not (ran and launch(said[0]).what == "submission"),
        limit=limit,
        facts=_facts(said),
    )


# One node's line may be all that is left of many: a node is named where srun names it, where the
# job has no other, or where the batch script itself, which runs on one node, did not start.
def _failed_host(
    hosts: set[str | None], said: Sequence[Happened], told: Told, run: Run
) -> str | None:
    if len(hosts) != 1:
        return None
    host = next(iter(hosts))
    what = {launch(each).what for each in said}
    in_a_step = any(isinstance(each.event, TaskEnd) for each in run.happened)
    batch = what == {"interpreter"} and not in_a_step
    return host if "task" in what or batch or told.nodes == (host,) else None


# The last word counts: a script stops at its last command, if not before.
def _words_fault(words: Sequence[Happened], told: Told, run: Run) -> list[Fault]:
    last = words[-1]
    code = launch(last).code
    ended = [e for e in run.happened if isinstance(e.event, TaskEnd) and e.event.kind == "exit"]
    agrees = code is not None and code in exit_codes(told, run)
    if code is None and (ended or job_failed(told)) and not ranks_ran(run):
        return [_nowhere([e for e in words if launch(e).code is None], ended)]
    if ranks_ran(run) and not agrees:
        return []
    if not (agrees or last.last or job_failed(told)):
        return []
    limit = LIKELY if agrees or last.last else POSSIBLE
    if agrees and not ranks_ran(run):
        limit = CONFIRMED
    return [
        Fault(
            cause=CAUSE,
            key=CAUSE,
            host=launch(last).host or launch(last).speaker.host or _host_of(ended, code),
            sources=frozenset({"script"} | ({"accounting"} if agrees else set())),
            proofs=_proofs([last, *words[:-1]]),
            sure=limit != POSSIBLE,
            limit=limit,
            facts=_facts([last]),
        )
    ]


# slurmstepd went to /tmp instead of the working directory: what then failed had nothing there.
def _nowhere(said: Sequence[Happened], ended: Sequence[Happened]) -> Fault:
    hosts = {launch(each).host or launch(each).speaker.host for each in said}
    return Fault(
        cause=CAUSE,
        key=CAUSE,
        host=hosts.pop() if len(hosts) == 1 else None,
        sources=frozenset({"slurm"}),
        proofs=(*_proofs(said), *_proofs(ended[:1])),
        limit=LIKELY,
        facts=_facts(said),
    )


def _host_of(ended: Sequence[Happened], code: int | None) -> str | None:
    hosts = {e.event.host for e in ended if isinstance(e.event, TaskEnd) and e.event.number == code}
    return hosts.pop() if len(hosts) == 1 else None


def _of_notes(told: Told, run: Run) -> list[Fault]:
    notes = [each for each in notes_of_job(told, run) if _is_launch_note(each)]
    if not notes:
        return []
    hosts = {e.event.node for e in notes if isinstance(e.event, SlurmNote)} - {None}
    return [
        Fault(
            cause=CAUSE,
            key=CAUSE,
            host=hosts.pop() if len(hosts) == 1 else None,
            sources=frozenset({"slurm log"} | ({"accounting"} if job_failed(told) else set())),
            proofs=_proofs(notes),
            limit=CONFIRMED if job_failed(told) and not ranks_ran(run) else LIKELY,
            facts=(("what", _noted(notes[0])),),
        )
    ]


def _is_launch_note(each: Happened) -> bool:
    return _note_kind(each) in ("prolog", "launch")


def _note_kind(each: Happened) -> str:
    return each.event.kind if isinstance(each.event, SlurmNote) else ""


def _noted(each: Happened) -> str:
    if isinstance(each.event, SlurmNote) and each.event.reason is not None:
        return each.event.reason
    return "prolog" if _note_kind(each) == "prolog" else "batch"


# The node's own raw status is 126 or 127, and nobody ever said a word. sacct's text is no proof: it
# prints 255 as 127.
def _of_code(told: Told, run: Run) -> list[Fault]:
    ends = [e for e in run.happened if isinstance(e.event, EndFacts)]
    others = [e for e in run.happened if not isinstance(e.event, EndFacts | SlurmNote)]
    status = {e.event.exit_status for e in ends if isinstance(e.event, EndFacts)}
    if others or ranks_ran(run) or told.outputs or not status <= {126 << 8, 127 << 8}:
        return []
    return [
        Fault(
            cause=CAUSE,
            key=CAUSE,
            sources=frozenset({"accounting"}),
            proofs=_proofs(ends),
            limit=LIKELY,
            facts=(("what", "command"),),
        )
        for _ in ends[:1]
    ]


def _facts(said: Sequence[Happened]) -> tuple[tuple[str, str], ...]:
    if not said:
        return ()
    first = launch(said[0])
    found = [("what", first.what)]
    if first.program:
        found.append(("program", first.program))
    return tuple(found)


def _proofs(said: Sequence[Happened]) -> tuple[Proof, ...]:
    found = (Proof(e.event.place, e.source, getattr(e.event, "host", None)) for e in said[:3])
    return tuple(dict.fromkeys(found))
