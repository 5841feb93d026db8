"""Which kind a file is: from its content, never from its name alone."""

from __future__ import annotations

import enum

import msgspec

from firstfault.model.document import Document
from firstfault.model.evidence import SCHEMA_NAME
from firstfault.readers.epilog import looks_like_epilog
from firstfault.readers.error_file import looks_like_error_file
from firstfault.readers.flight_recorder import PICKLED, looks_like_dump
from firstfault.readers.kernel_kind import looks_like_kernel_log
from firstfault.readers.kubernetes import looks_like_json_status, looks_like_status
from firstfault.readers.sacct import looks_like_json, looks_like_text
from firstfault.readers.scontrol import (
    looks_like_scontrol_job,
    looks_like_scontrol_node,
    looks_like_seff,
)
from firstfault.readers.slurm_log import looks_like_slurm_log

_HEAD = 65_536
_OUTPUTS = ("job-output", "rank-log")
# What a collector may have taken that is read; None: a file that a person named.
_READ = (None, *_OUTPUTS, "error-json", "kernel", "epilog-environment")


class Kind(enum.Enum):
    """The kinds that are told apart; OTHER is read by no reader."""

    OUTPUT = "output"
    KERNEL = "kernel log"
    ERROR_FILE = "error.json"
    SACCT_TEXT = "sacct"
    SACCT_JSON = "sacct --json"
    SCONTROL_JOB = "scontrol show job"
    SCONTROL_NODE = "scontrol show node"
    SEFF = "seff"
    SLURM_LOG = "Slurm's log"
    KUBERNETES = "Kubernetes status"
    EPILOG = "Epilog environment"
    FLIGHT_RECORDER = "flight recorder"
    RECORD = "evidence record"
    OTHER = "other"


def kind(document: Document) -> Kind:
    """The kind of ``document``; an empty one is OTHER: it tells nothing."""
    data = document.excerpts[0].data[:_HEAD] if document.excerpts else b""
    if not data.strip(b"\x00 \t\r\n"):
        return Kind.OTHER
    if document.what == "flight-recorder" or (document.what is None and data.startswith(PICKLED)):
        return Kind.FLIGHT_RECORDER if looks_like_dump(data) else Kind.OTHER
    if document.what not in _READ:
        # A newer collector's, or one that is kept for people: it speaks for nobody.
        return Kind.OTHER
    if document.what in _OUTPUTS:
        # A collector knows what it took; what a user wrote into it makes it no kernel log.
        return Kind.OUTPUT
    head = data.decode("utf-8", "replace")
    start = head.lstrip()
    if document.what == "kernel" or looks_like_kernel_log(head):
        return Kind.KERNEL
    if start.startswith(("{", "[")) and (found := _json_kind(document, start)):
        return found
    if looks_like_text(head):
        return Kind.SACCT_TEXT
    return next((each for each, looks in _TEXTS if looks(head)), Kind.OUTPUT)


# Texts that a program of Slurm's or of Kubernetes' printed, by what it prints first.
_TEXTS = (
    (Kind.EPILOG, looks_like_epilog),
    (Kind.SCONTROL_JOB, looks_like_scontrol_job),
    (Kind.SCONTROL_NODE, looks_like_scontrol_node),
    (Kind.SEFF, looks_like_seff),
    (Kind.SLURM_LOG, looks_like_slurm_log),
    (Kind.KUBERNETES, looks_like_status),
)


# None for what begins like JSON and is text all the same: "[rank0]: ...", "[default1]:...".
def _json_kind(document: Document, start: str) -> Kind | None:
    if SCHEMA_NAME in start[:200]:
        return Kind.RECORD
    if looks_like_json(start[:_HEAD].encode("utf-8", "replace")):
        return Kind.SACCT_JSON
    if start.startswith("{") and looks_like_json_status(start[:_HEAD]):
        return Kind.KUBERNETES
    whole = b"".join(excerpt.data for excerpt in document.excerpts)
    if looks_like_dump(whole):
        return Kind.FLIGHT_RECORDER
    if looks_like_error_file(whole):
        return Kind.ERROR_FILE
    return Kind.OTHER if _all_json(whole) else None


# One JSON value, or one a line: settings and metrics, not what a job wrote to its terminal.
def _all_json(data: bytes) -> bool:
    values = data.strip().split(b"\n")
    try:
        msgspec.json.decode(values[0])
        msgspec.json.decode(values[-1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
    return True
