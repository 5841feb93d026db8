"""Slurm's facts from `sacct`: works with every version that has accounting.

Read from sacct(1) and sacct's source at 22.05.8 to 25.11.7: the parsable output escapes nothing,
so that the delimiter is a random text that no job name can hold, and each record ends with it;
`-D` shows every incarnation of a requeued job; `-j` with a list is one question to slurmdbd;
`--state` with both ends of a window selects by the end's time. Times are asked in UTC.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import secrets
import shutil
import threading
from collections.abc import Collection, Sequence
from pathlib import Path

from firstfault.model.slurm import JobFacts
from firstfault.readers.sacct import parse_records
from firstfault.readers.stdio import with_paths
from firstfault.slurm.command import Output, run
from firstfault.slurm.facts import BAD_ENDS, FactsError, is_begun, of_nobody, with_all_gpus

CAP_BYTES = 64 * 1024 * 1024
BATCH = 500

_WANTED = (
    "JobID",
    "JobIDRaw",
    "Cluster",
    "User",
    "UID",
    "Account",
    "Partition",
    "State",
    "ExitCode",
    "DerivedExitCode",
    "NodeList",
    "FailedNode",
    "Submit",
    "Start",
    "End",
    "TimelimitRaw",
    "Timelimit",
    "Reason",
    "Restarts",
    "WorkDir",
    "AllocTRES",
    "StdOut",
    "StdErr",
    "SubmitLine",
    "JobName",
)
# Whole command lines: of a step they tell where its output went. A user can make them as long as
# sbatch takes them (1 MiB), and each task of an array repeats them.
_LONG = ("SubmitLine",)
_SHORTEST = dt.timedelta(seconds=2)
_PLACES = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin", "/usr/sbin")


class _TooMuch(FactsError):
    """More output than `CAP_BYTES`."""


class Sacct:
    """Asks by running sacct, never more than one at a time.

    ``path`` is absolute. ``clusters`` are asked about, none: the one that slurm.conf names.
    """

    def __init__(self, path: Path, timeout_s: float, clusters: Sequence[str] = ()) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self.clusters = tuple(clusters)
        self._fields: tuple[str, ...] | None = None
        self._one_at_a_time = threading.Lock()

    def facts(self, job_ids: Sequence[str]) -> dict[str, list[JobFacts]]:
        """See `firstfault.slurm.facts.SlurmFacts`."""
        wrong = [job for job in job_ids if not re.fullmatch("[0-9]{1,20}", job)]
        if wrong:
            raise FactsError(f"not a job id: {wrong[0][:40]!r}")
        found: dict[str, list[JobFacts]] = {}
        unique = sorted(set(job_ids))
        for start in range(0, len(unique), BATCH):
            batch = unique[start : start + BATCH]
            for facts in with_all_gpus(self._told([f"--jobs={','.join(batch)}"])):
                # "JobIDRaw" is what the nodes know; "JobID" names an array's task. The number of
                # an array brings all of its tasks, that of a heterogeneous job all components.
                job = facts.raw_id or facts.id
                if job in batch and is_begun(facts):
                    found.setdefault(job, []).append(facts)
        return found

    def ended(self, since: dt.datetime, until: dt.datetime) -> list[JobFacts]:
        """See `firstfault.slurm.facts.SlurmFacts`."""
        window = [f"--starttime={_local(since)}", f"--endtime={_local(until)}"]
        which = [*window, f"--state={','.join(BAD_ENDS)}", "--allocations"]
        try:
            found = self._ask(which, without=_LONG)
        except _TooMuch:
            if until - since < _SHORTEST:
                raise
            half = since + (until - since) / 2
            return self.ended(since, half) + self.ended(half, until)
        # Some versions select a little more than they were asked for.
        return [
            of_nobody(facts)
            for facts in found
            if facts.state in BAD_ENDS
            and facts.ended_at is not None
            and since <= facts.ended_at <= until
        ]

    def fields(self) -> tuple[str, ...]:
        """The columns to ask for: what is wanted and this version of sacct offers.

        Raises `FactsError`.
        """
        if self._fields is None:
            offered = set(self._run(["--helpformat"]).stdout.decode("utf-8", "replace").split())
            fields = tuple(name for name in _WANTED if name in offered)
            if "JobID" not in fields or "State" not in fields:
                raise FactsError(f"{self.path} --helpformat does not name JobID and State")
            self._fields = fields
        return self._fields

    def _told(self, which: Sequence[str]) -> list[JobFacts]:
        try:
            return self._ask(which)
        except _TooMuch:
            return self._ask(which, without=_LONG)

    def _ask(self, which: Sequence[str], without: Collection[str] = ()) -> list[JobFacts]:
        delimiter = f"\x1f{secrets.token_hex(8)}\x1f"
        fields = [name for name in self.fields() if name not in without]
        arguments = [
            "--parsable",
            f"--delimiter={delimiter}",
            "--duplicates",
            "--noconvert",
            "--allusers",
            f"--format={','.join(fields)}",
            *which,
        ]
        if self.clusters:
            arguments.append(f"--clusters={','.join(self.clusters)}")
        output = self._run(arguments)
        try:
            found = parse_records(output.stdout.decode("utf-8", "replace"), delimiter)
        except ValueError as error:
            raise FactsError(f"{self.path} answered what cannot be read: {error}") from error
        return [with_paths(facts) for facts in found]

    def _run(self, arguments: Sequence[str]) -> Output:
        environment = {
            "LC_ALL": "C",
            "TZ": "UTC",
            "SLURM_TIME_FORMAT": "standard",
            "PATH": "/usr/bin:/bin",
        }
        if "SLURM_CONF" in os.environ:
            environment["SLURM_CONF"] = os.environ["SLURM_CONF"]
        try:
            with self._one_at_a_time:
                output = run([str(self.path), *arguments], environment, self.timeout_s, CAP_BYTES)
        except OSError as error:
            raise FactsError(
                f"{self.path} cannot be run: {error.strerror}. Set slurm.sacct to sacct's path, "
                f'or slurm.source to "none".'
            ) from error
        if len(output.stdout) > CAP_BYTES:
            raise _TooMuch(f"{self.path}: {output.stopped}")
        if output.stopped is not None:
            raise FactsError(f"{self.path}: {output.stopped}. Is slurmdbd up (sacctmgr ping)?")
        if output.status != 0:
            said = output.stderr.decode("utf-8", "replace").strip()[-500:]
            raise FactsError(f"{self.path} ended with status {output.status}: {said}")
        return output


def find(configured: str) -> Path | None:
    """sacct's absolute path: as configured, else from PATH and the usual places."""
    if configured:
        return Path(configured)
    found = shutil.which("sacct") or shutil.which("sacct", path=os.pathsep.join(_PLACES))
    return None if found is None else Path(found).absolute()


def _local(at: dt.datetime) -> str:
    # In the time zone of `_run`'s environment; sacct takes whole seconds.
    return at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
