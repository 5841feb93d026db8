"""A large job is read by several processes, and told as if it were read by one."""

from __future__ import annotations

import datetime as dt
import gzip
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from firstfault.app.reading_processes import _PROGRAM, ReadingProcesses
from firstfault.diagnosis import diagnose
from firstfault.intake.case import case
from firstfault.model import verdict as v
from firstfault.model.case import Case
from firstfault.model.document import Document, Excerpt
from firstfault.model.evidence import decode
from firstfault.runs.reading import read_documents
from firstfault.signatures import use_compiled, use_site
from tests.app.processes import children
from tests.bench import large_job
from tests.bench.large_job import Job
from tests.diagnosis.case_files import NAMES
from tests.diagnosis.case_files import case as recorded

WORKER = "firstfault.app.reading_worker"
JOB = Job(40, dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC), kib=8)
SITE = """
[[signature]]
id = "site.flux"
target = "line"
means = "gpu.bus-lost"
pattern = 'flux capacitor \\d+ is empty'
samples = ['flux capacitor 7 is empty']
near_misses = ['flux capacitor x is empty']
reference = 'a program'
wrong_if = 'it is not'
"""


@pytest.fixture(name="job", scope="module")
def _job() -> Case:
    bodies = (large_job.body(JOB, number) for number in range(1, JOB.nodes + 1))
    return case([decode(gzip.decompress(body)) for body in bodies], None)


@pytest.fixture(name="site")
def _site() -> Iterator[None]:
    use_site({"site.toml": SITE})
    yield
    use_compiled(())


def test_a_large_job_is_judged_as_by_one_process(job: Case) -> None:
    alone = diagnose(job)
    together = diagnose(job, ReadingProcesses(processes=2, many=1))

    assert alone.initiator.rank == JOB.culprit
    assert v.encode(together) == v.encode(alone)
    assert children(WORKER) == []


def test_recorded_cases_are_read_as_by_one_process() -> None:
    documents = [each for name in NAMES[::4] for each in recorded(name).documents]

    assert ReadingProcesses(processes=2, many=1)(documents) == read_documents(documents)


def test_a_small_job_starts_no_process(job: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstfault.app.reading_processes._PROGRAM", ("/nonexistent",))

    assert ReadingProcesses(processes=2)(job.documents[:50]) == read_documents(job.documents[:50])


def test_without_processes_it_is_read_all_the_same(
    job: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstfault.app.reading_processes._PROGRAM", ("/bin/false",))

    assert ReadingProcesses(processes=2, many=1)(job.documents) == read_documents(job.documents)
    assert children(WORKER) == []


def test_signatures_of_the_site_count_there(site: None) -> None:
    said = Document("a.out", (Excerpt(0, 1, b"flux capacitor 7 is empty\n" * 3),))
    (found, _) = ReadingProcesses(processes=2, many=1)([said, said])

    assert any(getattr(each, "signature", "") == "site.flux" for each in found.events)


def test_a_process_that_is_killed_in_the_midst_loses_nothing(job: Case) -> None:
    killed: list[int] = []

    def kill() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and not killed:
            for each in children(WORKER):
                each.kill()
                killed.append(each.pid)
                return

    thread = threading.Thread(target=kill)
    thread.start()
    found = ReadingProcesses(processes=2, many=1)(list(job.documents) * 6)
    thread.join()

    assert killed
    assert found == read_documents(job.documents) * 6
    assert children(WORKER) == []


@pytest.mark.parametrize("given", [b"", (1_000).to_bytes(8, "big") + b"cut off"], ids=len)
def test_it_ends_where_its_input_ends(given: bytes) -> None:
    ended = subprocess.run(_PROGRAM, input=given, capture_output=True, check=True, timeout=60)

    assert ended.stdout == b""
