"""Who is asked about jobs, as the configuration says."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Sequence

from firstfault.app.journal import say
from firstfault.config import Config
from firstfault.model.slurm import JobFacts
from firstfault.slurm import library
from firstfault.slurm.facts import FactsError, SlurmFacts
from firstfault.slurm.library import Library
from firstfault.slurm.sacct import Sacct, find

# After pyslurm has failed, sacct is asked alone for so long.
REST_S = 300.0


class NoSlurm:
    """Stands where Slurm is not asked: it knows no job."""

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """Nothing."""
        return {}

    def ended(self, since: dt.datetime, until: dt.datetime) -> list[JobFacts]:
        """Nothing."""
        return []


class MissingSacct:
    """Stands where sacct is not installed (yet): every question fails and is asked again."""

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """Raises `FactsError`."""
        raise self._error()

    def ended(self, since: dt.datetime, until: dt.datetime) -> list[JobFacts]:
        """Raises `FactsError`."""
        raise self._error()

    def _error(self) -> FactsError:
        return FactsError(
            'sacct is not on PATH. Set slurm.sacct to its path, or slurm.source to "none".'
        )


class Either:
    """Asks pyslurm, and sacct for what that cannot tell: a job that it leaves out, a requeued
    job's earlier ends, a window, anything while it does not answer."""

    def __init__(self, first: SlurmFacts, second: SlurmFacts, rest_s: float = REST_S) -> None:
        self._first = first
        self._second = second
        self._rest_s = rest_s
        self._rests_until = 0.0

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """See `firstfault.slurm.facts.SlurmFacts`."""
        found = self._of_first(job_ids)
        if found is None:
            return self._second.facts(job_ids)
        again = [job for job in job_ids if job not in found or any(f.restarts for f in found[job])]
        return found | (self._second.facts(again) if again else {})

    def ended(self, since: dt.datetime, until: dt.datetime) -> list[JobFacts]:
        """See `firstfault.slurm.facts.SlurmFacts`."""
        return self._second.ended(since, until)

    def _of_first(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]] | None:
        if time.monotonic() < self._rests_until:
            return None
        try:
            return self._first.facts(job_ids)
        except FactsError as error:
            self._rests_until = time.monotonic() + self._rest_s
            say(logging.WARNING, "pyslurm-not-answering", rest_s=self._rest_s, error=error)
            return None


def slurm_of(config: Config) -> SlurmFacts:
    """Who is asked about jobs, as configured."""
    slurm = config.slurm
    if slurm.source == "none":
        return NoSlurm()
    path = find(slurm.sacct)
    sacct = MissingSacct() if path is None else Sacct(path, slurm.timeout_s, slurm.clusters)
    if slurm.source == "sacct" or (slurm.source == "auto" and not library.is_installed()):
        return sacct
    bound = Library(slurm.timeout_s, slurm.clusters)
    return bound if slurm.source == "pyslurm" or path is None else Either(bound, sacct)
