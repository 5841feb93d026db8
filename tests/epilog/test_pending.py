"""Ends that look like success: they wait on the node until the daemon wants them or does not."""

from __future__ import annotations

import json
import os
import pwd
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from firstfault.model import evidence
from firstfault_epilog import collector, pending
from firstfault_epilog.moment import ALARM_S
from tests.epilog.node import (
    OOM_AT_S,
    RECORDED_OFFSET_S,
    Node,
    end_job_at,
    file_of,
    oom_block,
    run_script,
    set_time,
)
from tests.epilog.receiver import STORED, Receiver, Reply, Request

QUIET = {"SLURM_JOB_EXIT_CODE": "0", "SLURM_JOB_DERIVED_EC": "0"}
SHORT = QUIET | {"SLURM_JOB_NODELIST": "n3", "SLURM_JOB_NUM_NODES": "1"}


class Daemon(Receiver):
    """A daemon whose word on each asked end is ``word``; ``asked`` are the questions that came."""

    def __init__(self) -> None:
        super().__init__()
        self.word: Callable[[dict[str, Any]], object] = lambda _: {"wanted": "later"}
        self.again_s: float | None = None
        self.refusal: Reply | None = None
        self.asked: list[dict[str, Any]] = []
        self.records: list[evidence.EvidenceRecord] = []
        self.answer = self._answer

    def _answer(self, request: Request) -> Reply:
        if request.path == "/v1/records":
            self.records.append(evidence.decode(json.dumps(request.record).encode()))
            return STORED
        question = json.loads(request.body)
        self.asked.append(question)
        if self.refusal is not None:
            return self.refusal
        words = {row["id"]: self.word(row) for row in question["asked"]}
        return Reply(200, {"answers": words, "ask_again_s": self.again_s})

    @property
    def ids(self) -> list[str]:
        """The ends that were asked about, each as often as it was."""
        return [row["id"] for question in self.asked for row in question["asked"]]


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon() as receiver:
        yield receiver


@pytest.fixture
def node(node: Node, daemon: Daemon) -> Node:
    """A node that asks `daemon` at once."""
    node.spool.chmod(0o700)
    key = node.folder / "key"
    key.touch(0o400)
    key.write_bytes(os.urandom(32).hex().encode())
    configure(node, daemon)
    return node


def configure(node: Node, daemon: Daemon, **changes: str) -> None:
    push = {"FIRSTFAULT_DAEMON": daemon.url, "FIRSTFAULT_KEY_FILE": f"{node.folder}/key"}
    node.configure(**{**push, "FIRSTFAULT_PENDING_ASK_S": "0", **changes})


def kept(node: Node) -> list[Path]:
    """The pending ends."""
    return sorted((node.spool / "pending").glob("[0-9]*"))


def ask_now(node: Node) -> None:
    """Lets the daemon be asked at once, as after the time."""
    for path in kept(node):
        set_time(path, time.time())


def age(node: Node, seconds: float) -> None:
    """Makes the ends wait for ``seconds`` longer than they do, and lets the daemon be asked."""
    for path in kept(node):
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "kept_at_s": document["kept_at_s"] - seconds}))
    ask_now(node)


def wait_until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    stop_at = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < stop_at, "it did not come to that"
        time.sleep(0.02)


@contextmanager
def collecting(node: Node) -> Iterator[subprocess.Popen[str]]:
    """A collector at work, which may stay for the next question; killed when the block ends."""
    process = subprocess.Popen(node.command(), env={}, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def collect_until(node: Node, done: Callable[[], bool]) -> None:
    with collecting(node):
        wait_until(done)


def test_an_end_that_the_daemon_wants_is_collected_with_what_only_slurm_knows(
    node: Node, daemon: Daemon
) -> None:
    log = node.folder / "step-3.out"
    log.write_text("rank 3 waits\n")
    daemon.word = lambda _: {"wanted": "yes", "paths": [str(log)], "reads_shared": True}
    node.end_job(**QUIET)

    done = node.collect()

    (record,) = daemon.records
    assert (done.returncode, done.stderr) == (0, "")
    assert daemon.ids == [record.id]
    assert daemon.asked[0]["node"] == "n3"
    assert file_of(record, "step-3.out") == b"rank 3 waits\n"
    assert kept(node) == node.waiting() == node.waiting("claimed") == []


def test_an_end_that_nobody_wants_leaves_nothing_behind(node: Node, daemon: Daemon) -> None:
    daemon.word = lambda _: {"wanted": "no"}
    node.end_job(**QUIET)

    done = node.collect()

    assert (done.returncode, done.stderr) == (0, "")
    assert len(daemon.ids) == 1
    assert daemon.records == []
    assert kept(node) == node.waiting() == node.waiting("claimed") == []


def test_a_short_job_of_one_node_that_ended_well_costs_no_request(
    node: Node, daemon: Daemon
) -> None:
    # It is made with the first record.
    node.spool.rmdir()
    for job in ("12", "13"):
        started = str(int(time.time()) - 30)
        node.end_job(SLURM_JOB_ID=job, SLURM_JOB_START_TIME=started, **SHORT)

    done = node.collect()

    assert (done.returncode, done.stderr) == (0, "")
    assert daemon.requests == []
    assert kept(node) == node.waiting() == node.waiting("claimed") == []


@pytest.mark.parametrize("codes", [{"SLURM_JOB_EXIT_CODE": "256"}, QUIET])
def test_what_tells_of_a_fault_is_sent_without_a_question(
    node: Node, daemon: Daemon, codes: dict[str, str]
) -> None:
    node.kmsg.write_text(oom_block(12, 77, 1, int(OOM_AT_S * 1e6)))
    end_job_at(node, RECORDED_OFFSET_S + OOM_AT_S + 1, **QUIET | codes)

    node.collect()

    (record,) = daemon.records
    assert daemon.asked == []
    assert b"Killed process 77" in file_of(record, "kmsg")


def test_ends_that_wait_are_asked_about_in_one_question(node: Node, daemon: Daemon) -> None:
    daemon.word = lambda row: {"wanted": "yes" if row["job"] == "14" else "no"}
    for job in ("12", "13", "14"):
        node.end_job(SLURM_JOB_ID=job, **QUIET)

    node.collect()

    assert [len(question["asked"]) for question in daemon.asked] == [3]
    assert [record.job for record in daemon.records] == ["14"]
    assert kept(node) == []


def test_each_node_of_a_machine_asks_for_itself(node: Node, daemon: Daemon) -> None:
    daemon.word = lambda _: {"wanted": "no"}
    for name in ("n3", "n4"):
        node.end_job(SLURMD_NODENAME=name, **QUIET)

    node.collect()

    assert sorted(question["node"] for question in daemon.asked) == ["n3", "n4"]
    assert kept(node) == []


def test_an_end_of_which_slurm_does_not_know_yet_is_asked_about_again(
    node: Node, daemon: Daemon
) -> None:
    daemon.again_s = 300
    node.end_job(**QUIET)
    collect_until(node, lambda: daemon.asked != [] and kept(node)[0].stat().st_mtime > time.time())
    left_s = kept(node)[0].stat().st_mtime - time.time()
    nothing = node.collect()
    asked = len(daemon.asked)
    daemon.word = lambda _: {"wanted": "yes"}
    ask_now(node)

    node.collect()

    assert 200 < left_s < 370
    assert (nothing.returncode, asked) == (0, 1)
    assert daemon.ids == [daemon.records[0].id] * 2
    assert kept(node) == []


@pytest.mark.parametrize(
    "refusal",
    [
        Reply(None),
        Reply(200, b"<html>"),
        Reply(200, {"answers": {}}),
        Reply(400, {"error": "what?"}),
        Reply(401, {"error": "clock"}),
        Reply(404),
        Reply(500),
        Reply(503, None, {"Retry-After": "400"}),
    ],
    ids=lambda reply: str(reply.status),
)
def test_an_end_waits_on_whatever_is_answered_instead_of_a_word(
    node: Node, daemon: Daemon, refusal: Reply
) -> None:
    daemon.refusal = refusal
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    node.end_job(**QUIET)
    node.collect()
    age(node, 200)
    collect_until(node, lambda: daemon.asked != [] and kept(node)[0].stat().st_mtime > time.time())
    (path,) = kept(node)
    left_s = path.stat().st_mtime - time.time()
    daemon.refusal = None
    daemon.word = lambda _: {"wanted": "yes"}
    ask_now(node)

    node.collect()

    assert left_s > 150
    assert len(daemon.records) == 1
    assert kept(node) == []


def test_while_the_daemon_thinks_other_ends_are_collected_and_sent(
    node: Node, daemon: Daemon
) -> None:
    thought = threading.Event()

    def think(_: object) -> object:
        thought.wait(30)
        return {"wanted": "yes"}

    daemon.word = think
    node.end_job(**QUIET)
    with collecting(node):
        wait_until(lambda: daemon.asked != [])
        node.end_job(SLURM_JOB_ID="13")
        wait_until(lambda: [record.job for record in daemon.records] == ["13"])
        thought.set()
        wait_until(lambda: kept(node) == [])
        wait_until(lambda: len(daemon.records) == 2)


def test_while_the_next_question_is_near_other_ends_are_collected_and_sent(
    node: Node, daemon: Daemon
) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="60")
    node.end_job(**QUIET)
    with collecting(node) as process:
        wait_until(lambda: kept(node) != [])
        node.end_job(SLURM_JOB_ID="13")
        wait_until(lambda: len(daemon.records) == 1)

        assert process.poll() is None
        assert daemon.asked == []


def test_a_collector_does_not_stay_for_a_question_that_is_far_away(
    node: Node, daemon: Daemon
) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    node.end_job(**QUIET)

    assert node.collect().returncode == 0
    assert len(kept(node)) == 1


def test_a_collector_that_stays_leaves_once_everything_is_turned_off(
    node: Node, daemon: Daemon
) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="60")
    node.end_job(**QUIET)
    with collecting(node) as process:
        wait_until(lambda: kept(node) != [])
        time.sleep(1.0)
        stayed = process.poll() is None
        (node.folder / "off").touch()
        wait_until(lambda: process.poll() is not None)

    assert (stayed, process.returncode) == (True, 0)
    assert (daemon.requests, len(kept(node))) == ([], 1)


def test_a_node_that_was_booted_meanwhile_goes_on_from_its_disk(node: Node, daemon: Daemon) -> None:
    node.kmsg.write_text(oom_block(77, 7, 1, int(OOM_AT_S * 1e6)))
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="7000")
    end_job_at(node, RECORDED_OFFSET_S + OOM_AT_S + 1, **QUIET)
    node.end_job(**QUIET)
    collect_until(node, lambda: len(kept(node)) == 2)
    waited = len(kept(node))
    # /run is gone, and so is what the kernel said.
    subprocess.run(["/bin/rm", "-r", node.queue], check=True)
    node.kmsg.write_text("6,1,1,-;Linux version 6.1\n")
    configure(node, daemon, FIRSTFAULT_BOOT_ID="another")
    daemon.word = lambda row: {"wanted": "yes"}
    ask_now(node)

    done = run_script(node, "collect")

    first = min(daemon.records, key=lambda record: record.ended_at)
    assert done.returncode == 0
    assert waited == len(daemon.records) == 2
    assert {record.boot_id for record in daemon.records} == {"6f2d0a60-0000-4000-8000-000000000001"}
    assert b"Killed process 7" in file_of(first, "kmsg")
    assert kept(node) == []


@pytest.mark.parametrize(
    ("log", "kept_line", "new_line"),
    [
        # What came a moment after the end.
        ("6,1,{at},-;segfault 1\n6,2,{at},-;segfault 2\n", True, True),
        # What was overwritten since, whatever came.
        ("6,2,{at},-;segfault 2\n", True, False),
    ],
)
def test_what_the_kernel_said_is_never_less_than_it_was_at_the_end(
    node: Node, daemon: Daemon, log: str, kept_line: bool, new_line: bool
) -> None:
    at = int(OOM_AT_S * 1e6)
    ended_at_s = RECORDED_OFFSET_S + OOM_AT_S + ALARM_S + 60
    node.kmsg.write_text(f"6,1,{at},-;segfault 1\n")
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="7000")
    # Its start is not known: older than an hour is no alarm, but evidence.
    end_job_at(node, ended_at_s, **QUIET)
    collect_until(node, lambda: kept(node) != [])
    node.kmsg.write_text(log.format(at=at))
    daemon.word = lambda _: {"wanted": "yes"}
    ask_now(node)

    node.collect()

    told = file_of(daemon.records[0], "kmsg")
    assert (b"segfault 1" in told, b"segfault 2" in told) == (kept_line, new_line)


def test_where_nobody_is_to_be_asked_any_more_all_that_waited_is_collected(
    node: Node, daemon: Daemon
) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    node.end_job(**QUIET)
    node.collect()
    configure(node, daemon, FIRSTFAULT_DAEMON="")

    done = node.collect()

    assert (done.returncode, kept(node)) == (0, [])
    assert len(node.records()) == 1
    assert daemon.requests == []


def test_an_end_of_which_the_daemon_knows_nothing_for_too_long_is_given_up_and_told(
    node: Node, daemon: Daemon
) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_TTL_S="0")
    node.end_job(**QUIET)

    done = node.collect()
    checked = run_script(node, "--check")
    node.end_job(SLURM_JOB_ID="13")
    node.collect()
    node.end_job(SLURM_JOB_ID="14")
    node.collect()

    told, after = daemon.records
    assert "1 ends were given up" in done.stderr
    assert "1 were given up" in checked.stdout
    assert any("1 earlier ends that looked like success were given up" in n for n in told.notes)
    assert not any("given up" in note for note in after.notes)
    assert kept(node) == []


def test_an_end_is_not_given_up_as_soon_while_the_daemon_is_away(
    node: Node, daemon: Daemon
) -> None:
    daemon.refusal = Reply(None)
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    node.end_job(SLURM_JOB_ID="13", **QUIET)
    node.collect()
    age(node, 80_000)
    node.end_job(SLURM_JOB_ID="12", **QUIET)
    node.collect()
    age(node, 7_000)

    node.collect()

    assert [path.name.split("-")[1] for path in kept(node)] == ["12"]
    assert pending.lost(str(node.spool)) == 1


def test_more_than_may_wait_push_out_the_oldest_and_this_is_told(
    node: Node, daemon: Daemon
) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_MAX="3", FIRSTFAULT_PENDING_ASK_S="1000")
    for job in range(12, 17):
        end_job_at(node, time.time() - 100 + job, SLURM_JOB_ID=str(job), **QUIET)

    done = node.collect()

    assert [path.name.split("-")[1] for path in kept(node)] == ["14", "15", "16"]
    assert "pending ends were given up: more than FIRSTFAULT_PENDING_MAX wait" in done.stderr
    assert pending.lost(str(node.spool)) == 2


@pytest.mark.parametrize("said", ["yes", "no", "later"])
def test_an_end_that_is_pushed_out_while_it_is_asked_about_is_gone_and_holds_up_no_other(
    node: Node, daemon: Daemon, said: str
) -> None:
    thought = threading.Event()

    def think(_: object) -> object:
        thought.wait(30)
        return {"wanted": said}

    daemon.word = think
    daemon.again_s = 1000
    configure(node, daemon, FIRSTFAULT_PENDING_MAX="1")
    node.end_job(SLURM_JOB_ID="12", **QUIET)
    with collecting(node) as process:
        wait_until(lambda: daemon.asked != [])
        node.end_job(SLURM_JOB_ID="13", **QUIET)
        wait_until(lambda: [path.name.split("-")[1] for path in kept(node)] == ["13"])
        thought.set()
        process.wait(30)

    assert process.returncode == 0
    assert [record.job for record in daemon.records] == (["13"] if said == "yes" else [])
    assert len(kept(node)) == (1 if said == "later" else 0)


def test_a_file_that_is_no_pending_end_is_put_aside_and_holds_up_no_other(
    node: Node, daemon: Daemon
) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    for job in ("12", "13", "14", "15"):
        node.end_job(SLURM_JOB_ID=job, **QUIET)
    node.collect()
    cut, odd, link, _ = kept(node)
    cut.write_bytes(cut.read_bytes()[:-40])
    odd.write_bytes(b'{"schema": "firstfault.pending/2"}')
    data = link.read_bytes()
    link.unlink()
    link.mkdir()
    daemon.word = lambda _: {"wanted": "yes"}
    ask_now(node)

    done = node.collect()

    aside = node.spool / "pending/quarantine"
    assert [record.job for record in daemon.records] == ["15"]
    assert len(list(aside.glob("*.reason"))) == 3
    assert done.stderr.count("put aside") == 3
    assert kept(node) == []
    assert "in quarantine" in run_script(node, "--check").stdout
    assert data


def test_an_end_that_kills_collectors_is_put_aside_after_three(node: Node, daemon: Daemon) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    node.end_job(**QUIET)
    node.collect()
    (path,) = kept(node)
    path.rename(path.with_name("3" + path.name[1:]))
    daemon.word = lambda _: {"wanted": "yes"}
    ask_now(node)

    done = node.collect()

    assert done.returncode == collector.FAILED
    assert daemon.records == []
    assert kept(node) == []
    assert "3 collectors died" in done.stderr


def test_with_no_room_for_it_the_end_stays_in_the_queue(node: Node, daemon: Daemon) -> None:
    (node.spool / "pending").write_text("in the way")
    node.end_job(**QUIET)
    for _ in range(4):
        assert node.collect().returncode == collector.NOT_NOW
    (node.spool / "pending").unlink()
    daemon.word = lambda _: {"wanted": "yes"}

    assert node.collect().returncode == 0
    assert len(daemon.records) == 1


def test_a_folder_that_others_may_write_to_is_not_trusted(node: Node, daemon: Daemon) -> None:
    (node.spool / "pending").mkdir()
    (node.spool / "pending").chmod(0o777)
    node.end_job(**QUIET)

    done = node.collect()

    assert done.returncode != 0
    assert "others own it or may write to it" in done.stderr
    assert daemon.requests == []


def test_no_secret_of_the_owners_words_lies_on_the_disk(node: Node, daemon: Daemon) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    secret = "hf_" + "a1B2c3D4" * 5
    node.end_job(SLURM_JOB_COMMENT=f"use {secret}", **QUIET)

    node.collect()

    (path,) = kept(node)
    assert secret.encode() not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0


def test_a_job_that_gives_facts_alone_gives_no_more_later(node: Node, daemon: Daemon) -> None:
    (node.folder / "slurm-12.out").write_text("private\n")
    daemon.word = lambda _: {"wanted": "yes", "paths": [f"{node.folder}/slurm-12.out"]}
    node.end_job(SLURM_JOB_COMMENT="private-words, firstfault=off", **QUIET)
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    node.collect()
    on_disk = kept(node)[0].read_bytes()
    ask_now(node)

    node.collect()

    (record,) = daemon.records
    assert b"private-words" not in on_disk
    assert record.files == ()
    assert "SLURM_JOB_COMMENT" not in record.environment
    assert {row.reason for row in record.coverage} == {"opt-out"}


@pytest.mark.parametrize("path", ["old.out", "theirs.out", "absent.out", "folder"])
def test_the_daemons_word_opens_nothing_that_is_not_the_jobs(
    node: Node, daemon: Daemon, owner: pwd.struct_passwd, path: str
) -> None:
    for name, at_s, uid in (
        ("old.out", time.time() - 100_000, owner.pw_uid),
        ("theirs.out", time.time(), 0),
    ):
        (node.folder / name).write_text("secret\n")
        os.chown(node.folder / name, uid, uid)
        set_time(node.folder / name, at_s)
    (node.folder / "folder").mkdir()
    os.chown(node.folder / "folder", owner.pw_uid, owner.pw_gid)
    daemon.word = lambda _: {"wanted": "yes", "paths": [f"{node.folder}/{path}"]}
    ids = {"SLURM_JOB_UID": str(owner.pw_uid), "SLURM_JOB_GID": str(owner.pw_gid)}
    node.end_job(**ids, **QUIET)

    node.collect()

    (record,) = daemon.records
    rows = [row for row in record.coverage if row.path == f"{node.folder}/{path}"]
    assert not [file for file in record.files if file.what == "job-output"]
    assert [row.state for row in rows] == ["none"]


@pytest.mark.parametrize(("wanted", "left"), [("no", []), ("later", ["12.n3"])])
def test_rank_logs_stay_as_long_as_somebody_may_want_them(
    node: Node, daemon: Daemon, owner: pwd.struct_passwd, wanted: str, left: list[str]
) -> None:
    base = node.folder / "ranks-of-jobs"
    run = base / "12.n3/0.0/none_x/attempt_0/0"
    run.mkdir(parents=True)
    (run / "stderr.log").write_text("x\n")
    for path in (base / "12.n3").rglob("*"):
        os.chown(path, owner.pw_uid, owner.pw_gid)
    os.chown(base / "12.n3", owner.pw_uid, owner.pw_gid)
    base.chmod(0o1777)
    daemon.word = lambda _: {"wanted": wanted}
    daemon.again_s = 1000
    configure(node, daemon, FIRSTFAULT_RANK_LOG_DIR=str(base))
    ids = {"SLURM_JOB_UID": str(owner.pw_uid), "SLURM_JOB_GID": str(owner.pw_gid)}
    # What an earlier start of the job left was taken long ago.
    (node.queue / "kept").mkdir(parents=True, mode=0o700)
    spool = node.spool.stat()
    (node.queue / "kept/12.n3").write_text(f"{spool.st_dev}:{spool.st_ino}\nearlier.json.gz\n")
    node.end_job(**ids, **QUIET)

    node.collect()

    assert len(daemon.ids) == 1
    assert [path.name for path in base.iterdir()] == left


def test_check_tells_what_becomes_of_an_end(node: Node, daemon: Daemon) -> None:
    started = str(int(time.time()) - 30)
    node.end_job(SLURM_JOB_ID="12")
    node.end_job(SLURM_JOB_ID="13", **QUIET)
    node.end_job(SLURM_JOB_ID="14", SLURM_JOB_START_TIME=started, **SHORT)
    told = [run_script(node, "--check", job).stdout for job in ("12", "13", "14")]
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    collect_until(node, lambda: kept(node) != [])

    waiting = run_script(node, "--check", "13")

    assert "collected at once: SLURM_JOB_EXIT_CODE is 256" in told[0]
    assert "collected if the daemon wants it: exit codes are zero" in told[1]
    assert "let go without a word: exit codes are zero" in told[2]
    assert waiting.returncode == 0
    assert "it looks like success; the daemon is asked at" in waiting.stdout


def test_a_clock_that_was_set_back_keeps_no_end_from_being_asked_about(
    node: Node, daemon: Daemon
) -> None:
    configure(node, daemon, FIRSTFAULT_PENDING_ASK_S="1000")
    node.end_job(**QUIET)
    node.collect()
    set_time(kept(node)[0], time.time() + 30 * 86400)
    daemon.word = lambda _: {"wanted": "no"}

    node.collect()

    assert len(daemon.ids) == 1
    assert kept(node) == []


@pytest.mark.parametrize(
    "count", [12, pytest.param(500, marks=pytest.mark.soak)], ids=["short", "long"]
)
def test_a_collector_killed_at_any_moment_loses_no_end_and_asks_about_none_for_ever(
    node: Node, daemon: Daemon, count: int
) -> None:
    chance = random.Random(count)
    jobs = [str(100 + number) for number in range(count)]

    def word(row: dict[str, Any]) -> object:
        if chance.random() < 0.3:
            return {"wanted": "later"}
        return {"wanted": "yes" if int(row["job"]) % 2 else "no"}

    daemon.word = word
    for job in jobs:
        node.end_job(SLURM_JOB_ID=job, **QUIET)
        with collecting(node):
            time.sleep(chance.uniform(0.0, 0.5))
        ask_now(node)
    wait_until(lambda: is_done_after_another_run(node), 600)

    sent = {record.job for record in daemon.records}
    # One at which three collectors died is not tried for ever, and not lost.
    aside = list((node.spool / "pending/quarantine").glob("*.reason"))
    assert sent | {path.name.split("-")[1] for path in aside} == set(jobs[1::2])
    assert {path.read_text() for path in aside} <= {"3 collectors died or failed on it\n"}
    assert len(aside) <= count // 50
    assert node.waiting("quarantine") == []


def is_done_after_another_run(node: Node) -> bool:
    ask_now(node)

    def is_put_off() -> bool:
        try:
            waits_s = [path.lstat().st_mtime - time.time() for path in kept(node)]
        except FileNotFoundError:
            # Begun just now.
            return False
        return waits_s != [] and min(waits_s) > 0

    with collecting(node) as process:
        wait_until(lambda: process.poll() is not None or is_put_off(), 200)
    unsent = list(node.spool.glob("*.json.gz"))
    return not (kept(node) or node.waiting() or node.waiting("claimed") or unsent)
