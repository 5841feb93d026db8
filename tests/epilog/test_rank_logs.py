"""The folders that the TaskProlog makes: read as the job's own, and removed in time."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault_epilog import ranklogs
from tests.epilog.node import Node, file_of, set_time

DAY_S = 86400.0


class Ranks:
    """A node whose folder for rank logs is in use, and the user whose jobs ran there."""

    def __init__(self, node: Node, owner: pwd.struct_passwd) -> None:
        self.node = node
        self.owner = owner
        self.base = node.folder / "ranks-of-jobs"
        self.base.mkdir()
        self.base.chmod(0o1777)
        self.configure()

    def configure(self, **changes: str) -> None:
        self.node.configure(**{"FIRSTFAULT_RANK_LOG_DIR": str(self.base), **changes})

    def write(self, name: str, run: str = "0.0/none_x", text: bytes = b"x") -> Path:
        """A run folder of torchrun below the job folder ``name``, the owner's."""
        target = self.base / name / run / "attempt_0/0/stderr.log"
        target.parent.mkdir(parents=True)
        target.write_bytes(text)
        self.own(self.base / name)
        return self.base / name

    def own(self, top: Path) -> None:
        for path in (top, *top.rglob("*")):
            os.chown(path, self.owner.pw_uid, self.owner.pw_gid, follow_symlinks=False)

    def end_job(self, job: str = "12", **changes: str) -> None:
        ids = {"SLURM_JOB_UID": str(self.owner.pw_uid), "SLURM_JOB_GID": str(self.owner.pw_gid)}
        assert self.node.end_job(SLURM_JOB_ID=job, **ids, **changes) == 0

    def collect(self) -> str:
        """Runs the collector; what it said."""
        done = self.node.collect()
        assert done.returncode == 0
        return done.stderr

    def taken(self) -> None:
        """The daemon takes all records."""
        for path in self.node.spool.glob("*.json.gz"):
            path.unlink()


@pytest.fixture
def ranks(node: Node, owner: pwd.struct_passwd) -> Iterator[Ranks]:
    yield Ranks(node, owner)


def age(folder: Path, days: float) -> None:
    for path in (*folder.rglob("*"), folder):
        set_time(path, time.time() - days * DAY_S)


def test_what_is_in_the_jobs_folder_is_the_jobs_whatever_torchrun_called_it(ranks: Ranks) -> None:
    ranks.write("12.n3", text=b"mine\n")
    ranks.write("13.n3", text=b"another job's\n")
    ranks.write("12.n4", text=b"another node's\n")
    ranks.end_job()

    ranks.collect()

    (record,) = ranks.node.records()
    assert file_of(record, "0/stderr.log") == b"mine\n"
    (file,) = [file for file in record.files if file.what == "rank-log"]
    assert file.shared is False, "the node's name is part of its place"


def test_dumps_of_the_flight_recorder_are_read_there(ranks: Ranks) -> None:
    folder = ranks.write("12.n3")
    (folder / "0.0/nccl_trace_rank_5").write_bytes(b"\x80\x02}q\x00.")
    ranks.own(folder)
    ranks.end_job()

    ranks.collect()

    (file,) = [f for f in ranks.node.records()[0].files if f.what == "flight-recorder"]
    assert file.name == f"{folder}/0.0/nccl_trace_rank_5"
    assert file.shared is False


def test_of_a_job_that_was_requeued_the_last_start_is_read(ranks: Ranks) -> None:
    ranks.write("12.n3", "0.0/none_x", b"first\n")
    for run, text in (("1.0/none_y", b"second\n"), ("2.0/none_z", b"begun since\n")):
        (ranks.base / "12.n3" / run / "attempt_0/0").mkdir(parents=True)
        (ranks.base / "12.n3" / run / "attempt_0/0/stderr.log").write_bytes(text)
    ranks.own(ranks.base / "12.n3")
    ranks.end_job(SLURM_JOB_RESTART_COUNT="1")

    ranks.collect()

    assert file_of(ranks.node.records()[0], "0/stderr.log") == b"second\n"


def test_the_part_of_a_heterogeneous_job_is_found_under_the_jobs_first_number(
    ranks: Ranks,
) -> None:
    ranks.write("12.n3", text=b"mine\n")
    ranks.end_job("13", SLURM_HET_JOB_ID="12")

    ranks.collect()

    assert file_of(ranks.node.records()[0], "0/stderr.log") == b"mine\n"


@pytest.mark.parametrize("level", ["12.n3", "12.n3/0.0", "12.n3/0.0/none_x"])
def test_what_another_user_put_there_is_not_read(ranks: Ranks, level: str) -> None:
    ranks.write("12.n3")
    os.chown(ranks.base / level, 65534, 65534)
    ranks.end_job()

    ranks.collect()

    assert [file.what for file in ranks.node.records()[0].files if file.what == "rank-log"] == []


def test_a_folder_is_removed_when_the_daemon_has_taken_the_record(ranks: Ranks) -> None:
    folder = ranks.write("12.n3")
    ranks.end_job()
    ranks.collect()
    assert folder.exists(), "the daemon has not taken it"
    assert ranks.node.waiting("kept") != []
    ranks.taken()

    said = ranks.collect()

    assert said == ""
    assert not folder.exists()
    assert ranks.node.waiting("kept") == []


def test_the_timers_run_of_the_script_removes_what_was_taken(ranks: Ranks) -> None:
    folder = ranks.write("12.n3")
    ranks.end_job()
    ranks.collect()
    ranks.taken()

    done = subprocess.run(
        [ranks.node.stub, "collect"], env={"FIRSTFAULT_CONF": str(ranks.node.conf)}, timeout=60
    )

    assert done.returncode == 0
    assert not folder.exists()


def test_a_spool_that_is_not_there_just_now_has_taken_nothing(ranks: Ranks) -> None:
    folder = ranks.write("12.n3")
    ranks.end_job()
    ranks.collect()
    ranks.node.spool.rename(ranks.node.folder / "unmounted")
    ranks.collect()
    ranks.node.spool.mkdir()

    ranks.collect()

    assert folder.exists()


def test_a_job_that_still_has_a_step_on_the_node_keeps_its_folder(ranks: Ranks) -> None:
    folder = ranks.write("12.n3")
    old = ranks.write("13.n3")
    ranks.end_job()
    ranks.collect()
    ranks.taken()
    age(old, 30)
    # As slurmstepd names itself.
    steps = [
        subprocess.Popen([f"slurmstepd: [{job}]", "60"], executable="/bin/sleep")
        for job in ("12.0", "13.batch")
    ]
    try:
        ranks.collect()
        kept = folder.exists() and old.exists()
    finally:
        for step in steps:
            step.send_signal(signal.SIGKILL)
            step.wait()
    ranks.collect()

    assert kept
    assert not folder.exists() and not old.exists()


def test_what_nobody_took_goes_after_days(ranks: Ranks) -> None:
    old, new = ranks.write("12.n3"), ranks.write("13.n3")
    age(old, 7.1)
    age(new, 6.9)

    ranks.collect()

    assert (old.exists(), new.exists()) == (False, True)


def test_the_oldest_go_first_where_all_are_too_large(ranks: Ranks) -> None:
    folders = [ranks.write(f"{job}.n3", text=b"x" * (1 << 20)) for job in (12, 13, 14, 15)]
    for days, folder in enumerate(reversed(folders)):
        age(folder, days)
    ranks.configure(FIRSTFAULT_RANK_LOG_MB="2.5")

    ranks.collect()

    assert [folder.exists() for folder in folders] == [False, False, True, True]


def test_a_link_in_the_folder_is_removed_and_not_what_it_leads_to(ranks: Ranks) -> None:
    outside = ranks.node.folder / "precious"
    outside.mkdir()
    (outside / "thesis").write_text("years")
    ranks.own(outside)
    folder = ranks.write("12.n3")
    (folder / "0.0/link").symlink_to(outside)
    (ranks.base / "13.n3").symlink_to(outside)
    ranks.own(folder)
    age(folder, 30)

    ranks.collect()

    assert not folder.exists()
    assert (outside / "thesis").read_text() == "years"
    assert (ranks.base / "13.n3").is_symlink()


def test_what_is_not_the_owners_cannot_be_removed_by_the_owners_rights(ranks: Ranks) -> None:
    """A folder of root's that got into the owner's: the rights of root would have removed it."""
    folder = ranks.write("12.n3")
    (folder / "roots").mkdir()
    (folder / "roots/file").write_text("root's")
    age(folder, 30)

    said = ranks.collect()

    assert (folder / "roots/file").read_text() == "root's"
    assert "12.n3 stay" in said


def test_what_is_not_a_jobs_folder_stays(ranks: Ranks) -> None:
    names = ["lost+found", "notes", "12", "12.", "x.n3", ".12.n3"]
    for name in names:
        (ranks.base / name).mkdir()
        os.chown(ranks.base / name, ranks.owner.pw_uid, ranks.owner.pw_gid)
    (ranks.base / "14.n3").mkdir()
    (ranks.base / "15.n3").write_text("a file")
    names += ["14.n3", "15.n3"]
    for name in names:
        age(ranks.base / name, 30)

    ranks.collect()

    assert {path.name for path in ranks.base.iterdir()} == set(names)


def test_nothing_is_removed_where_the_folder_is_not_roots(ranks: Ranks) -> None:
    folder = ranks.write("12.n3")
    age(folder, 30)
    os.chown(ranks.base, ranks.owner.pw_uid, ranks.owner.pw_gid)

    said = ranks.collect()

    assert folder.exists()
    assert "not a folder of root's" in said


def test_a_folder_that_its_owner_closed_is_removed(ranks: Ranks) -> None:
    folder = ranks.write("12.n3")
    age(folder, 30)
    folder.chmod(0)

    ranks.collect()

    assert not folder.exists()


def test_a_trouble_with_rank_logs_does_not_keep_a_record(ranks: Ranks) -> None:
    ranks.write("12.n3")
    (ranks.node.queue / "new").mkdir(parents=True)
    ranks.node.queue.chmod(0o700)
    (ranks.node.queue / "kept").write_text("in the way")
    ranks.end_job()

    said = ranks.collect()

    assert len(ranks.node.records()) == 1
    assert "rank logs" in said


def test_age_goes_before_size() -> None:
    folders = [
        ranklogs.Folder("1.n", 1000, 900 << 20, 100 * DAY_S),
        ranklogs.Folder("2.n", 1000, 300 << 20, 109 * DAY_S),
        ranklogs.Folder("3.n", 1000, 300 << 20, 108 * DAY_S),
    ]

    assert ranklogs.surplus(folders, 110 * DAY_S, 7, 600) == {"1.n"}
    assert ranklogs.surplus(folders, 110 * DAY_S, 7, 500) == {"1.n", "3.n"}


def test_the_check_tells_what_the_silent_script_would_not(ranks: Ranks) -> None:
    def said() -> str:
        argv = ranks.node.command("check")
        lines = subprocess.run(argv, env={}, capture_output=True, text=True).stdout.splitlines()
        return next(line for line in lines if "rank logs" in line)

    assert said() == f"ok   rank logs {ranks.base}"
    ranks.node.conf.chmod(0o600)
    assert "chmod 644" in said()
    ranks.base.chmod(0o777)
    assert "chmod 1777" in said()
    ranks.base.rmdir()
    assert "FAIL" in said()
