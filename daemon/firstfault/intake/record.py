"""One record as it arrives, from the spool or by HTTP: unpacked, decoded, checked."""

from __future__ import annotations

import functools
import re
import zlib

import msgspec

from firstfault.model import evidence
from firstfault.model.jobs import Incoming
from firstfault.readers import nodelist

_WORDS = {
    "id": re.compile(r"[\x21-\x7e]{1,200}"),
    "job": re.compile(r"[0-9]{1,20}"),
    "node": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}"),
    "cluster": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"),
}
_GZIP = b"\x1f\x8b"


class Limits(msgspec.Struct, frozen=True):
    """Sizes in bytes: of the record as it comes, and of the JSON in it."""

    file_bytes: int = 8 * 1024 * 1024
    record_bytes: int = 64 * 1024 * 1024


def incoming(data: bytes, limits: Limits) -> Incoming:
    """The record in ``data`` (JSON or gzip), checked. Raises `EvidenceError` where it cannot be
    used, `NewerSchema` where only a newer program can.
    """
    if len(data) > limits.file_bytes:
        raise evidence.EvidenceError(f"larger than spool.max_file_bytes ({limits.file_bytes})")
    body = _unpacked(data, limits)
    record = evidence.decode(body)
    evidence.check(record)  # every excerpt must be decodable before the sender lets it go
    for field, pattern in _WORDS.items():
        value = getattr(record, field)
        if value is not None and not pattern.fullmatch(value):
            raise evidence.EvidenceError(f"field {field!r} cannot be {value[:80]!r}")
    for field in ("ended_at", "collected_at"):
        if getattr(record, field).tzinfo is None:
            raise evidence.EvidenceError(f"field {field!r} has no time zone")
    listed = record.environment.get("SLURM_JOB_NODELIST") or record.environment.get(
        "SLURM_NODELIST"
    )
    try:
        nodes = nodelist.expand(listed) if listed else ()
    except nodelist.NodeListError as error:
        raise evidence.EvidenceError(f"environment: {error}") from error
    if nodes and record.node not in _set_of(nodes):
        raise evidence.EvidenceError(
            f"node {record.node} is not in its own job's node list {(listed or '')[:80]!r}"
        )
    leader = _leader(record)
    return Incoming(
        record_id=record.id,
        cluster=record.cluster,
        job=leader or record.job,
        component=record.job if leader else None,
        node=record.node,
        ended_at=record.ended_at,
        nodes=nodes,
        node_list=listed,
        # Each component of a heterogeneous job has an id, and perhaps a start, of its own.
        run=None if leader else _run(record),
        suspicious=_is_suspicious(record),
        body=data,
        size=len(body),
    )


@functools.lru_cache(maxsize=8)  # a list of 16,384 nodes is searched once for each of them
def _set_of(nodes: tuple[str, ...]) -> frozenset[str]:
    return frozenset(nodes)


def _unpacked(data: bytes, limits: Limits) -> bytes:
    """The JSON in ``data``; a gzip bomb is refused before it is unpacked."""
    if not data.startswith(_GZIP):
        body = data
    else:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            body = unpacker.decompress(data, limits.record_bytes + 1)
        except zlib.error as error:
            raise evidence.EvidenceError(f"damaged gzip data: {error}") from error
        if len(body) <= limits.record_bytes and not unpacker.eof:
            raise evidence.EvidenceError("damaged gzip data: it ends too early")
        if unpacker.unused_data.strip(b"\0"):
            raise evidence.EvidenceError("more data after the end of the gzip data")
    if len(body) > limits.record_bytes:
        raise evidence.EvidenceError(
            f"larger than spool.max_record_bytes ({limits.record_bytes}) when unpacked"
        )
    return body


def _leader(record: evidence.EvidenceRecord) -> str | None:
    """The id of the whole, where the record's job is a component of a heterogeneous job."""
    leader = record.environment.get("SLURM_HET_JOB_ID", "")
    return leader if _WORDS["job"].fullmatch(leader) and int(leader) else None


def _run(record: evidence.EvidenceRecord) -> str | None:
    # Slurm 25.11 tells the node a unique id, 23.02 the start time; before, nothing.
    for name in ("SLURM_JOB_SLUID", "SLURM_JOB_START_TIME"):
        value = record.environment.get(name, "")
        if re.fullmatch(r"[0-9A-Za-z]{1,32}", value) and value != "0":
            return f"{name[10:].lower()}:{value}"
    return None


def _is_suspicious(record: evidence.EvidenceRecord) -> bool:
    codes = ("SLURM_JOB_EXIT_CODE", "SLURM_JOB_DERIVED_EC")
    return not record.clean or any(record.environment.get(code, "0") != "0" for code in codes)
