"""Slurm's accounting as the tests set it."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.model.slurm import JobFacts
from firstfault.slurm.facts import FactsError


class FakeSlurm:
    """Answers with ``known``, or fails while ``down``; ``asked`` keeps each question."""

    def __init__(self) -> None:
        self.known: dict[str, list[JobFacts]] = {}
        self.down = False
        self.asked: list[list[str]] = []

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        self.asked.append(list(job_ids))
        if self.down:
            raise FactsError("slurmdbd is down")
        return {job: self.known[job] for job in job_ids if job in self.known}
