"""A case whose logs grew to what real ones are, whole and as the collector cuts them."""

from __future__ import annotations

import os
import re
import tempfile
import time

import msgspec

from firstfault.model.case import Case
from firstfault.model.document import Document, Excerpt
from firstfault.readers.kind import Kind, kind
from firstfault.streams.lines import run_folder
from firstfault_epilog import anchors, excerpts, kernel, kernel_evidence

# What the collector allows one file, and what a record of eight ranks leaves for each of theirs.
OUTPUT_BUDGET = 96 << 10
RANK_BUDGET = 40 << 10
# Ordinary lines before the failure and after a third of what there was: past every budget.
PADDING_LINES = 1_800
_LABELS = re.compile(rb"(?: *\d{1,7}: )?(?:\[[A-Za-z_]\w*\d\]:)?")


def grown(case: Case) -> Case:
    """``case`` with ordinary progress lines before everything that its outputs hold."""
    return _with(case, _grown)


def recorded(case: Case) -> Case:
    """``case`` as it comes in records: every file cut as the collector cuts it."""
    return _with(case, _recorded)


def _with(case: Case, change: object) -> Case:
    assert callable(change)
    return msgspec.structs.replace(case, documents=tuple(change(d) for d in case.documents))


def _whole(document: Document) -> bytes | None:
    if not document.complete or len(document.excerpts) != 1:
        return None
    return document.excerpts[0].data


def _is_output(document: Document) -> bool:
    written = document.what in ("job-output", "rank-log") or run_folder(document.name) is not None
    return written or kind(document) is Kind.OUTPUT


def _grown(document: Document) -> Document:
    data = _whole(document)
    if data is None or not _is_output(document) or document.name.endswith(".json"):
        return document
    label = _LABELS.match(data)
    lead = label[0] if label else b""
    lines = b"".join(
        b"%sstep %d loss %.4f lr 1.0e-04 grad_norm 0.9 samples/s 71.2\n" % (lead, n, 2 / (n + 1))
        for n in range(PADDING_LINES)
    )
    whole = lines + data
    return msgspec.structs.replace(document, excerpts=(Excerpt(0, 1, whole),), size=len(whole))


def _recorded(document: Document) -> Document:
    data = _whole(document)
    if data is None:
        return document
    if kind(document) is Kind.KERNEL:
        return _cut_kernel(document, data)
    if not _is_output(document) and not document.name.endswith(".json"):
        return document
    budget = RANK_BUDGET if "attempt_" in document.name else OUTPUT_BUDGET
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        handle = os.dup(file.fileno())
        try:
            cut = excerpts.cut(handle, len(data), budget, anchors.read(), time.monotonic() + 60)
        finally:
            os.close(handle)
    kept = tuple(Excerpt(e.offset, e.line, e.data) for e in cut.excerpts)
    return msgspec.structs.replace(document, excerpts=kept, complete=cut.complete)


def _cut_kernel(document: Document, data: bytes) -> Document:
    lines = kernel.parse(data)
    if not lines:
        return document
    # A log that tells nothing of a fault is known, by the record's coverage, to have been read.
    kept = kernel_evidence.select(lines).excerpts or (Excerpt(0, 1, lines[0].data),)
    return msgspec.structs.replace(
        document,
        excerpts=tuple(Excerpt(e.offset, e.line, e.data) for e in kept),
        complete=False,
    )
