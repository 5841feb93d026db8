"""Records and questions by HTTP: what is kept, and what is answered to what cannot be."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firstfault.intake import munge, refused
from firstfault.intake.batch import StoreAway
from tests.intake import senders
from tests.intake.munged import Munged
from tests.intake.records import fields, file
from tests.intake.senders import packed
from tests.intake.served import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "spool") as own:
        yield own


def aside(served: Served, folder: str = "quarantine") -> dict[str, str]:
    """Reasons by the name of what lies there."""
    found = served.folder / folder
    return {
        path.name: path.with_name(path.name + ".reason").read_text().strip()
        for path in found.iterdir()
        if not path.name.endswith(".reason")
    }


def test_a_record_is_stored_and_the_second_copy_is_known(served: Served) -> None:
    body = packed(fields("n1"))

    assert served.post(body)[:2] == (200, {"result": "stored"})
    assert served.post(body)[:2] == (200, {"result": "known"})
    (kept,) = served.kept.records.values()
    assert kept.body == body
    assert served.told == [("/v1/records", 200, None)] * 2
    assert served.room.taken == 0


def test_a_record_that_munge_signed_is_stored_once_per_signature(
    tmp_path: Path, munged: Munged
) -> None:
    body = packed(fields("n1"))
    signature = senders.by_munge(munged, senders.statement(body))
    with serving(tmp_path / "spool", decode=munge.decoder(str(munged.socket))) as served:
        assert served.post(body, signature)[:2] == (200, {"result": "stored"})
        status, answer, _ = served.post(body, signature)
        assert status == 401
        assert "Replayed" in answer["error"]
        signature = senders.by_munge(munged, senders.statement(body))
        assert served.post(body, signature)[:2] == (200, {"result": "known"})


def test_a_munged_that_is_away_is_not_now(tmp_path: Path) -> None:
    with serving(tmp_path / "spool", decode=munge.Library(f"{tmp_path}/none")) as served:
        status, answer, after = served.post(b"x", "Firstfault-Munge MUNGE:AwQDAAC=:")

    assert status == 503
    assert "Is it running" in answer["error"]
    assert after is not None and 1 <= int(after) <= 60


@pytest.mark.parametrize(
    ("signed", "said"),
    [
        (lambda: "", "a signature is needed"),
        (lambda: senders.by_key(senders.statement(b"other")), "not the one that was signed"),
        (lambda: senders.by_key(senders.statement(b"", at=1)), "behind the daemon's clock"),
        (
            lambda: senders.by_key(senders.statement(b""), b"x" * 40),
            "not made with this daemon's key",
        ),
        (lambda: senders.by_key(senders.statement(b"", path="/v1/wanted")), "another path"),
    ],
)
def test_who_has_no_good_signature_is_not_heard(
    served: Served, signed: Callable[[], str], said: str
) -> None:
    status, answer, _ = served.post(packed(fields("n1")), signed())

    assert status == 401
    assert said in answer["error"]
    assert served.kept.records == {}
    assert aside(served) == {}


def test_a_replayed_request_is_not_heard(served: Served) -> None:
    body = packed(fields("n1"))
    signature = senders.by_key(senders.statement(body))

    assert served.post(body, signature)[0] == 200
    assert served.post(body, signature)[0] == 401


def test_a_node_sends_for_itself_alone(served: Served) -> None:
    body = packed(fields("n2"))

    status, answer, _ = served.post(body, senders.by_key(senders.statement(body, "n1")))

    assert status == 401
    assert answer["error"] == "node n1 sends a record of node n2"
    assert served.kept.records == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not an evidence record"),
        (b"{", "not an evidence record"),
        (packed(fields("n1"))[:-9], "ends too early"),
        (packed(fields("n1")) + b"x", "more data after the end"),
        (packed(fields("n1", nodes="n[2-4]")), "not in its own job's node list"),
        (packed(fields("n1") | {"job": "1; drop"}), "field 'job'"),
        (packed(fields("n1", files=[file("/x", "kernel", "y" * 2_000_000)])), "when unpacked"),
    ],
)
def test_what_can_never_be_taken_is_told_and_kept_with_the_reason(
    served: Served, body: bytes, said: str
) -> None:
    status, answer, _ = served.post(body)

    assert status == 422
    assert said in answer["error"]
    (reason,) = aside(served).values()
    assert said in reason
    assert "sent by n1" in reason


def test_the_quarantine_holds_so_much_and_each_thing_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused, "FILES_MAX", 3)
    for number in range(6):
        assert served.post(b"no record %d" % (number // 2))[0] == 422
    assert served.post(b"one more")[0] == 422

    assert len(aside(served)) == 3


def test_a_record_of_a_newer_schema_is_kept_for_a_newer_daemon(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = fields("n1") | {"schema": "firstfault.evidence/2"}

    assert served.post(packed(newer))[:2] == (200, {"result": "kept for a newer daemon"})
    monkeypatch.setattr(refused, "FILES_MAX", 1)
    status, _, after = served.post(packed(newer | {"id": "another"}))

    assert len(aside(served, "newer")) == 1
    assert (status, after) == (503, "3600")


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(served: Served) -> None:
    assert served.post(b"x" * 100_001)[0] == 413
    assert served.post(b" " * 1_000_000)[0] == 413
    assert served.room.taken == 0


def test_other_paths_and_methods_are_told_what_there_is(served: Served) -> None:
    assert served.post(b"", path="/v1/other")[0] == 404
    assert b" 405 " in served.raw(
        b"GET /v1/records HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    assert served.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").endswith(
        b"\r\n\r\nok\n"
    )


def test_a_store_that_fails_is_not_now_and_nothing_is_acknowledged(served: Served) -> None:
    served.kept.fault = OSError("disk full")
    bodies = [packed(fields(f"n{number}")) for number in (1, 2, 3)]

    for body, node in zip(bodies, ("n1", "n2", "n3"), strict=True):
        status, _, after = served.post(body, senders.by_key(senders.statement(body, node)))
        assert status == 503
        assert after is not None
    served.kept.fault = None

    assert served.kept.records == {}
    for body, node in zip(bodies, ("n1", "n2", "n3"), strict=True):
        assert served.post(body, senders.by_key(senders.statement(body, node)))[0] == 200


def test_a_record_that_the_store_cannot_take_holds_up_no_other(served: Served) -> None:
    served.kept.poison = fields("n2")["id"]
    served.kept.go.clear()
    results: dict[str, int] = {}

    def send(node: str) -> None:
        body = packed(fields(node))
        results[node] = served.post(body, senders.by_key(senders.statement(body, node)))[0]

    threads = [threading.Thread(target=send, args=(f"n{n}",)) for n in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    served.kept.go.set()
    for thread in threads:
        thread.join()

    assert results == {"n1": 200, "n2": 503, "n3": 200, "n4": 200}


def test_many_records_are_one_transaction(served: Served) -> None:
    served.kept.go.clear()
    nodes = [f"n{number}" for number in range(1, 31)]

    def send(node: str) -> None:
        body = packed(fields(node, nodes="n[1-30]"))
        assert served.post(body, senders.by_key(senders.statement(body, node)))[0] == 200

    threads = [threading.Thread(target=send, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    served.kept.go.set()
    for thread in threads:
        thread.join()

    assert len(served.kept.records) == 30
    assert len(served.kept.batches) < 10


def test_more_than_may_be_in_flight_is_told_to_come_again(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(30_000).hex()
    with serving(tmp_path / "spool", room=100_000) as served:
        served.kept.go.clear()
        statuses: list[tuple[int, str | None]] = []

        def send(number: int) -> None:
            body = packed(fields("n1", f"{number}", nodes="n1", notes=[noise]))
            status, _, after = served.post(body)
            statuses.append((status, after))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        assert served.room.taken <= 100_000
        served.kept.go.set()
        for thread in threads:
            thread.join()

        assert {status for status, _ in statuses} == {200, 429}
        assert all(after is not None for status, after in statuses if status == 429)
        assert len(served.kept.records) == sum(status == 200 for status, _ in statuses)
        assert served.room.taken == 0


QUESTION = {
    "schema": "firstfault.wanted/1",
    "node": "n1",
    "cluster": None,
    "asked": [{"id": "a1", "job": "12", "run": None, "ended_at": "2026-12-01T10:00:00.000000Z",
               "nodes": "n[1-4]", "more": 1}],
}  # fmt: skip


def ask(served: Served, question: object) -> tuple[int, dict[str, object]]:
    status, answer, _ = served.post(json.dumps(question).encode(), path=senders.WANTED)
    return status, answer


def test_a_question_is_answered(served: Served) -> None:
    assert ask(served, QUESTION) == (
        200,
        {"answers": {"a1": {"wanted": "yes", "paths": ["/x"]}}, "ask_again_s": 30},
    )


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"node": "n2"}, 401, "node n1 asks as node n2"),
        ({"schema": "firstfault.wanted/2"}, 422, "its schema is 'firstfault.wanted/2'"),
        ({"asked": QUESTION["asked"] * 501}, 422, "more than 500"),  # type: ignore[operator]
        ({"asked": [{"id": "a", "job": "1;2", "ended_at": "2026-12-01T10:00:00Z"}]}, 422, "job"),
        ({"asked": [{"id": "a", "job": "1", "ended_at": "2026-12-01T10:00:00"}]}, 422, "ended_at"),
        ({"asked": 7}, 422, "asked"),
    ],
)
def test_a_question_that_cannot_be_read_is_refused(
    served: Served, change: dict[str, object], status: int, said: str
) -> None:
    code, answer = ask(served, QUESTION | change)

    assert code == status
    assert said in str(answer["error"])


def test_a_question_while_the_store_is_away_is_not_now(served: Served) -> None:
    def away(_question: object) -> None:
        raise StoreAway("the store is away")

    served.wanted = away  # type: ignore[assignment]

    assert ask(served, QUESTION)[0] == 503
