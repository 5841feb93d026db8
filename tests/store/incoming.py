"""Records as the intake hands them to the store."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from firstfault.model.jobs import Incoming
from tests.intake.records import ENDED_AT, fields


def incoming(
    node: str = "n1",
    job: str = "12",
    *,
    nodes: tuple[str, ...] = ("n1", "n2"),
    ended_at: dt.datetime = ENDED_AT,
    cluster: str | None = "testcluster",
    run: str | None = None,
    suspicious: bool = True,
    files: Sequence[dict[str, Any]] = (),
) -> Incoming:
    content = fields(
        node, job, ended_at=ended_at, nodes=",".join(nodes), cluster=cluster, files=list(files)
    )
    body = json.dumps(content).encode()
    return Incoming(
        record_id=f"{cluster}-{content['id']}",
        cluster=cluster,
        job=job,
        node=node,
        ended_at=ended_at,
        nodes=nodes,
        node_list=",".join(nodes),
        run=run,
        suspicious=suspicious,
        body=body,
        size=len(body),
    )
