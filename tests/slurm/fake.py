"""Slurm's accounting as the tests set it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from firstfault.model.slurm import JobFacts
from firstfault.slurm.facts import BAD_ENDS, FactsError


class FakeSlurm:
    """Answers with ``known``, or fails while ``down``; ``asked`` and ``windows`` keep each question."""

    def __init__(self) -> None:
        self.known: dict[str, list[JobFacts]] = {}
        self.down = False
        self.asked: list[list[str]] = []
        self.windows: list[tuple[dt.datetime, dt.datetime]] = []

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        self.asked.append(list(job_ids))
        if self.down:
            raise FactsError("slurmdbd is down")
        return {job: self.known[job] for job in job_ids if job in self.known}

    def ended(self, since: dt.datetime, until: dt.datetime) -> list[JobFacts]:
        self.windows.append((since, until))
        if self.down:
            raise FactsError("slurmdbd is down")
        return [
            facts
            for incarnations in self.known.values()
            for facts in incarnations
            if facts.state in BAD_ENDS
            and facts.ended_at is not None
            and since <= facts.ended_at <= until
        ]
