"""Which of a job's stored records it is judged by; those that are left out are told."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from firstfault.app.journal import say
from firstfault.model.evidence import EvidenceError, EvidenceRecord, decode
from firstfault.model.jobs import JobStatus
from firstfault.readers import nodelist
from firstfault.store.database import StoreError
from firstfault.store.evidence import Packed, unpacked


def admitted(
    packed: Sequence[Packed], job: JobStatus
) -> tuple[list[EvidenceRecord], tuple[str, ...]]:
    """The records, and a note for each reason why others are left out.

    A node that Slurm does not count among the job's nodes has nothing to say of it.
    """
    records, notes = [], []
    for one in packed:
        try:
            records.append(decode(unpacked(one)))
        except (StoreError, EvidenceError) as error:
            say(logging.ERROR, "evidence-unreadable", job=job.job, node=one.node, error=error)
            notes.append(f"The evidence of {one.node} is left out: it cannot be read any more.")
    own = _nodes_of(job)
    strangers = {record.node for record in records} - own if own else frozenset()
    if strangers:
        assert job.facts is not None
        notes.append(
            f"Left out: evidence of {nodelist.fold(strangers)}, which Slurm does not name among "
            f"the job's nodes ({job.facts.nodes})."
        )
    return [record for record in records if record.node not in strangers], tuple(notes)


def _nodes_of(job: JobStatus) -> frozenset[str]:
    """The job's nodes by Slurm's word, empty where that is not known of all of them."""
    # Of a heterogeneous job the answer names the nodes of one component.
    listed = job.facts.nodes if job.facts is not None and not job.components else None
    try:
        return frozenset(nodelist.expand(listed)) if listed else frozenset()
    except nodelist.NodeListError:
        return frozenset()  # "None assigned"
