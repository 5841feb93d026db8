"""Slurm's facts through pyslurm, the binding of Slurm's own library, in a process of its own.

Written from pyslurm 25.11.2. It tells of a job's last incarnation only, and of a window all jobs,
whatever became of them.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from firstfault.model.slurm import JobFacts
from firstfault.readers.pyslurm_job import job_facts
from firstfault.readers.stdio import with_paths
from firstfault.slurm.facts import BAD_ENDS, FactsError, is_begun, of_nobody, with_all_gpus
from firstfault.slurm.worker import Worker, WorkerError

CAP_BYTES = 64 * 1024 * 1024
BATCH = 500
# Older versions leak a little with every question (pyslurm issue 60, mended by 25.5).
QUESTIONS = 100
PROGRAM = Path(__file__).with_name("pyslurm_worker.py")


class Answer(msgspec.Struct, frozen=True):
    """A line of the worker's."""

    jobs: list[dict[str, object]] = []
    error: str | None = None


class Library:
    """Asks pyslurm. ``clusters`` are asked about, none: the one that slurm.conf names.

    ``argv`` is the worker, for a Python or a pyslurm of another place.
    """

    def __init__(
        self, timeout_s: float, clusters: Sequence[str] = (), argv: Sequence[str] = ()
    ) -> None:
        self.clusters = list(clusters)
        command = argv or (sys.executable, "-I", str(PROGRAM))
        self._worker = Worker(command, _environment(), timeout_s, CAP_BYTES, QUESTIONS)

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """See `firstfault.slurm.facts.SlurmFacts`; of each job the last incarnation only."""
        wrong = [job for job in job_ids if not (job.isascii() and job.isdigit() and len(job) < 21)]
        if wrong:
            raise FactsError(f"not a job id: {wrong[0][:40]!r}")
        found: dict[str, list[JobFacts]] = {}
        unique = sorted(set(job_ids))
        for start in range(0, len(unique), BATCH):
            batch = unique[start : start + BATCH]
            for facts in with_all_gpus(self._ask({"ids": [int(job) for job in batch]})):
                if is_begun(facts):
                    found.setdefault(facts.raw_id or facts.id, []).append(facts)
        return {job: found[job] for job in unique if job in found}

    def ended(self, since: dt.datetime, until: dt.datetime) -> list[JobFacts]:
        """See `firstfault.slurm.facts.SlurmFacts`; of each job the last incarnation only."""
        window = {"start": int(since.timestamp()), "end": math.ceil(until.timestamp())}
        return [
            of_nobody(facts)
            for facts in self._ask(window)
            if facts.state in BAD_ENDS
            and facts.ended_at is not None
            and since <= facts.ended_at <= until
        ]

    def close(self) -> None:
        """Ends the process."""
        self._worker.close()

    def _ask(self, question: Mapping[str, object]) -> list[JobFacts]:
        line = msgspec.json.encode({**question, "clusters": self.clusters})
        try:
            answer = msgspec.json.decode(self._worker.ask(line), type=Answer)
        except WorkerError as error:
            raise FactsError(f"pyslurm: {error}. {_REMEDY}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise FactsError(f"pyslurm: what it answered cannot be read: {error}") from error
        if answer.error is not None:
            raise FactsError(f"pyslurm: {answer.error}. Is slurmdbd up (sacctmgr ping)?")
        return [with_paths(job_facts(job)) for job in answer.jobs]


_REMEDY = (
    'Does it fit this Slurm (python -c "import pyslurm")? slurm.source = "sacct" does without.'
)


def is_installed() -> bool:
    """True where pyslurm is installed; whether it works, only a question tells."""
    return importlib.util.find_spec("pyslurm") is not None


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
    return {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"} | kept
