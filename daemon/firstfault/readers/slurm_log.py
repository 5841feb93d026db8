"""slurmctld's and slurmd's logs: what Slurm's daemons noted of jobs, steps and nodes.

Formats as in Slurm 20.11 to 26.05: src/slurmctld/job_mgr.c (``_job_complete``, ``Killing ... on
failed node``, ``Time limit exhausted``), ping_nodes.c (``not responding, setting DOWN``),
node_scheduler.c, preempt.c, src/slurmd/slurmd/req.c and src/slurmd/slurmstepd/mgr.c; the head of a
line as src/common/log.c writes it (every LogTimeFormat with a year), as journald and syslog show
it, and as ``slurmctld -D`` prints it. Checked against the logs of a real 22.05.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.model.document import Document
from firstfault.model.event import SlurmNote
from firstfault.model.line import Line, Place, Span, Speaker
from firstfault.readers import nodelist
from firstfault.readers.launch import launch_failure
from firstfault.readers.times import Zone, moment
from firstfault.streams.lines import raw_lines

# "[2026-11-30T22:00:58.238] ", "... ctl1 slurmctld[812]: ", "slurmctld: "
_HEAD = re.compile(
    r"(?:\[(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?:Z|[+-]\d\d:?\d\d)?\] |"
    r"(?P<sys>[^\[\]]{1,64}? )?(?P<host>[\w.-]{1,253} )?slurm(?:ctld|d|stepd)(?:-[\w.-]{1,253})?"
    r"(?:\[\d{1,10}\])?: )"
)
_STEP = re.compile(r"\[(?P<job>\d{1,19})\.(?P<step>[\w+]{1,40})\] ")
_LEVEL = re.compile(r"(?:error|info|verbose|debug\d?|fatal|sched/\w{1,40}|sched): ")
# What only Slurm's daemons write; a job's output may hold their "*** JOB 12 ON n1 CANCELLED" too.
_TELLING = re.compile(
    r"_slurm_rpc_|sched: |backfill|_job_complete: |JobId=\d|launch task |Launching batch job \d|"
    r"\] \[\d{1,19}\.\w|cleanup_completing|REQUEST_KILL_JOB|not responding|Registering slurmctld|"
    r"slurm(?:ctld|d) version|task/cgroup: |Running as primary controller"
)
_JOB = r"[Jj]ob(?:Id)?[= ](?P<job>\d{1,19})(?:[_+][\w*\[\],-]{1,40})?(?:\((?P<raw>\d{1,19})\))?"
_NODE = r"(?P<node>[\w.,\[\]-]{1,4000})"
_NOTES = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("time-limit", rf"Time limit exhausted for {_JOB}"),
        ("launch", rf"_job_complete: {_JOB} WTERMSIG (?P<number>53)\b"),
        ("cancelled", rf"_job_complete: {_JOB} (?P<reason>cancelled by interactive user)"),
        ("node-failure", rf"_job_complete: {_JOB} cancelled by node failure"),
        ("signal", rf"_job_complete: {_JOB} WTERMSIG (?P<number>\d{{1,3}})"),
        ("exit", rf"_job_complete: {_JOB} WEXITSTATUS (?P<number>\d{{1,3}})"),
        ("oom", rf"_job_complete: {_JOB} OOM failure"),
        ("node-failure", rf"[Rr]equeue (?:job )?{_JOB} due to failure of node {_NODE}"),
        ("node-failure", rf"[Rr]equeue (?:job )?{_JOB} due to node failure"),
        ("node-failure", rf"Killing {_JOB} on (?:failed|DOWN) node {_NODE}"),
        ("node-failure", rf"Removing failed node {_NODE} from {_JOB}"),
        ("node-down", rf"Nodes? {_NODE} not responding, setting DOWN"),
        ("boot", rf"(?:n|N)ode {_NODE} not resumed by ResumeTimeout"),
        ("preempted", rf"preempted {_JOB} (?:has been (?:killed|requeued)|had to be killed)"),
        ("kill-request", rf"REQUEST_KILL_JOB {_JOB} uid (?P<uid>\d{{1,10}})"),
        ("requeued", rf"Requeuing {_JOB}"),
        ("prolog", rf"Prolog launch failure, {_JOB}"),
        ("prolog", rf"prolog_slurmctld {_JOB} (?:prolog exit status (?!0:0)|failed)"),
        ("prolog", r"\[job (?P<job>\d{1,19})\] prolog failed status="),
        ("launch", rf"Could not launch {_JOB} and not able to requeue it"),
        ("launch", rf"Killing non-startable batch {_JOB}"),
        ("memory-poll", rf"{_JOB} exceeded (?:virtual )?memory limit \("),
        ("memory-poll", r"StepId=(?P<job>\d{1,19})\S{0,60} exceeded (?:virtual )?memory limit \("),
        (
            "oom",
            r"Detected \d{1,9} oom[-_]kill events?(?:\(s\))? in (?:StepId=|step )(?P<job>\d{1,19})",
        ),
        (
            "time-limit",
            r"\*\*\* (?:JOB|STEP) (?P<job>\d{1,19})\S{0,60} ON .{1,300} DUE TO TIME LIMIT",
        ),
        (
            "preempted",
            r"\*\*\* (?:JOB|STEP) (?P<job>\d{1,19})\S{0,60} ON .{1,300} DUE TO PREEMPTION",
        ),
        (
            "node-failure",
            r"\*\*\* (?:JOB|STEP) (?P<job>\d{1,19})\S{0,60} ON .{1,300} DUE TO NODE FAIL",
        ),
        ("cancelled", r"\*\*\* JOB (?P<job>\d{1,19}) ON [\w.-]{1,253} CANCELLED AT \S{19} \*\*\*"),
        ("signal", r"task \d{1,9} \(\d{1,10}\) exited\. Killed by signal (?P<number>\d{1,3})"),
        ("exit", r"task \d{1,9} \(\d{1,10}\) exited with exit code (?P<number>[1-9]\d{0,2})"),
    )
)
# A line without these is no note: most lines of a log are none.
_WORDS = re.compile(
    r"Time limit|_job_complete|due to|failed node|DOWN|ResumeTimeout|preempted|REQUEST_KILL|Requeuing|"
    r"[Pp]rolog|launch|non-startable|memory limit|oom|\*\*\*|exited|execve|chdir|Could not open|"
    r"start container|failed with rc"
)
_LONGEST = 4_096
_MOST_NODES = 64


def looks_like_slurm_log(head: str) -> bool:
    """Whether a file that begins with ``head`` is a log of slurmctld or slurmd."""
    lines = [line for line in head.split("\n")[:200] if line.strip()]
    headed = [line for line in lines if _HEAD.match(line[:_LONGEST])]
    telling = sum(_TELLING.search(line[:_LONGEST]) is not None for line in headed)
    return telling > 0 and 2 * len(headed) >= len(lines)


def slurm_notes(document: Document, zone: Zone) -> Iterator[SlurmNote]:
    """The notes in a daemon's log, in the order of its lines."""
    for place, text in raw_lines(document):
        head = _HEAD.match(text[:_LONGEST])
        if head is None or not _WORDS.search(text, 0, _LONGEST):
            continue
        yield from _notes(place, text[head.end() : _LONGEST], _span(head, zone), document.host)


def _span(head: re.Match[str], zone: Zone) -> Span | None:
    at = moment(head["time"] or "", zone)
    return None if at is None else Span(at, at)


def _notes(place: Place, text: str, at: Span | None, host: str | None) -> Iterator[SlurmNote]:
    step = _STEP.match(text)
    message = text[step.end() :] if step else text
    if level := _LEVEL.match(message):
        message = message[level.end() :]
    for kind, pattern in _NOTES:
        match = pattern.search(message)
        if match is not None:
            yield from _of_match(place, at, kind, match, step, host)
            return
    if step is not None and level is not None:
        # What slurmstepd says to the job, it says here without its name.
        line = Line(place, Speaker(), f"slurmstepd: error: {message}")
        if (failure := launch_failure(line)) and failure.fatal:
            yield SlurmNote(
                place, at, "launch", host, step["job"], step["step"], reason=failure.what
            )


def _of_match(
    place: Place,
    at: Span | None,
    kind: str,
    match: re.Match[str],
    step: re.Match[str] | None,
    host: str | None,
) -> Iterator[SlurmNote]:
    named = match.groupdict()
    job = named.get("raw") or named.get("job") or (step["job"] if step else None)
    number, uid = named.get("number"), named.get("uid")
    own = host if step is not None or kind in ("prolog", "memory-poll") else None
    for node in _nodes(named.get("node")) or (own,):
        yield SlurmNote(
            place,
            at,
            kind,
            node,
            job,
            step["step"] if step else None,
            None if number is None else int(number),
            None if uid is None else int(uid),
            named.get("reason"),
        )


def _nodes(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        return nodelist.expand(text)[:_MOST_NODES]
    except nodelist.NodeListError:
        return ()
