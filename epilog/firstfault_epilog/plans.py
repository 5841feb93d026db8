"""From the facts of a job's end to what is looked for among its owner's files."""

import os
import re
from typing import Dict, Optional, Sequence, Tuple

from firstfault_epilog import anchors, joblogs, patterns, ranklogs
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import Job, jobs_of
from firstfault_epilog.settings import Settings

# The child stops searching this long before it is killed.
MARGIN_S = 2.0
# What all nodes see is read by so many of them.
SHARED_READERS = 2


def plan_of(
    entry: Entry,
    job: Job,
    settings: Settings,
    uid: int,
    home: Optional[str],
    started_at_s: float,
) -> joblogs.Plan:
    """What to look for among the files of the user ``uid``, whose home is ``home``."""

    def text(name: str) -> str:
        return os.fsdecode(entry.environment.get(name.encode("ascii"), b""))

    nodes = entry.value("SLURM_JOB_NODELIST") or entry.value("SLURM_NODELIST")
    known = {"j": job.id}
    if job.user and "/" not in job.user:
        known["u"] = job.user
    for letter, name in (("A", "SLURM_ARRAY_JOB_ID"), ("a", "SLURM_ARRAY_TASK_ID")):
        # No node's Epilog has them yet.
        if re.match(r"[0-9]{1,20}\Z", text(name)):
            known[letter] = text(name)
    first = patterns.first_node(nodes)
    of_batch = dict(known, J=job.id, t="0", n="0")
    if first:
        of_batch["N"] = first.split(".")[0]
    work_dir = text("SLURM_JOB_WORK_DIR")

    def places(*names: str) -> Tuple[patterns.Path, ...]:
        found = (patterns.slurm_output(name, work_dir, of_batch) for name in names)
        return tuple(place for place in found if place is not None)

    out = text("SLURM_JOB_STDOUT")
    err = text("SLURM_JOB_STDERR")
    outputs = [("output", places(out) if out else places("slurm-%j.out", "slurm-%A_%a.out"))]
    if err and err != out:
        outputs.append(("error output", places(err)))
    here = dict(known, J=job.id, N=job.node, U=str(uid), t="0", n="0")
    own = dict(known, N=job.node.split(".")[0], U=str(uid), w=work_dir, h=home or "")
    given: Tuple[patterns.Path, ...] = ()
    recorded: Tuple[patterns.Path, ...] = ()
    if settings.rank_log_dir is not None:
        given = ranklogs.places(settings.rank_log_dir, jobs_of(entry), job.node)
        recorded = ranklogs.dumps(settings.rank_log_dir, jobs_of(entry), job.node)
    restarts = entry.value("SLURM_JOB_RESTART_COUNT") or ""
    return joblogs.Plan(
        job=job.id,
        uid=uid,
        started_at_s=started_at_s,
        start_known=job.started_at_s is not None,
        ended_at_s=job.ended_at_s,
        outputs=tuple(outputs),
        rank_logs=tuple((patterns.site_glob(g, here), "%N" in g) for g in settings.rank_logs),
        anchors=anchors.read(),
        seconds=max(1.0, settings.read_deadline_s - MARGIN_S),
        step_logs=_globs(settings.step_logs, own, job),
        dumps=(
            *(joblogs.Glob(place, True, True) for place in recorded),
            *_globs(settings.dumps, own, job),
        ),
        reads_shared=job.node in (patterns.first_nodes(nodes, SHARED_READERS) or (job.node,)),
        given_logs=given,
        restarts=int(restarts) if re.match(r"[0-9]{1,6}\Z", restarts) else None,
    )


# A glob that names the job finds no other's file.
def _globs(texts: Sequence[str], known: Dict[str, str], job: Job) -> Tuple[joblogs.Glob, ...]:
    found = ((text, patterns.step_log(text, known)) for text in texts)
    return tuple(
        joblogs.Glob(place, "%N" in text, re.search("%[0-9]*[jJ]", text) is not None)
        for text, place in found
        if place is not None
    )
