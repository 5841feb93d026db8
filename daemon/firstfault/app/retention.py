"""Keeping the store within its limits: old evidence, old jobs, old reports, too much of all."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from firstfault.app import counters
from firstfault.app.journal import say
from firstfault.config import Config
from firstfault.deliver import files
from firstfault.store import explained, retention
from firstfault.store.database import Database
from firstfault.store.retention import Removed

# Between steps others write.
PAUSE_S = 0.05
JOBS_AT_ONCE = 100


class Retention:
    """One pass removes what is past its time, step by step, until ``stop`` is set."""

    def __init__(self, config: Config, database: Database, stop: threading.Event) -> None:
        self._config = config
        self._database = database
        self._stop = stop

    def once(self, now: dt.datetime) -> int:
        """Removes all that is due; returns how many records, jobs and reports that was."""
        store = self._config.store
        done = self._jobs(now - dt.timedelta(days=store.keep_verdicts_days))
        before = now - dt.timedelta(days=store.keep_evidence_days)
        done += self._evidence(
            "age", lambda: retention.remove_evidence(self._database, before, now)
        )
        if store.max_evidence_bytes:
            done += self._excess(store.max_evidence_bytes, now)
        return done + self._explained(now - dt.timedelta(days=self._config.explain.keep_days))

    def _excess(self, most: int, now: dt.datetime) -> int:
        excess = retention.evidence_size(self._database) - most
        done = 0

        def remove() -> Removed:
            nonlocal excess
            if excess <= 0:
                return Removed()
            removed = retention.remove_oldest_evidence(self._database, now)
            excess -= removed.size
            return removed

        done = self._evidence("size", remove)
        if excess > 0 and not self._stop.is_set():
            # What is left is open. It is never given up.
            say(logging.WARNING, "evidence-over-limit", excess=excess, most=most)
        return done

    def _evidence(self, why: str, remove: Callable[[], Removed]) -> int:
        records = size = 0
        jobs: set[str] = set()
        while not self._stop.is_set():
            removed = remove()
            if removed.job is None:
                break
            jobs.add(removed.job)
            records += removed.records
            size += removed.size
            counters.EVIDENCE_REMOVED.labels(why).inc(removed.records)
            self._stop.wait(PAUSE_S)
        if records:
            say(
                logging.INFO,
                "evidence-removed",
                why=why,
                jobs=len(jobs),
                records=records,
                bytes=size,
            )
        return records

    def _explained(self, before: dt.datetime) -> int:
        done = 0
        while not self._stop.is_set():
            removed = explained.remove(self._database, before)
            if not removed:
                break
            done += removed
            self._stop.wait(PAUSE_S)
        if done:
            say(logging.INFO, "explained-removed", count=done)
        return done

    def _jobs(self, before: dt.datetime) -> int:
        folder = Path(self._config.report.dir)
        done = 0
        while not self._stop.is_set():
            found = retention.expired(self._database, before, JOBS_AT_ONCE)
            for job in found:
                # First the file: what a crash leaves is found again by its row.
                files.remove(folder, job.cluster, job.job, job.incarnation)
                while (
                    retention.remove_job(self._database, job).records == retention.STEP
                    and not self._stop.is_set()
                ):
                    self._stop.wait(PAUSE_S)
                done += 1
                counters.JOBS_REMOVED.inc()
                if self._stop.wait(PAUSE_S):
                    break
            if len(found) < JOBS_AT_ONCE:
                break
        if done:
            say(logging.INFO, "jobs-removed", count=done)
        return done
