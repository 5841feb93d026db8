"""What of a job may be written at all: the owner's and the site's word, and secrets masked."""

import re
from typing import Dict, List, NamedTuple, Optional

from firstfault_epilog import masking
from firstfault_epilog.entries import Entry
from firstfault_epilog.record import Excerpt, File, Record
from firstfault_epilog.settings import Settings

# What the owner wrote freely, and where the owner's files lie: no facts.
FREE_TEXT = (
    b"SLURM_JOB_COMMENT",
    b"SLURM_JOB_EXTRA",
    b"SLURM_JOB_STDERR",
    b"SLURM_JOB_STDIN",
    b"SLURM_JOB_STDOUT",
    b"SLURM_JOB_WORK_DIR",
)


class Reason(NamedTuple):
    """Why a job gives facts alone: ``word`` for a program, ``detail`` for people."""

    word: str
    detail: str


def facts_only(entry: Entry, settings: Settings) -> Optional[Reason]:
    """Why the job of ``entry`` gives facts alone, None where its logs may be read."""
    comment = (entry.value("SLURM_JOB_COMMENT") or "").lower()
    word = settings.opt_out_word.lower()
    if word and word in re.split(r"[\s,;]+", comment):
        detail = "the job's owner asked for it in the job's comment: no log was read"
        return Reason("opt-out", detail)
    if (entry.value("SLURM_JOB_ACCOUNT") or None) in settings.facts_only_accounts:
        return Reason(
            "site", "no log of this account's jobs is read (FIRSTFAULT_FACTS_ONLY_ACCOUNTS)"
        )
    # A job in several partitions is told all of them before it starts.
    partitions = (entry.value("SLURM_JOB_PARTITION") or "").split(",")
    if any(name in settings.facts_only_partitions for name in partitions if name):
        detail = "no log of this partition's jobs is read (FIRSTFAULT_FACTS_ONLY_PARTITIONS)"
        return Reason("site", detail)
    return None


def facts(environment: Dict[bytes, bytes]) -> Dict[bytes, bytes]:
    """The variables of ``environment`` that Slurm or the site set."""
    return {key: value for key, value in environment.items() if key not in FREE_TEXT}


def at_rest(entry: Entry, settings: Settings) -> Entry:
    """The entry as it may lie on a disk for a while: no secret in the owner's free words, and of
    a job that gives facts alone no more than says so."""
    environment = dict(entry.environment)
    unread = facts_only(entry, settings)
    if unread is not None:
        environment = facts(environment)
        if unread.word == "opt-out":
            environment[b"SLURM_JOB_COMMENT"] = settings.opt_out_word.encode("utf-8")
    elif settings.mask_secrets:
        for name in (b"SLURM_JOB_COMMENT", b"SLURM_JOB_EXTRA"):
            if name in environment:
                environment[name] = masking.masked(environment[name]).data
    return entry._replace(environment=environment)


def without_secrets(record: Record) -> Record:
    """The record with the secrets in its excerpts and variables masked, and a note of how many."""
    count = 0

    def masked(data: bytes) -> bytes:
        nonlocal count
        result = masking.masked(data)
        count += result.found
        return result.data

    def of_excerpt(excerpt: Excerpt) -> Excerpt:
        data = masking.edges_masked(masked(excerpt.data), *excerpt.cut)
        return excerpt._replace(data=data)

    files: List[File] = [
        file._replace(excerpts=tuple(of_excerpt(excerpt) for excerpt in file.excerpts))
        for file in record.files
    ]
    environment = {key: masked(value) for key, value in record.environment.items()}
    notes = record.notes
    if count:
        what = "1 secret was" if count == 1 else f"{count} secrets were"
        notes = (*notes, f"{what} masked")
    return record._replace(files=tuple(files), environment=environment, notes=notes)
