"""Records of one job become one case; shared files become one document."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pytest

from firstfault.intake.case import case, has_guessed_output
from firstfault.model.case import Case
from firstfault.model.document import Clock, Document
from firstfault.model.evidence import FORMER_UNCERTAINTY_S
from firstfault.model.slurm import JobFacts
from tests.intake.records import BOOT, ENDED_AT, file, record

KERNEL = "/dev/kmsg"


def only(found: Case, what: str) -> Document:
    (document,) = [d for d in found.documents if d.what == what]
    return document


def data(document: Document) -> bytes:
    return b"".join(excerpt.data for excerpt in document.excerpts)


def kernel(*sequences: int) -> dict[str, Any]:
    lines = "".join(f"4,{number},{number}000,-;line {number}\n" for number in sequences)
    return file(KERNEL, "kernel", lines)


def test_nodes_of_the_list_that_sent_nothing_are_absent() -> None:
    found = case([record("n4"), record("n2")], None)

    assert found.nodes_reported == ("n2", "n4")
    assert found.nodes_absent == ("n1", "n3")


def test_slurms_node_list_counts_where_the_records_have_none() -> None:
    found = case([record("n10", nodes=None)], JobFacts(id="12", nodes="n[2,10]"))

    assert found.nodes_absent == ("n2",)


def test_one_job_output_seen_by_two_nodes_is_one_document_of_no_host() -> None:
    records = [
        record("n1", files=[file("/home/a/slurm-12.out", "job-output", "one\n")]),
        record("n2", files=[file("/home/a/slurm-12.out", "job-output", "one\ntwo\n")]),
    ]

    document = only(case(records, None), "job-output")

    assert data(document) == b"one\ntwo\n"
    assert document.host is None
    assert document.name == "/home/a/slurm-12.out"
    assert document.complete


@pytest.mark.parametrize(
    ("facts", "is_own"),
    [
        (JobFacts(id="12", raw_id="12"), False),
        (JobFacts(id="8_3", raw_id="12"), False),
        (JobFacts(id="7_3", raw_id="12"), True),
        # of `#SBATCH -o slurm-%j_3.out`
        (JobFacts(id="7", raw_id="7"), True),
        (JobFacts(id="12", raw_id="12", stdout="/w/slurm-7_3.out"), True),
        (None, True),
    ],
)
def test_an_output_that_a_node_guessed_and_that_is_another_jobs_is_left_out(
    facts: JobFacts | None, is_own: bool
) -> None:
    read = {"what": "job-output", "path": "/w/slurm-7_3.out", "state": "full"}
    files = [file("/w/slurm-7_3.out", "job-output", "boom\n"), kernel(1)]

    records = [record("n1", files=files, coverage=[read])]
    found = case(records, facts)

    assert has_guessed_output(records)
    rows = {row.path: row for row in found.coverage[0].coverage}
    assert ("job-output" in {d.what for d in found.documents}) == is_own
    assert rows["/w/slurm-7_3.out"].state == ("full" if is_own else "none")
    assert only(found, "kernel")


def test_an_output_that_slurm_named_is_the_jobs_whatever_it_is_called() -> None:
    named = {"SLURM_JOB_STDOUT": "/w/slurm-7_3.out"}
    files = [file("/w/slurm-7_3.out", "job-output", "boom\n")]

    records = [record("n1", files=files, environment=named)]
    found = case(records, JobFacts(id="12", raw_id="12"))

    assert not has_guessed_output(records)
    assert not has_guessed_output([record("n1", "7", files=files)])
    assert data(only(found, "job-output")) == b"boom\n"


def test_tails_of_one_growing_file_are_joined() -> None:
    records = [
        record("n1", files=[file("/o", "job-output", "aaa\nbbb\n", offset=100)]),
        record("n2", files=[file("/o", "job-output", "bbb\nccc\n", offset=104)]),
        record("n3", files=[file("/o", "job-output", "zzz\n", offset=500)]),
    ]

    document = only(case(records, None), "job-output")

    assert [(e.offset, e.data) for e in document.excerpts] == [
        (100, b"aaa\nbbb\nccc\n"),
        (500, b"zzz\n"),
    ]
    assert not document.complete


def test_where_copies_contradict_one_another_the_latest_counts() -> None:
    later = ENDED_AT + dt.timedelta(seconds=9)
    records = [
        record("n1", files=[file("/o", "job-output", "old\n")]),
        record("n2", files=[file("/o", "job-output", "new\n")], collected_at=later.isoformat()),
    ]

    assert data(only(case(records, None), "job-output")) == b"new\n"


def test_nodes_that_share_a_kernel_give_one_kernel_log() -> None:
    records = [
        record("n1", boot_id=BOOT, files=[kernel(1, 2, 3)]),
        record("n2", boot_id=BOOT, files=[kernel(2, 3, 4)]),
    ]

    document = only(case(records, None), "kernel")

    assert document.host is None
    assert document.name == "n[1-2]:/dev/kmsg"
    assert data(document).decode().splitlines() == [
        f"4,{number},{number}000,-;line {number}" for number in (1, 2, 3, 4)
    ]


def test_kernel_logs_of_two_machines_stay_two() -> None:
    records = [
        record("n1", boot_id=BOOT, files=[kernel(1)]),
        record("n2", boot_id=BOOT.replace("1", "9"), files=[kernel(1)]),
    ]

    hosts = [d.host for d in case(records, None).documents if d.what == "kernel"]

    assert hosts == ["n1", "n2"]


def test_a_rank_log_that_two_nodes_saw_belongs_to_neither() -> None:
    log = file("/shared/0/stderr.log", "rank-log", "Traceback\n", inode="44:1234")
    elsewhere = log | {"inode": "51:1234"}

    for boots in ((BOOT, BOOT), (BOOT, BOOT.replace("1", "9"))):
        records = [
            record("n1", boot_id=boots[0], files=[log]),
            record("n2", boot_id=boots[1], files=[elsewhere]),
        ]

        assert only(case(records, None), "rank-log").host is None


def test_rank_logs_at_one_path_on_two_local_disks_stay_with_their_nodes() -> None:
    records = [
        record(node, files=[file("/tmp/0/stderr.log", "rank-log", node, inode=f"8:{number}")])
        for number, node in enumerate(("n1", "n2"))
    ]

    found = [(d.host, data(d)) for d in case(records, None).documents if d.what == "rank-log"]

    assert found == [("n1", b"n1"), ("n2", b"n2")]


def test_a_file_that_is_a_nodes_own_is_shared_on_one_machine_only() -> None:
    log = file("/tmp/0/stderr.log", "rank-log", "Traceback\n", inode="8:1234", shared=False)

    def hosts(other_boot: str) -> list[str | None]:
        records = [
            record("n1", boot_id=BOOT, files=[log]),
            record("n2", boot_id=other_boot, files=[log]),
        ]
        return [d.host for d in case(records, None).documents if d.what == "rank-log"]

    assert hosts(BOOT) == [None]
    assert hosts(BOOT.replace("1", "9")) == ["n1", "n2"]


def test_the_newest_record_of_a_node_counts() -> None:
    again = ENDED_AT + dt.timedelta(seconds=5)
    records = [
        record("n1", files=[file("/a", "rank-log", "old")]),
        record("n1", ended_at=again, files=[file("/a", "rank-log", "new")]),
    ]

    found = case(records, None)

    assert data(only(found, "rank-log")) == b"new"
    assert found.nodes_reported == ("n1",)


def test_the_case_is_the_same_in_any_order_of_the_records() -> None:
    records = [
        record(
            node,
            boot_id=BOOT,
            files=[
                kernel(*range(number, number + 3)),
                file("/o", "job-output", "x\n" * (number + 1)),
                file("/r", "rank-log", "same", inode="1:1"),
            ],
        )
        for number, node in enumerate(("n1", "n2", "n3"))
    ]

    cases = {repr(case(list(order), None)) for order in itertools.permutations(records)}

    assert len(cases) == 1


def test_the_kernel_logs_of_two_boots_of_one_node_stay_two() -> None:
    former = {"boot_id": BOOT.replace("1", "9"), "kernel_offset_s": 1_700_000_000.0}
    clock = {"kernel_offset_s": 1_800_000_000.0, "uncertainty_s": 0.01, "utc_offset_s": 3600}
    records = [
        record(
            node,
            boot_id=BOOT,
            clock=clock,
            files=[kernel(1), kernel(1, 2) | {"name": "journalctl -k -b 9"} | former],
        )
        for node in ("n1", "n2")
    ]

    present, before = [d for d in case(records, None).documents if d.what == "kernel"]

    assert (present.name, before.name) == ("n[1-2]:/dev/kmsg", "n[1-2]:journalctl -k -b 9")
    assert (present.boot_id, before.boot_id) == (BOOT, former["boot_id"])
    assert before.clock == Clock(1_700_000_000.0, FORMER_UNCERTAINTY_S, 3600)
    assert present.clock == Clock(1_800_000_000.0, 0.01, 3600)
    assert len(data(before).splitlines()) == 2
