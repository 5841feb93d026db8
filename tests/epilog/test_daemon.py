"""A node and the daemon's own intake: what one signs and sends, the other takes, and nothing else."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from firstfault.intake import munge
from tests.epilog.conftest import ROOT
from tests.epilog.node import Node, run_script
from tests.epilog.receiver import Receiver, Reply, Request, certificate
from tests.epilog.test_archive import older_pythons
from tests.epilog.test_push import collect_until, forget_waits, refused, waiting
from tests.intake import senders
from tests.intake.munged import Munged, munged
from tests.intake.served import Served, serving

__all__ = ["munged"]


@pytest.fixture
def served(tmp_path: Path, munged: Munged) -> Iterator[Served]:
    with serving(tmp_path / "daemon", decode=munge.decoder(str(munged.socket))) as intake:
        yield intake


@pytest.fixture
def node(node: Node, served: Served, munged: Munged) -> Node:
    """A node that sends to the intake, signed by munge."""
    node.spool.rmdir()
    node.configure(**by_munge(munged, f"http://127.0.0.1:{served.port}"))
    return node


def by_munge(munged: Munged, url: str) -> dict[str, str]:
    return {"FIRSTFAULT_DAEMON": url, "FIRSTFAULT_MUNGE_SOCKET": str(munged.socket)}


def by_key(node: Node, url: str, key: bytes = senders.KEY) -> dict[str, str]:
    path = node.folder / "key"
    path.touch(0o600)
    path.write_bytes(key)
    return {"FIRSTFAULT_DAEMON": url, "FIRSTFAULT_KEY_FILE": str(path)}


def passed_on(served: Served, request: Request, body: bytes) -> Reply:
    """What the intake answers to the request with another body."""
    head = {"Authorization": request.headers["Authorization"]}
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)) as connection:
        connection.request(request.method, request.path, body, head)
        answer = connection.getresponse()
        return Reply(answer.status, answer.read())


def attempt(node: Node) -> str:
    """One attempt of a collector that does not wait for another; what it said."""
    done = node.collect()
    assert done.returncode == 0
    return done.stderr


@pytest.mark.parametrize("scheme", ["munge", "key"])
def test_a_record_arrives_as_it_was_written(node: Node, served: Served, scheme: str) -> None:
    if scheme == "key":
        node.configure(**by_key(node, f"http://127.0.0.1:{served.port}"))
    (node.folder / "slurm-12.out").write_text("Traceback\n")
    node.end_job()

    said = attempt(node)

    (record,) = served.kept.records.values()
    assert (record.job, record.node) == ("12", "n3")
    assert (said, waiting(node)) == ("", [])


def test_a_record_whose_answer_got_lost_is_known(
    node: Node, served: Served, munged: Munged, tmp_path: Path
) -> None:
    node.end_job()
    with Receiver() as relay:
        node.configure(**by_munge(munged, relay.url))
        answers: list[Reply] = []

        def lose_the_first(request: Request) -> Reply:
            answers.append(passed_on(served, request, request.body))
            return Reply(None) if len(answers) == 1 else answers[-1]

        relay.answer = lose_the_first
        attempt(node)

    assert [answer.document for answer in answers] == [
        b'{"result": "stored"}',
        b'{"result": "known"}',
    ]
    assert len(served.kept.records) == 1
    assert waiting(node) == []


def altered(served: Served, request: Request) -> Reply:
    return passed_on(served, request, request.body[:-1] + b"x")


def replayed(served: Served, request: Request) -> Reply:
    passed_on(served, request, request.body)
    return passed_on(served, request, request.body)


@pytest.mark.parametrize("scheme", ["munge", "key"])
@pytest.mark.parametrize(
    ("change", "arrives"), [(altered, False), (replayed, True)], ids=["altered", "replayed"]
)
def test_what_someone_on_the_way_altered_or_sends_again_is_not_taken_and_no_record_is_lost(
    node: Node,
    served: Served,
    munged: Munged,
    scheme: str,
    change: Callable[[Served, Request], Reply],
    arrives: bool,
) -> None:
    def configure(url: str) -> None:
        node.configure(**(by_munge(munged, url) if scheme == "munge" else by_key(node, url)))

    node.end_job()
    with Receiver() as relay:
        wait = {"Retry-After": "600"}
        relay.answer = lambda request: change(served, request)._replace(headers=wait)
        configure(relay.url)
        said = attempt(node)
    stored, kept = len(served.kept.records), waiting(node)
    configure(f"http://127.0.0.1:{served.port}")
    forget_waits(node)

    attempt(node)

    assert "answered 401: " in said
    assert (stored == 1, len(kept)) == (arrives, 1)
    assert len(served.kept.records) == 1
    assert waiting(node) == refused(node) == []


def test_check_tells_that_another_key_is_not_accepted(node: Node, served: Served) -> None:
    node.configure(**by_key(node, f"http://127.0.0.1:{served.port}", b"z" * 40))

    said = run_script(node, "--check").stdout

    assert "FAIL signature by key is accepted: " in said
    assert "was not made with this daemon's key" in said


def test_a_munged_that_is_away_delays_the_record_and_loses_nothing(
    node: Node, served: Served, munged: Munged
) -> None:
    node.end_job()
    munged.stop()
    try:
        collect_until(node, lambda: (node.queue / "sending").exists())
        said = run_script(node, "--check").stdout
    finally:
        munged.start()
    kept = waiting(node)
    forget_waits(node)
    attempt(node)

    assert "FAIL signature by munge: /usr/bin/munge gave no credential: is munged running?" in said
    assert (len(kept), len(served.kept.records)) == (1, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_check_tells_that_the_daemon_answers_and_takes_the_signature(
    node: Node, served: Served
) -> None:
    node.kmsg.write_text("6,1,1,-;booted\n")

    done = run_script(node, "--check")

    assert f"ok   daemon http://127.0.0.1:{served.port}\n" in done.stdout
    assert "ok   signature by munge is accepted\n" in done.stdout
    assert "records wait)" in done.stdout
    assert node.spool.stat().st_mode & 0o777 == 0o700


def test_check_tells_what_is_wrong_with_daemon_certificate_and_key(
    node: Node, served: Served, tmp_path: Path
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: makes a certificate")
    with Receiver(certificate(tmp_path)) as other:
        settings = by_key(node, other.url)
        (node.folder / "key").chmod(0o644)
        node.configure(**settings)
        said = run_script(node, "--check").stdout
    gone = run_script(node, "--check").stdout

    assert f"FAIL daemon {other.url}: {other.url}: TLS: " in said
    assert f"FAIL signature by key: key file {node.folder}/key: others may read it" in said
    assert "Connection refused" in gone


@pytest.mark.slow
@pytest.mark.parametrize(
    "python", [sys.executable, *older_pythons()], ids=lambda path: Path(path).name
)
def test_any_python_sends_over_tls_and_trusts_no_other_certificate(
    node: Node, munged: Munged, tmp_path: Path, python: str
) -> None:
    for name in ("ours", "other"):
        (tmp_path / name).mkdir()
    ours, other = certificate(tmp_path / "ours"), certificate(tmp_path / "other")
    with serving(tmp_path / "intake", certificate=ours) as served:
        keys = by_key(node, f"https://localhost:{served.port}")
        node.configure(**keys, FIRSTFAULT_CA_FILE=str(other.certificate))
        command = [python, *node.command()[1:-3]]
        check = [*command, "check", "--config", str(node.conf)]
        refused = subprocess.run(check, env={}, capture_output=True, text=True).stdout
        node.configure(**keys, FIRSTFAULT_CA_FILE=str(ours.certificate))
        node.end_job()
        collect = [*command, "collect", "--config", str(node.conf)]
        done = subprocess.run(collect, env={}, capture_output=True, text=True, timeout=60)

    assert f"FAIL daemon https://localhost:{served.port}: " in refused
    assert "TLS: " in refused
    assert (done.returncode, done.stderr) == (0, "")
    assert len(served.kept.records) == 1


def test_munge_and_sending_need_no_more_of_roots_rights_than_the_unit_leaves(
    node: Node, served: Served
) -> None:
    unit = (ROOT / "etc/systemd/firstfault-collector.service").read_text()
    (names,) = re.findall("^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    kept = ",".join("+" + name.lower()[4:] for name in names.split())
    node.end_job()
    argv = ["setpriv", "--bounding-set", f"-all,{kept}", "--no-new-privs", *node.command()]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(served.kept.records) == 1
