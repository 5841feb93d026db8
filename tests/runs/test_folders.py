"""A folder named like a host that is named elsewhere says whose its files are."""

from __future__ import annotations

import pytest

from firstfault.model.case import Case
from firstfault.model.document import Document
from firstfault.model.event import OomKill, Traceback
from firstfault.model.run import KernelLog, Told
from firstfault.runs.folders import folder_host
from firstfault.runs.told import told
from tests.readers.logs import document
from tests.readers.test_epilog import TEXT as EPILOG
from tests.readers.test_kernel import KILLED, log

HOSTS = ("n1", "n2", "gpu-07.cluster")
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x\n'


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("logs/n1/dmesg.txt", "n1"),
        ("/data/gpu-07/job/dmesg.txt", "gpu-07.cluster"),
        ("gpu-07.cluster/dmesg.txt", "gpu-07.cluster"),
        ("logs/n1", None),
        ("logs/n10/dmesg.txt", None),
        ("n1/n2/dmesg.txt", None),
        ("dmesg.txt", None),
        ("", None),
    ],
)
def test_a_folder_bears_a_known_hosts_name_or_none(name: str, host: str | None) -> None:
    assert folder_host(name, HOSTS) == host


def test_a_short_and_a_full_name_are_one_host() -> None:
    assert folder_host("n1/a", ["n1.cluster", "n1"]) == "n1"


def read(*documents: Document) -> Told:
    return told(Case(documents=(document(EPILOG, "epilog.txt"), *documents)))


def kill(found: Told) -> OomKill:
    (event,) = (each.event for each in found.runs[0].happened if isinstance(each.event, OomKill))
    return event


def test_a_kernel_log_in_a_hosts_folder_is_that_hosts() -> None:
    found = read(document(log([KILLED]), "logs/n2/dmesg.txt"))

    assert kill(found).host == "n2"
    assert KernelLog("n2", "partial") in found.kernel


def test_a_folder_of_a_host_that_nobody_names_says_nothing() -> None:
    assert kill(read(document(log([KILLED]), "logs/x9/dmesg.txt"))).host is None


def test_what_a_person_said_of_a_file_outweighs_its_folder() -> None:
    assert kill(read(document(log([KILLED]), "logs/n2/dmesg.txt", host="n4"))).host == "n4"


def test_a_ranks_file_in_a_hosts_folder_is_that_hosts() -> None:
    found = read(document(TRACEBACK, "n2/r/attempt_0/1/stderr.log"))

    (event,) = (e.event for e in found.runs[0].happened if isinstance(e.event, Traceback))
    assert (event.speaker.host, event.speaker.local_rank) == ("n2", 1)


@pytest.mark.parametrize(
    "text",
    [
        "0: [default0]:step\n1: [default0]:step\n0: [default0]:step\n",
        TRACEBACK + "srun: error: n1: task 0: Exited with exit code 1\n",
        TRACEBACK
        + "slurmstepd-n1: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-03-25T10:34:07 ***\n",
    ],
)
def test_the_whole_jobs_output_is_not_the_folders_host(text: str) -> None:
    found = read(document(text, "n2/slurm.out"))

    speakers = [getattr(each.event, "speaker", None) for each in found.runs[0].happened]
    assert "n2" not in {each.host for each in speakers if each is not None}
