"""Which records a job is judged by."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import zlib

import pytest
import zstandard

from firstfault.app.admission import admitted
from firstfault.model.jobs import JobStatus
from firstfault.model.slurm import JobFacts
from firstfault.store.evidence import Packed
from tests.app.test_lifecycle import job
from tests.intake.records import fields

ENDED_AT = dt.datetime(2026, 11, 30, 15, 56, 29, tzinfo=dt.UTC)


def packed(node: str, encoding: str = "zlib") -> Packed:
    body = json.dumps(fields(node)).encode()
    pack = {"zlib": zlib.compress, "gzip": gzip.compress, "zstd": zstandard.compress}
    return Packed(f"id-{node}", node, encoding, pack[encoding](body))


def told(nodes: str | None, **more: object) -> JobStatus:
    return job(facts=JobFacts(id="12", state="FAILED", ended_at=ENDED_AT, nodes=nodes), **more)


@pytest.mark.parametrize("encoding", ["zlib", "gzip", "zstd"])
def test_records_are_read_however_they_are_packed(encoding: str) -> None:
    records, notes = admitted([packed("n1", encoding)], job())

    assert [record.node for record in records] == ["n1"]
    assert notes == ()


def test_a_node_that_is_not_among_slurms_nodes_of_the_job_is_left_out_and_told() -> None:
    records, notes = admitted([packed("n1"), packed("n7"), packed("n8")], told("n[1-4]"))

    assert [record.node for record in records] == ["n1"]
    assert notes == (
        "Left out: evidence of n[7-8], which Slurm does not name among the job's nodes (n[1-4]).",
    )


@pytest.mark.parametrize("nodes", [None, "", "None assigned"])
def test_without_slurms_nodes_every_record_counts(nodes: str | None) -> None:
    assert len(admitted([packed("n1"), packed("n7")], told(nodes))[0]) == 2
    assert len(admitted([packed("n1"), packed("n7")], job())[0]) == 2


def test_the_other_components_of_a_heterogeneous_job_count() -> None:
    records, notes = admitted([packed("n1"), packed("g1")], told("n1", components=2))

    assert len(records) == 2
    assert notes == ()


@pytest.mark.parametrize(
    "broken",
    [
        Packed("id-n2", "n2", "zlib", b"\x78\x9c"),
        Packed("id-n2", "n2", "gzip", b"no gzip"),
        Packed("id-n2", "n2", "gzip", gzip.compress(b"{}")[:-4]),
        Packed("id-n2", "n2", "zstd", b"(\xb5/\xfd"),
        Packed("id-n2", "n2", "brotli", b"x"),
        Packed("id-n2", "n2", "gzip", gzip.compress(b"{}")),
    ],
)
def test_a_record_that_cannot_be_read_is_left_out_and_told(
    broken: Packed, caplog: pytest.LogCaptureFixture
) -> None:
    records, notes = admitted([packed("n1"), broken], job())

    assert [record.node for record in records] == ["n1"]
    assert notes == ("The evidence of n2 is left out: it cannot be read any more.",)
    assert "evidence-unreadable" in caplog.text
