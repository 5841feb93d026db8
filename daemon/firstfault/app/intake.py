"""The intake by HTTP as the daemon runs it: the store behind it, its key and certificate, its log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from firstfault.app import counters, workers
from firstfault.app.certificate import certificate_of
from firstfault.app.inquiry import Inquiry
from firstfault.app.journal import say
from firstfault.app.refusals import Refusals
from firstfault.app.wanted import Decisions
from firstfault.app.workers import Parts, StartError, Worker, now
from firstfault.config import Intake
from firstfault.intake import listener, munge, record, signing
from firstfault.intake.batch import Room, Writer
from firstfault.intake.refused import Aside
from firstfault.intake.requests import RECORDS, Answered, Requests
from firstfault.model.jobs import Incoming
from firstfault.model.slurm import JobFacts
from firstfault.slurm.facts import FactsError
from firstfault.store import evidence

# Two records at a time are unpacked; each may be spool.max_record_bytes large, several times over.
CHECKING = 2
VERIFYING = 16
ASKING = 16
WAITING_FOR_SLURM = 8

_RESULTS = {422: "quarantine"}
# What nodes ask for; a stranger's paths are counted together.
PATHS = ("/v1/records", "/v1/wanted", "/healthz")


@contextmanager
def serving_intake(parts: Callable[[], Parts]) -> Iterator[None]:
    """Takes records in by HTTP, where that is turned on. ``parts`` gives those of the moment.

    Raises `StartError`.
    """
    config = parts().config
    intake = config.intake
    if not intake.enabled:
        yield
        return
    signatures = signatures_of(intake)
    certificate = certificate_of(intake)
    try:
        sock = listener.listening(intake.host, intake.port)
    except OSError as error:
        raise StartError(
            f"intake: cannot listen on {intake.host} port {intake.port}: {error.strerror}. "
            f"Is another firstfault running? Set intake.port to a free one."
        ) from error
    counters.begin_intake()
    bells = parts().bells
    writer = Writer(lambda records: _keep(parts(), records), lambda: bells.ring("intake-store"))
    inquiry = _inquiry(parts)
    refusals = Refusals()
    with ExitStack() as stack:
        stack.callback(refusals.tell_all)
        stack.callback(sock.close)
        stack.callback(writer.close)
        pools = [
            stack.enter_context(ThreadPoolExecutor(count, f"intake-{name}"))
            for name, count in (("check", CHECKING), ("verify", VERIFYING), ("ask", ASKING))
        ]
        stack.enter_context(_working(parts(), "intake-store", writer.write))
        stack.enter_context(_working(parts(), "intake-refusals", refusals.once))
        if certificate is not None:
            stack.enter_context(_working(parts(), "intake-certificate", certificate.renew))
        if inquiry is not None:
            stack.enter_context(_working(parts(), "intake-ask", partial(_ask, inquiry)))
        requests = Requests(
            signatures=signatures,
            writer=writer,
            room=Room(intake.max_waiting_bytes),
            limits=record.Limits(config.spool.max_file_bytes, config.spool.max_record_bytes),
            aside=Aside(Path(config.spool.dir)),
            wanted=Decisions(parts().database, inquiry, lambda: parts().config.ends, now).answer,
            checking=pools[0],
            verifying=pools[1],
            asking=pools[2],
            seen=partial(note_answer, refusals=refusals),
        )
        times = listener.Times(intake.head_s, intake.body_s)
        tls = None if certificate is None else certificate.context
        served = listener.Listener(requests.handle, sock, tls, times, intake.max_connections)
        stack.enter_context(listener.serving(served))
        say(logging.INFO, "intake", url=listener.address(sock, tls is not None))
        yield


def signatures_of(intake: Intake) -> signing.Signatures:
    """Who checks signatures, as configured. Raises `StartError`."""
    try:
        decode = munge.decoder(intake.munge_socket) if intake.munge else None
    except munge.MungeAway as error:
        raise StartError(f"intake.munge: {error}") from error
    key = None
    if intake.key_file:
        try:
            key = signing.read_key(Path(intake.key_file))
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else error
            raise StartError(
                f"intake.key_file {intake.key_file}: {said}. It holds the key that all nodes have, "
                f"readable by root and the daemon's user only."
            ) from error
    return signing.Signatures(decode, key, frozenset(intake.uids), time.time)


def _inquiry(parts: Callable[[], Parts]) -> Inquiry | None:
    if parts().config.slurm.source == "none":
        return None

    def ask(jobs: Sequence[str]) -> dict[str, list[JobFacts]]:
        return parts().slurm.facts(jobs)

    return Inquiry(ask, lambda: parts().bells.ring("intake-ask"), WAITING_FOR_SLURM)


def _ask(inquiry: Inquiry) -> int:
    try:
        return inquiry.ask()
    except FactsError as error:
        say(logging.WARNING, "slurm-not-answering", error=error)
        return 0


def _keep(parts: Parts, records: Sequence[Incoming]) -> frozenset[str]:
    new = evidence.keep(parts.database, records, now())
    counters.count_records("push", len(records), len(new))
    parts.bells.ring("judge")
    jobs = sorted({record.job for record in records})
    say(logging.INFO, "records", count=len(records), new=len(new), jobs=",".join(jobs[:20]))
    return new


@contextmanager
def _working(parts: Parts, name: str, once: Callable[[], int]) -> Iterator[None]:
    """A worker that outlives a reload, and ends after the listener that hands it its work."""
    stop = threading.Event()
    thread = threading.Thread(
        target=workers.loop, args=(name, Worker(once), parts.bells, stop), name=name, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        parts.bells.ring(name)
        thread.join(listener.STOP_S)


def note_answer(answered: Answered, refusals: Refusals) -> None:
    """Counts a request, and logs what was refused; records that were taken are counted where they
    are stored."""
    path, status = answered.path, answered.status
    counters.REQUESTS.labels(path if path in PATHS else "other", status).inc()
    counters.REQUEST_SECONDS.observe(answered.seconds)
    if answered.reason is None:
        return
    if path == RECORDS:
        counters.RECORDS.labels("push", _RESULTS.get(status, "refused")).inc()
    level = logging.DEBUG if status in (429, 404, 405) else logging.WARNING
    refusals.note(level, answered.peer, path, status, answered.reason)
