"""The daemon takes records in by HTTP: a real process, a real munged, kills in the middle."""

from __future__ import annotations

import datetime as dt
import http.client
import random
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from firstfault.store.database import connect
from firstfault.store.schema import evidence
from tests.app.processes import Daemon, configure, serve_once
from tests.bench.large_job import Job, body
from tests.intake import munged as own_munged
from tests.intake import senders
from tests.intake.munged import Munged
from tests.intake.records import fields
from tests.intake.senders import packed

ENDED_AT = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)

munged = own_munged.munged


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(senders.KEY)
    path.chmod(0o600)
    return path


def configured(folder: Path, **intake: object) -> Path:
    own = {"enabled": True, "port": 0, "munge": False, "key_file": str(folder / "key")}
    return configure(folder, intake=own | intake, judge={"settle_s": 900.0})


def port(daemon: Daemon) -> int:
    return int(daemon.wait_for(r"event=intake url=http://127\.0\.0\.1:(\d+)")[1])


def stored(folder: Path) -> set[str]:
    with closing(connect(f"sqlite:///{folder}/ff.db")) as database, database.reading() as reading:
        return set(reading.execute(sa.select(evidence.c.record_id)).scalars())


def post(where: int, data: bytes, signature: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", where, timeout=60)
    try:
        connection.request("POST", senders.RECORDS, data, {"Authorization": signature})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_what_four_nodes_send_by_munge_becomes_a_report(tmp_path: Path, munged: Munged) -> None:
    job = Job(4, ENDED_AT)
    config = configured(tmp_path, munge=True, munge_socket=str(munged.socket), key_file="")
    with Daemon(config) as daemon:
        where = port(daemon)
        for number in range(1, 5):
            data = body(job, number)
            signed = senders.statement(data, f"n{number}")
            assert post(where, data, senders.by_munge(munged, signed)) == 200
        judged = daemon.wait_for(r"event=judged .*")[0]
        daemon.wait_for(r"event=delivered job=4242")

        assert daemon.stop() == 0

    assert "cause=python.exception confidence=confirmed rank=21 host=n3" in judged
    assert len(list((tmp_path / "reports").rglob("*.html"))) == 1


def test_a_refusal_is_logged_and_a_bad_record_kept(tmp_path: Path, key_file: Path) -> None:
    with Daemon(configured(tmp_path)) as daemon:
        assert post(port(daemon), b"x", senders.by_key(senders.statement(b"x"))) == 422
        assert post(port(daemon), b"x", "Basic x") == 401

        daemon.wait_for(
            r"event=request-refused path=/v1/records status=422 reason=.not an evidence"
        )
        daemon.wait_for(r"event=request-refused path=/v1/records status=401")
    assert len(list((tmp_path / "spool" / "quarantine").iterdir())) == 2


@pytest.mark.parametrize(
    ("intake", "said"),
    [
        ({"key_file": "/nonexistent/key"}, "intake.key_file /nonexistent/key: No such file"),
        ({"host": "0.0.0.0"}, "off loopback TLS is needed"),
        ({"tls_cert": "/etc/hostname", "tls_key": "/etc/hostname"}, "are PEM files"),
        ({"tls_cert": "/etc/hostname"}, "belong together"),
        ({"key_file": ""}, "intake.key_file must name a key"),
        ({"max_waiting_bytes": 1}, "must be spool.max_file_bytes"),
        ({"port": 99999}, "must be 0 to 65535"),
    ],
)
def test_it_does_not_start_half(
    tmp_path: Path, key_file: Path, intake: dict[str, object], said: str
) -> None:
    done = serve_once(configured(tmp_path, **intake))

    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


class Senders:
    """Nodes that send their records until each is acknowledged, whoever dies meanwhile."""

    def __init__(self, count: int, threads: int) -> None:
        self.left = [f"n{number}" for number in range(1, count + 1)]
        self.node_list = f"n[1-{count}]"
        self.acknowledged: set[str] = set()
        self.port = 0
        self.threads = [threading.Thread(target=self._send) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def _send(self) -> None:
        while True:
            try:
                node = self.left.pop()
            except IndexError:
                return
            content = fields(node, nodes=self.node_list)
            data = packed(content)
            try:
                status = post(self.port, data, senders.by_key(senders.statement(data, node)))
            except (OSError, http.client.HTTPException):
                status = 0
            if status == 200:
                self.acknowledged.add(content["id"])
            else:
                self.left.append(node)
                time.sleep(0.05)


def _kill_under_load(tmp_path: Path, count: int, kills: int) -> None:
    chance = random.Random(20261201)
    config = configured(tmp_path)
    sending = Senders(count, 8)
    for _ in range(kills):
        with Daemon(config) as daemon:
            sending.port = port(daemon)
            time.sleep(chance.uniform(0.1, 0.6))
            daemon.kill()
            acknowledged = set(sending.acknowledged)
            assert acknowledged <= stored(tmp_path)
    with Daemon(config) as daemon:
        sending.port = port(daemon)
        for thread in sending.threads:
            thread.join()

        assert daemon.stop() == 0
    assert len(sending.acknowledged) == count
    assert stored(tmp_path) == sending.acknowledged


def test_a_kill_under_load_loses_nothing_that_was_acknowledged(
    tmp_path: Path, key_file: Path
) -> None:
    _kill_under_load(tmp_path, 400, 2)


@pytest.mark.soak
def test_many_kills_under_load_lose_nothing_that_was_acknowledged(
    tmp_path: Path, key_file: Path
) -> None:
    _kill_under_load(tmp_path, 20_000, 25)
