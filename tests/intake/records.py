"""Evidence records for the tests, made as a collector would make them."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from pathlib import Path
from typing import Any

from firstfault.model.evidence import EvidenceRecord, decode

ENDED_AT = dt.datetime(2026, 11, 30, 15, 56, 29, tzinfo=dt.UTC)
BOOT = "11111111-2222-3333-4444-555555555555"


def stamp(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def file(name: str, what: str, text: str, *, offset: int = 0, **fields: Any) -> dict[str, Any]:
    data = text.encode()
    return {
        "name": name,
        "what": what,
        "size": offset + len(data),
        "inode": None,
        "complete": offset == 0,
        "excerpts": [{"offset": offset, "line": 1 if offset == 0 else None, "text": text}],
        **fields,
    }


def fields(
    node: str = "n1",
    job: str = "12",
    *,
    nodes: str | None = "n[1-4]",
    ended_at: dt.datetime = ENDED_AT,
    environment: dict[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    own = {"SLURM_JOB_ID": job, "SLURM_JOB_EXIT_CODE": "256", "SLURMD_NODENAME": node}
    if nodes is not None:
        own["SLURM_NODELIST"] = nodes
    return {
        "schema": "firstfault.evidence/1",
        "id": f"{job}-{node}-{int(ended_at.timestamp())}",
        "cluster": "testcluster",
        "job": job,
        "node": node,
        "boot_id": None,
        "ended_at": stamp(ended_at),
        "collected_at": stamp(ended_at + dt.timedelta(seconds=1)),
        "environment": own | (environment or {}),
        "clock": None,
        "files": [],
        "coverage": [],
        "clean": False,
        "notes": [],
        **more,
    }


def record(node: str = "n1", job: str = "12", **more: Any) -> EvidenceRecord:
    return decode(json.dumps(fields(node, job, **more)).encode())


def put(folder: Path, content: dict[str, Any] | bytes, name: str | None = None) -> Path:
    """Writes aside and renames, as the collector does."""
    if isinstance(content, bytes):
        data = content
    else:
        name = name or f"{content['id']}.json.gz"
        data = gzip.compress(json.dumps(content).encode())
    assert name is not None
    aside = folder / f".{name}.{os.getpid()}"
    aside.write_bytes(data)
    target = folder / name
    aside.rename(target)
    return target
