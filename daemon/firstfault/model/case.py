"""All the evidence of one job, gathered: what the diagnosis is given."""

from __future__ import annotations

import msgspec

from firstfault.model.document import Document
from firstfault.model.evidence import Coverage
from firstfault.model.slurm import JobFacts


class NodeCoverage(msgspec.Struct, frozen=True):
    """What one node's collector could and could not read."""

    node: str
    coverage: tuple[Coverage, ...] = ()


class Case(msgspec.Struct, frozen=True):
    """One job's evidence.

    ``facts`` is Slurm's accounting, None while it has not answered. ``nodes_reported`` are
    the nodes that sent a record, ``nodes_absent`` those of the job's node list that did not.
    Both are empty where the evidence is files that a person named.
    """

    documents: tuple[Document, ...]
    facts: JobFacts | None = None
    coverage: tuple[NodeCoverage, ...] = ()
    nodes_reported: tuple[str, ...] = ()
    nodes_absent: tuple[str, ...] = ()
