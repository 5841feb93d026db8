"""Records on their way to the daemon: none is lost, whatever the daemon answers or does not."""

from __future__ import annotations

import json
import os
import pwd
import random
import re
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firstfault_epilog import backlog, collector
from tests.epilog.node import Node, run_script
from tests.epilog.receiver import KNOWN, STORED, Receiver, Reply, Request
from tests.epilog.test_rank_logs import Ranks

HOUR = {"Retry-After": "600"}


@pytest.fixture
def daemon() -> Iterator[Receiver]:
    """A daemon that stores everything, unless told otherwise."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def node(node: Node, daemon: Receiver) -> Node:
    """A node that sends to `daemon`, signed with a key; its spool is not made yet."""
    node.spool.rmdir()
    key = node.folder / "key"
    key.touch(0o400)
    key.write_bytes(os.urandom(32).hex().encode() + b"\n")
    node.configure(**sending_to(node, daemon.url))
    return node


def sending_to(node: Node, url: str, **more: str) -> dict[str, str]:
    """The keys that make the node send."""
    return {"FIRSTFAULT_DAEMON": url, "FIRSTFAULT_KEY_FILE": f"{node.folder}/key", **more}


def waiting(node: Node) -> list[str]:
    """The names of the records that the daemon does not have."""
    return sorted(path.name for path in node.spool.glob("*.json.gz"))


def refused(node: Node) -> list[str]:
    return sorted(path.name for path in (node.spool / "refused").glob("*"))


def collect_until(node: Node, done: Callable[[], bool], seconds: float = 20.0) -> None:
    """Runs a collector that would wait for a daemon, until ``done``."""
    process = subprocess.Popen(node.command(), env={}, stderr=subprocess.DEVNULL)
    try:
        stop_at = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < stop_at, "it did not come to that"
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()


def forget_waits(node: Node) -> None:
    """Lets the next collector try at once, as after the time."""
    now = backlog.state(str(node.queue))
    backlog.remember(str(node.queue), now._replace(all=backlog.Attempts(), troubled={}))


@pytest.mark.parametrize("answer", [STORED, KNOWN, Reply(200, {"result": "kept, for later"})])
def test_a_record_is_removed_once_the_daemon_has_it(
    node: Node, daemon: Receiver, answer: Reply
) -> None:
    daemon.answer = lambda _: answer
    node.end_job()

    done = node.collect()

    (request,) = daemon.requests
    assert (done.returncode, done.stderr) == (0, "")
    assert (request.method, request.path, request.record["node"]) == ("POST", "/v1/records", "n3")
    assert waiting(node) == []
    assert stat.S_IMODE(node.spool.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "answer",
    [
        Reply(None),
        Reply(200, b"<html>Log in to the network</html>"),
        Reply(200, {"answers": {}}),
        Reply(204),
        Reply(301, None, {"Location": "http://127.0.0.1:9/v1/records"}),
        Reply(401, {"error": "clock"}),
        Reply(403, {"error": "no"}),
        Reply(404, {"error": "what?"}),
        Reply(429, {"error": "slowly"}, HOUR),
        Reply(500),
        Reply(503, {"error": "full"}, HOUR),
    ],
    ids=lambda reply: str(reply.status),
)
def test_what_was_not_stored_is_kept_and_sent_when_the_daemon_takes_it(
    node: Node, daemon: Receiver, answer: Reply
) -> None:
    daemon.answer = lambda _: answer
    node.end_job()
    collect_until(node, lambda: (node.queue / "sending").exists())
    kept = waiting(node)
    daemon.answer = lambda _: STORED
    forget_waits(node)

    done = node.collect()

    assert done.returncode == 0
    assert len(kept) == 1
    assert len(set(daemon.stored)) == 1
    assert waiting(node) == refused(node) == []


def test_a_failed_attempt_is_told_once_and_with_the_daemons_words(
    node: Node, daemon: Receiver
) -> None:
    daemon.answer = lambda _: Reply(503, {"error": "the disk\x1b[31m is full"}, HOUR)
    node.end_job()

    first = node.collect()
    second = node.collect()

    assert first.returncode == second.returncode == 0
    assert f"records wait in {node.spool}" in first.stderr
    assert "answered 503: the disk?[31m is full" in first.stderr
    assert second.stderr == ""


def test_as_long_as_the_daemon_asked_for_no_collector_sends_anything(
    node: Node, daemon: Receiver
) -> None:
    daemon.answer = lambda _: Reply(503, None, HOUR)
    node.end_job()
    node.collect()
    left_s = backlog.wait_s(backlog.state(str(node.queue)).all, time.time())
    node.end_job()

    node.collect()

    assert 590 < left_s < 730
    assert len(daemon.requests) == 1
    assert len(waiting(node)) == 2


@pytest.mark.parametrize("words", ["-1", "soon", "1e9", "99999999999999999999", "3600000"])
def test_no_answer_silences_a_node_for_longer_than_an_hour_or_so(
    node: Node, daemon: Receiver, words: str
) -> None:
    daemon.answer = lambda _: Reply(503, None, {"Retry-After": words})
    node.end_job()

    collect_until(node, lambda: (node.queue / "sending").exists())

    left_s = backlog.state(str(node.queue)).all.not_before_s - time.time()
    assert left_s < 2 * 3600


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_record_that_is_refused_is_put_aside_with_the_daemons_reason(
    node: Node, daemon: Receiver, status: int
) -> None:
    daemon.answer = lambda _: Reply(status, {"error": "job is not a number"})
    node.end_job()

    done = node.collect()

    assert done.returncode == 0
    assert waiting(node) == []
    name, reason = refused(node)
    assert "job is not a number" in (node.spool / "refused" / reason).read_text()
    assert name in done.stderr and "job is not a number" in done.stderr


def test_a_record_that_fails_alone_holds_up_no_other(node: Node, daemon: Receiver) -> None:
    bad = "13"
    daemon.answer = lambda r: Reply(500) if r.record["job"] == bad else STORED
    for job in ("11", "12", bad, "14", "15"):
        node.end_job(SLURM_JOB_ID=job)

    collect_until(node, lambda: len(daemon.stored) == 4 and len(waiting(node)) == 1)

    assert [name.split("-")[1] for name in waiting(node)] == [bad]


def test_the_newest_goes_first_and_many_that_fail_in_a_row_end_the_attempt(
    node: Node, daemon: Receiver
) -> None:
    daemon.answer = lambda _: Reply(401, {"error": "your clock is wrong"}, HOUR)
    for number in range(10):
        node.end_job(SLURM_JOB_ID=str(number))
        if number == 0:
            node.collect()

    node.collect()

    assert daemon.requests[0].record["job"] == "0"
    assert len(daemon.requests) <= 5
    assert len(waiting(node)) == 10


def test_while_the_daemon_is_away_new_ends_are_collected_at_once(
    node: Node, daemon: Receiver
) -> None:
    daemon.answer = lambda _: Reply(503, None, {"Retry-After": "30"})
    node.end_job()
    process = subprocess.Popen(node.command(), env={}, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: (node.queue / "sending").exists())
        node.end_job()
        wait_for(lambda: len(waiting(node)) == 2)

        assert process.poll() is None
        assert len(daemon.requests) == 1
    finally:
        process.kill()
        process.wait()


def test_while_the_daemon_does_not_answer_new_ends_are_collected_at_once(
    node: Node, daemon: Receiver
) -> None:
    ended = threading.Event()
    daemon.answer = lambda _: STORED if ended.wait(60) else Reply(None)
    node.end_job()
    process = subprocess.Popen(node.command(), env={}, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: daemon.requests != [])
        node.end_job()
        wait_for(lambda: len(waiting(node)) == 2)
        ended.set()

        assert process.wait(60) == 0
        assert len(set(daemon.stored)) == 2
    finally:
        ended.set()
        process.kill()
        process.wait()


def wait_for(done: Callable[[], bool], seconds: float = 20.0) -> None:
    stop_at = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < stop_at
        time.sleep(0.02)


def test_a_daemon_that_comes_back_within_a_moment_gets_the_record_of_the_same_run(
    node: Node, daemon: Receiver
) -> None:
    answers = [Reply(503), Reply(None), STORED]
    daemon.answer = lambda _: answers.pop(0)
    node.end_job()

    done = node.collect()

    assert done.returncode == 0
    assert (answers, waiting(node)) == ([], [])


def test_the_oldest_are_dropped_counted_and_told_in_the_next_record_that_arrives(
    node: Node, daemon: Receiver
) -> None:
    daemon.answer = lambda _: Reply(503, None, HOUR)
    # A record takes a block of the disk, 4 KiB as a rule.
    node.configure(**sending_to(node, daemon.url, FIRSTFAULT_KEEP_MB="0.013"))
    said = ""
    for _ in range(5):
        node.end_job()
        said += node.collect().stderr
    lost = 5 - len(waiting(node))
    forget_waits(node)
    daemon.answer = lambda _: STORED
    for _ in range(2):
        node.end_job()
        node.collect()

    arrived = [r.record for r in daemon.requests if r.record["id"] in daemon.stored]
    told = [re.findall("([0-9]+) earlier records of this", " ".join(r["notes"])) for r in arrived]
    assert 0 < lost < 5
    assert said.count("1 records that could not be sent were dropped") == lost
    # The sixth, too, took the oldest one's place; the seventh tells of that.
    assert [told[0], told[-1]] == [[str(lost)], ["1"]]
    assert backlog.state(str(node.queue)).dropped == 0


@pytest.mark.parametrize(
    ("answer", "keep_mb", "stays"),
    [
        (STORED, "256", False),
        (KNOWN, "256", False),
        (Reply(503, None, HOUR), "256", True),
        (Reply(503, None, HOUR), "0.000001", True),
        (Reply(422, {"error": "no"}), "256", True),
    ],
    ids=["stored", "known", "unsent", "dropped", "refused"],
)
def test_rank_logs_are_removed_once_the_daemon_has_the_record_and_not_where_it_was_lost(
    node: Node,
    daemon: Receiver,
    owner: pwd.struct_passwd,
    answer: Reply,
    keep_mb: str,
    stays: bool,
) -> None:
    ranks = Ranks(node, owner)
    ranks.configure(**sending_to(node, daemon.url, FIRSTFAULT_KEEP_MB=keep_mb))
    daemon.answer = lambda _: answer
    folder = ranks.write("12.n3")
    ranks.end_job()
    ranks.collect()

    ranks.collect()

    assert folder.exists() == stays


def test_a_reading_of_the_state_survives_whatever_stands_there(node: Node) -> None:
    node.queue.mkdir(exist_ok=True)
    for text in (
        "",
        "{",
        "[]",
        '{"all": [1]}',
        '{"all": ["NaN", NaN], "troubled": {}}',
        "9" * 5000,
    ):
        (node.queue / "sending").write_text(text)
        assert backlog.state(str(node.queue)) == backlog.State()


def test_the_timers_run_of_the_script_sends_what_waits(node: Node, daemon: Receiver) -> None:
    daemon.answer = lambda _: Reply(503, None, HOUR)
    node.end_job()
    node.collect()
    forget_waits(node)
    daemon.answer = lambda _: STORED

    done = run_script(node, "collect")

    assert (done.returncode, waiting(node)) == (0, [])


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_spool_into_which_others_may_write_is_not_used(
    node: Node, daemon: Receiver, mode: int
) -> None:
    node.spool.mkdir()
    node.spool.chmod(mode)
    node.end_job()

    done = node.collect()

    assert done.returncode == collector.NOT_NOW
    assert "others own it or may write to it" in done.stderr
    assert daemon.requests == []
    node.spool.chmod(0o700)
    assert node.collect().returncode == 0
    assert len(daemon.stored) == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"no gzip", "it is not a record"), (b"", "it is not a record")],
)
def test_what_is_no_record_is_put_aside_and_not_sent(
    node: Node, daemon: Receiver, data: bytes, why: str
) -> None:
    node.end_job()
    node.spool.mkdir(0o700)
    (node.spool / "x-1-n3-0.json.gz").write_bytes(data)

    node.collect()

    assert len(daemon.requests) == 1
    assert why in (node.spool / "refused" / "x-1-n3-0.json.gz.reason").read_text()


def test_a_link_in_the_spool_is_not_followed(node: Node, daemon: Receiver) -> None:
    node.end_job()
    node.spool.mkdir(0o700)
    (node.folder / "secret").write_bytes(b"secret")
    (node.spool / "x-1-n3-0.json.gz").symlink_to(node.folder / "secret")

    node.collect()

    assert len(daemon.requests) == 1
    assert all(b"secret" not in request.body for request in daemon.requests)


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [20, pytest.param(300, marks=pytest.mark.soak)], ids=["short", "long"]
)
def test_a_collector_killed_at_any_moment_of_sending_loses_no_record(
    node: Node, daemon: Receiver, count: int
) -> None:
    seen: set[str] = set()
    delays = random.Random(count)
    answers = random.Random(count + 1)

    def answer(request: Request) -> Reply:
        time.sleep(answers.uniform(0.0, 0.02))
        if answers.random() < 0.2:
            return Reply(None)
        known = request.record["id"] in seen
        seen.add(request.record["id"])
        time.sleep(answers.uniform(0.0, 0.02))
        return KNOWN if known else STORED

    daemon.answer = answer
    for _ in range(count):
        node.end_job()
        process = subprocess.Popen(
            node.command(), env={}, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(delays.uniform(0.05, 0.5))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        for path in node.waiting("claimed"):
            path.rename(path.with_name("0." + path.name.partition(".")[2]))
    daemon.answer = lambda r: seen.add(r.record["id"]) or STORED
    forget_waits(node)

    done = node.collect()

    assert done.returncode == 0
    assert len(seen) == count
    assert waiting(node) == refused(node) == node.waiting() == node.waiting("quarantine") == []
    assert [path.name for path in node.spool.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("nodes", "name", "seconds"),
    [
        ("n[1-64]", "n64", 0.0),
        ("n[1-65]", "n65", 0.128),
        ("n[00001-16384]", "n16384", 32.766),
        ("a[1-40],b[01-40]", "b02", 0.082),
        ("n[1-100]", "m1", 0.0),
        ("n[1-", "n1", 0.0),
        ("", "n1", 0.0),
    ],
)
def test_nodes_of_a_large_job_go_one_after_the_other(nodes: str, name: str, seconds: float) -> None:
    assert backlog.stagger_s(nodes, name) == pytest.approx(seconds)


def test_a_node_of_a_large_job_waits_for_its_turn(node: Node, daemon: Receiver) -> None:
    begun_at = time.time()
    node.end_job(SLURMD_NODENAME="n1000", SLURM_NODELIST="n[1-1000]")

    node.collect()

    assert len(daemon.stored) == 1
    assert time.time() - begun_at > 1.998


def test_waits_grow_to_minutes_and_differ_from_node_to_node() -> None:
    attempts = backlog.Attempts()
    waits = []
    for _ in range(12):
        attempts = backlog.failed(attempts, 0.0, 1000.0, 1.0)
        waits.append(attempts.not_before_s - 1000.0)

    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert max(waits) == waits[-1] == backlog.BACK_OFF_MAX_S
    assert backlog.failed(attempts, 0.0, 0.0, 0.0).not_before_s == backlog.BACK_OFF_MAX_S / 2
    assert backlog.failed(attempts, 300.0, 0.0, 0.0).not_before_s > 300.0


def test_a_clock_that_was_set_back_does_not_stop_sending() -> None:
    assert backlog.wait_s(backlog.Attempts(3, 1_000_000.0), 100.0) == 0.0


def test_nothing_of_the_environment_leads_elsewhere(node: Node, daemon: Receiver) -> None:
    node.end_job()
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")

    subprocess.run(node.command(), env=proxies, timeout=60)

    assert len(daemon.stored) == 1


def test_the_state_names_no_secret(node: Node, daemon: Receiver) -> None:
    daemon.answer = lambda _: Reply(401, {"error": "no"}, HOUR)
    node.end_job()

    done = node.collect()

    key = (node.folder / "key").read_text().strip()
    assert key not in done.stderr
    assert key not in (node.queue / "sending").read_text()
    assert json.loads((node.queue / "sending").read_text())["dropped"] == 0
    assert Path(node.queue / "sending").stat().st_mode & 0o077 == 0
