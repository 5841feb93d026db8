"""Who is asked about jobs, as the configuration says."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.config import Config
from firstfault.model.slurm import JobFacts
from firstfault.slurm.facts import FactsError, SlurmFacts
from firstfault.slurm.sacct import Sacct, find


class NoSlurm:
    """Stands where Slurm is not asked: it knows no job."""

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """Nothing."""
        return {}


class MissingSacct:
    """Stands where sacct is not installed (yet): every question fails and is asked again."""

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """Raises `FactsError`."""
        raise FactsError(
            'sacct is not on PATH. Set slurm.sacct to its path, or slurm.source to "none".'
        )


def slurm_of(config: Config) -> SlurmFacts:
    """Who is asked about jobs, as configured."""
    if config.slurm.source == "none":
        return NoSlurm()
    path = find(config.slurm.sacct)
    return MissingSacct() if path is None else Sacct(path, config.slurm.timeout_s)
