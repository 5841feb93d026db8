"""Clean records: a node that found nothing says no more than that, and the verdict is the same."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from firstfault.diagnosis import diagnose
from firstfault.intake.case import case
from tests.epilog.node import (
    OOM_AT_S,
    RECORDED_OFFSET_S,
    Node,
    end_job_at,
    oom_block,
    write_ranks,
)

ENDED_AT_S = RECORDED_OFFSET_S + OOM_AT_S + 1
TRACEBACK = """Traceback (most recent call last):
  File "/home/u/train.py", line 7, in <module>
    main()
ValueError: expected 4 features, got 5
"""


def quiet_kernel(node: Node) -> None:
    node.kmsg.write_text(f"6,1,{int(OOM_AT_S * 1e6)},-;eth0: renamed from veth1\n")


def test_a_node_with_nothing_to_tell_sends_a_small_clean_record(node: Node) -> None:
    quiet_kernel(node)
    end_job_at(node, ENDED_AT_S)

    node.collect()

    (record,) = node.records()
    assert record.clean
    assert not any(file.excerpts for file in record.files)
    assert len(node.raw_records()[0]) < 4096


@pytest.mark.parametrize("what", ["kernel", "output", "rank", "unreadable", "overwritten"])
def test_whoever_has_something_to_tell_or_could_not_look_is_not_clean(
    node: Node, what: str
) -> None:
    quiet_kernel(node)
    if what == "kernel":
        node.kmsg.write_text(oom_block(77, 7, 1, int(OOM_AT_S * 1e6)))
    if what == "output":
        (node.folder / "slurm-12.out").write_text("step 1\n")
    if what == "rank":
        write_ranks(node.folder / "ranks", "12_x", {"0/stderr.log": b"step 1\n"})
    if what == "unreadable":
        (node.folder / "slurm-12.out").mkdir()
    if what == "overwritten":
        node.configure(FIRSTFAULT_KERNEL_LOG=str(node.folder / "absent"))
    end_job_at(node, ENDED_AT_S)

    node.collect()

    (record,) = node.records()
    assert not record.clean


def test_a_job_that_gives_facts_alone_has_not_been_looked_at(node: Node) -> None:
    quiet_kernel(node)
    end_job_at(node, ENDED_AT_S, SLURM_JOB_COMMENT="firstfault=off")

    node.collect()

    assert [record.clean for record in node.records()] == [False]


def test_the_verdict_is_the_same_with_clean_records_as_with_whole_ones(
    node: Node, tmp_path: Path
) -> None:
    quiet_kernel(node)
    output = node.folder / "slurm-12.out"
    output.write_text(TRACEBACK)
    end_job_at(node, ENDED_AT_S, SLURMD_NODENAME="n1")
    node.collect()
    output.rename(tmp_path / "away")
    for name in ("n2", "n3", "n4"):
        end_job_at(node, ENDED_AT_S, SLURMD_NODENAME=name)
    node.collect()
    records = node.records()
    whole = [msgspec.structs.replace(record, clean=False) for record in records]

    verdict = diagnose(case(records, None))

    assert sorted(record.node for record in records if record.clean) == ["n2", "n3", "n4"]
    assert verdict.cause.id == "python.exception"
    assert verdict == diagnose(case(whole, None))
