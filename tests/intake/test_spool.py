"""The spool takes in what is whole, and puts aside what is not."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from firstfault.intake import record, spool
from firstfault.model.jobs import Incoming
from tests.intake.records import fields, put

LIMITS = record.Limits(file_bytes=100_000, record_bytes=1_000_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    spool.prepare(tmp_path / "spool")
    return tmp_path / "spool"


class Kept:
    def __init__(self) -> None:
        self.records: list[Incoming] = []

    def __call__(self, records: Sequence[Incoming]) -> None:
        self.records += records


def refuse(folder: Path) -> spool.Refused:
    swept = spool.sweep(folder, Kept(), LIMITS)

    assert swept.taken == ()
    assert len(swept.refused) == 1
    refused = swept.refused[0]
    assert refused.path.exists()
    note = refused.path.with_name(refused.path.name + ".reason")
    assert note.read_text("utf-8").strip() == refused.reason
    assert spool.waiting(folder) == []
    return refused


def test_a_record_is_stored_and_its_file_deleted(folder: Path) -> None:
    put(folder, fields("n2"))
    kept = Kept()

    swept = spool.sweep(folder, kept, LIMITS)

    assert swept == spool.Sweep(taken=("12",))
    (incoming,) = kept.records
    assert (incoming.job, incoming.node, incoming.cluster) == ("12", "n2", "testcluster")
    assert incoming.nodes == ("n1", "n2", "n3", "n4")
    assert incoming.suspicious
    assert json.loads(gzip.decompress(incoming.body)) == fields("n2")
    assert spool.waiting(folder) == []


def test_a_record_without_compression_is_taken_too(folder: Path) -> None:
    put(folder, json.dumps(fields()).encode(), "plain.json")

    assert spool.sweep(folder, Kept(), LIMITS).taken == ("12",)


def test_the_file_stays_where_the_store_fails(folder: Path) -> None:
    put(folder, fields())

    def broken(_records: Sequence[Incoming]) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        spool.sweep(folder, broken, LIMITS)

    assert len(spool.waiting(folder)) == 1


def test_a_stored_file_can_be_kept(folder: Path) -> None:
    path = put(folder, fields())

    spool.sweep(folder, Kept(), LIMITS, keep=True)

    assert (folder / "taken" / path.name).exists()
    assert spool.waiting(folder) == []


def test_drafts_and_other_files_are_left_alone(folder: Path) -> None:
    for name in (".12.json.gz.77", "12.json.gz.partial", "notes.txt"):
        (folder / name).write_bytes(b"half")

    assert spool.sweep(folder, Kept(), LIMITS) == spool.Sweep()
    assert (folder / "notes.txt").exists()


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (b"{", "x.json", "not an evidence record"),
        (b"", "x.json.gz", "not an evidence record"),
        (b"\xff\xfe\x00", "x.json", "not an evidence record"),
        (b"[" * 200_00, "x.json", "not an evidence record"),
        (gzip.compress(b'{"schema": "firstfault.evidence/1"}', mtime=0)[:-9], "x.json.gz", "gzip"),
        (gzip.compress(b"{}", mtime=0) + b"more", "x.json.gz", "after the end"),
        (b'{"schema": "other/1"}', "x.json", "its schema is 'other/1'"),
        (b'{"schema": "firstfault.evidence/1", "id": "1"}', "x.json", "damaged evidence record"),
        (b" " * 100_001, "x.json", "spool.max_file_bytes"),
        (gzip.compress(b" " * 50_000_000, 9, mtime=0), "x.json.gz", "spool.max_record_bytes"),
    ],
)
def test_what_does_not_parse_goes_to_quarantine_with_the_reason(
    folder: Path, content: bytes, name: str, reason: str
) -> None:
    put(folder, content, name)

    refused = refuse(folder)

    assert refused.path.parent.name == "quarantine"
    assert reason in refused.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"node": "n9"}, "not in its own job's node list"),
        ({"node": "../../etc"}, "field 'node'"),
        ({"job": "12; drop table jobs"}, "field 'job'"),
        ({"cluster": "<script>"}, "field 'cluster'"),
        ({"id": "a\nb"}, "field 'id'"),
        ({"ended_at": "2026-11-30T15:56:29"}, "no time zone"),
        ({"files": [{"name": "f", "what": "kernel", "excerpts": [{"offset": 0, "base64": "?"}]}]},
         "excerpt of 'f'"),
    ],
)  # fmt: skip
def test_a_record_that_contradicts_itself_goes_to_quarantine(
    folder: Path, change: dict[str, object], reason: str
) -> None:
    put(folder, fields() | change, "x.json.gz")

    assert reason in refuse(folder).reason


@pytest.mark.parametrize(
    "nodes", ["n[1-999999999]", "n[1-9]r[1-999]s[1-999]", "@all", "n*", "n1;reboot", "n[1-"]
)
def test_a_hostile_node_list_is_refused_in_no_time(folder: Path, nodes: str) -> None:
    put(folder, fields(nodes=nodes))

    assert "node list" in refuse(folder).reason


def test_a_newer_schema_is_kept_for_a_newer_program(folder: Path) -> None:
    put(folder, fields() | {"schema": "firstfault.evidence/2"}, "x.json.gz")

    assert refuse(folder).path.parent.name == "newer"


def test_a_file_of_a_known_name_does_not_overwrite_an_older_one_in_quarantine(folder: Path) -> None:
    for content in (b"first", b"second"):
        put(folder, content, "x.json")
        spool.sweep(folder, Kept(), LIMITS)

    aside = folder / "quarantine"
    assert (aside / "x.json").read_bytes() == b"first"
    assert (aside / "x.json.1").read_bytes() == b"second"


def test_a_link_and_a_pipe_are_not_followed(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(fields()))
    (folder / "link.json").symlink_to(secret)
    os.mkfifo(folder / "pipe.json")

    swept = spool.sweep(folder, Kept(), LIMITS)

    assert swept.taken == ()
    assert {refused.reason for refused in swept.refused} == {"not a regular file"}
    assert secret.exists()


def test_one_bad_record_does_not_hold_up_the_others(folder: Path) -> None:
    for node in ("n1", "n2", "n3"):
        put(folder, fields(node))
    put(folder, b"no", "12-n2-0.json")

    swept = spool.sweep(folder, Kept(), LIMITS)

    assert len(swept.taken) == 3
    assert len(swept.refused) == 1


def test_a_file_that_cannot_leave_the_spool_does_not_hold_up_the_others(folder: Path) -> None:
    (folder / "quarantine").rmdir()
    (folder / "quarantine").write_text("")
    damaged = put(folder, b"no", "0.json")
    for node in ("n1", "n2"):
        put(folder, fields(node))
    (folder / "taken").write_text("")
    kept = Kept()

    swept = spool.sweep(folder, kept, LIMITS, keep=True)

    assert len(kept.records) == 2
    assert swept.stuck[0].path == damaged
    assert f"cannot go to {folder}/quarantine: " in swept.stuck[0].reason
    assert {stuck.reason for stuck in swept.stuck[1:]} == {
        "stored, and cannot be removed: File exists"
    }


def test_a_clean_record_of_a_zero_exit_is_not_suspicious(folder: Path) -> None:
    put(folder, fields(clean=True, environment={"SLURM_JOB_EXIT_CODE": "0"}))
    kept = Kept()
    spool.sweep(folder, kept, LIMITS)

    assert not kept.records[0].suspicious


def test_the_start_time_tells_incarnations_apart_where_slurm_gives_it(folder: Path) -> None:
    put(folder, fields(environment={"SLURM_JOB_START_TIME": "1796054167"}))
    kept = Kept()
    spool.sweep(folder, kept, LIMITS)

    assert kept.records[0].run == "start_time:1796054167"
