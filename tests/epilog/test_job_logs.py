"""Which of the job's files are found."""

from __future__ import annotations

import os
import time

from firstfault_epilog import mounts
from tests.epilog.node import Node, file_of, reason_of, set_time, write_ranks


def test_a_name_full_of_percent_signs_is_found(node: Node) -> None:
    (node.folder / "my[*]name-000012-n1.out").write_bytes(b"mine\n")
    node.end_job(SLURM_JOB_STDOUT=f"{node.folder}/%x-%6j-%N.out")

    node.collect()

    assert file_of(node.records()[0], "n1.out") == b"mine\n"


def test_of_several_outputs_that_fit_the_newest_is_taken_and_it_is_said(node: Node) -> None:
    now = time.time()
    for task, age in ((1, 50), (2, 10), (3, 900000), (4, -3600)):
        path = node.folder / f"slurm-10_{task}.out"
        path.write_bytes(b"task %d\n" % task)
        set_time(path, now - age)
    node.end_job(SLURM_JOB_STDOUT=f"{node.folder}/slurm-%A_%a.out")

    node.collect()

    (record,) = node.records()
    assert file_of(record, "slurm-10_2.out") == b"task 2\n"
    assert "ambiguous" in [row.reason for row in record.coverage]


def test_run_folders_of_another_job_of_the_same_user_are_left_alone(node: Node) -> None:
    for name in ("12_aaaa", "13_bbbb"):
        write_ranks(node.folder / "ranks", name, {"0/stderr.log": name.encode()})
    node.end_job()

    node.collect()

    (record,) = node.records()
    names = [file.name for file in record.files if file.what == "rank-log"]
    assert [name.split("/")[-4] for name in names] == ["12_aaaa"]


def test_a_run_folder_that_only_the_output_mentions_is_read(node: Node) -> None:
    write_ranks(
        node.folder / "elsewhere", "none_x", {"1/error.json": b"{}", "1/stderr.log": b"E\n"}
    )
    mention = f"  error_file: {node.folder}/elsewhere/none_x/attempt_0/1/error.json\n"
    (node.folder / "slurm-12.out").write_text("root cause\n" + mention)
    node.end_job()

    node.collect()

    assert file_of(node.records()[0], "1/stderr.log") == b"E\n"


def test_what_other_nodes_agents_say_is_not_taken_for_this_nodes(node: Node) -> None:
    """All nodes' agents speak in the job's output, and on one machine all their folders exist."""
    for host in ("n3", "n4"):
        write_ranks(node.folder / host, "12_" + host, {"0/stderr.log": host.encode()})
    mention = f"error_file: {node.folder}/n4/12_n4/attempt_0/0/error.json\n"
    (node.folder / "slurm-12.out").write_text(mention)
    node.configure(FIRSTFAULT_RANK_LOGS=f"{node.folder}/%N/%j_*")
    node.end_job()

    node.collect()

    names = [file.name for file in node.records()[0].files if file.what == "rank-log"]
    assert names == [f"{node.folder}/n3/12_n3/attempt_0/0/stderr.log"]


def test_where_places_name_the_node_a_mention_of_another_place_is_another_nodes(
    node: Node,
) -> None:
    write_ranks(node.folder / "n4", "12_n4", {"0/error.json": b"{}"})
    mention = f"error_file: {node.folder}/n4/12_n4/attempt_0/0/error.json\n"
    (node.folder / "slurm-12.out").write_text(mention)
    node.configure(FIRSTFAULT_RANK_LOGS=f"{node.folder}/%N/%j_*")
    node.end_job()

    node.collect()

    (record,) = node.records()
    assert [file.what for file in record.files] == ["job-output"]
    assert "absent" in [row.reason for row in record.coverage]


def test_whether_other_nodes_may_see_a_file_is_said(node: Node) -> None:
    write_ranks(node.folder / "n3", "12_x", {"0/stderr.log": b"x"})
    (node.folder / "slurm-12.out").write_bytes(b"x")
    node.configure(FIRSTFAULT_RANK_LOGS=f"{node.folder}/%N/%j_*")
    node.end_job()

    node.collect()

    (record,) = node.records()
    (rank,) = [file for file in record.files if file.what == "rank-log"]
    assert rank.shared is False, "the node's name is part of its place"
    assert mounts.is_shared(os.stat("/proc").st_dev) is None
    assert mounts.is_shared(os.stat("/dev/shm").st_dev) is False


def test_the_last_attempt_and_the_first_come_before_those_between(node: Node) -> None:
    for attempt in range(12):
        folder = node.folder / f"ranks/12_x/attempt_{attempt}/0"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_bytes(b"%d" % attempt)
    node.end_job()

    node.collect()

    names = [file.name for file in node.records()[0].files if file.what == "rank-log"]
    assert [int(name.split("_")[-1].split("/")[0]) for name in names] == [11, 0, *range(10, 0, -1)]


def test_where_no_start_is_told_old_runs_of_the_user_are_left_out_and_it_is_said(
    node: Node,
) -> None:
    ended_at = time.time()
    for name, age in (("none_new", 600), ("none_old", 7200)):
        write_ranks(node.folder / "ranks", name, {"0/stderr.log": b"x"})
        for path in (node.folder / "ranks" / name).rglob("*"):
            set_time(path, ended_at - age)
        set_time(node.folder / "ranks" / name, ended_at - age)
    node.end_job()

    node.collect()

    (record,) = node.records()
    names = [file.name for file in record.files if file.what == "rank-log"]
    assert len(names) == 1 and "none_new" in names[0]
    assert "ambiguous" in [row.reason for row in record.coverage]


def test_where_the_start_is_told_runs_from_before_it_are_left_out(node: Node) -> None:
    ended_at = time.time()
    for name, age in (("none_mine", 600), ("none_before", 1200)):
        write_ranks(node.folder / "ranks", name, {"0/stderr.log": b"x"})
        for path in (node.folder / "ranks" / name).rglob("*"):
            set_time(path, ended_at - age)
        set_time(node.folder / "ranks" / name, ended_at - age)
    node.end_job(SLURM_JOB_START_TIME=str(int(ended_at) - 900))

    node.collect()

    (record,) = node.records()
    names = [file.name for file in record.files if file.what == "rank-log"]
    assert len(names) == 1 and "none_mine" in names[0]
    assert "ambiguous" not in [row.reason for row in record.coverage]


def test_a_missing_output_is_said(node: Node) -> None:
    node.end_job()

    node.collect()

    (record,) = node.records()
    assert reason_of(record, "slurm-12.out") == "ENOENT"


def test_a_missing_folder_of_the_output_is_said(node: Node) -> None:
    node.end_job(SLURM_JOB_STDOUT=f"{node.folder}/not-there/slurm-12.out")

    node.collect()

    (record,) = node.records()
    assert reason_of(record, "slurm-12.out") == "no-folder"
