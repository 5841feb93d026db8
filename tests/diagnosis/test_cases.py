"""Every recorded case gets its verdict, and what the verdict quotes stands where it says."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from firstfault.model.case import Case
from firstfault.streams.lines import LONGEST_QUOTE
from tests.diagnosis.case_files import NAMES, case, expected, explain, files, judged


@pytest.mark.parametrize("name", judged())
def test_a_recorded_run_gets_its_verdict(name: str) -> None:
    truth = expected(name)

    verdict = explain(files(name))

    assert verdict.cause.id in truth["cause"]
    assert verdict.initiator.rank == truth.get("rank")
    assert verdict.initiator.host == truth.get("host")
    assert [member.rank for member in verdict.initiator.also] == truth.get("also", [])
    if "confidence" in truth:
        assert verdict.cause.confidence == truth["confidence"]
    if "key" in truth:
        assert truth["key"] in verdict.evidence[0].text


def whole_file(name: str, file: str) -> bytes | None:
    """The bytes of a case's file, from disk or from a record; None where a record has a part."""
    if Path(file).exists():
        data = Path(file).read_bytes()
        return gzip.decompress(data) if file.endswith(".gz") else data
    (document,) = (each for each in case(name).documents if each.name == file)
    return document.excerpts[0].data if document.complete else None


@pytest.mark.parametrize("name", NAMES)
def test_every_quoted_line_stands_in_its_file_at_its_place(name: str) -> None:
    verdict = explain(files(name))
    quoted = [
        *verdict.evidence,
        *verdict.unexplained,
        *(each.example for each in verdict.consequences if each.example is not None),
    ]

    for each in quoted:
        data = whole_file(name, each.file)
        if data is None or each.source in ("Kubernetes status", "flight recorder"):
            # A pod's status in JSON and the numbers of a dump are told, not quoted.
            continue
        assert each.line is not None
        assert each.offset is not None
        line = data.split(b"\n")[each.line - 1].decode("utf-8", "replace")
        shown = each.text.rstrip("\ufffd")
        assert line.startswith(shown)
        assert len(shown) >= min(len(line), LONGEST_QUOTE, 590)
        assert data[: each.offset].count(b"\n") == each.line - 1
        assert each.offset == 0 or data[each.offset - 1 : each.offset] == b"\n"


@pytest.mark.parametrize("name", ["oom-4n", "loader_oom", "restart_recovers", "exc_all"])
def test_the_order_of_the_paths_changes_nothing(name: str) -> None:
    paths = files(name)
    shuffled = list(paths)
    random.Random(7).shuffle(shuffled)

    assert v.encode(explain(shuffled)) == v.encode(explain(paths))


def test_a_console_alone_names_the_rank_of_an_oom_kill_that_slurm_noticed() -> None:
    paths = [path for path in files("oom-4n") if path.endswith("slurm.out")]

    verdict = explain(paths)

    assert verdict.cause.id == "memory.cgroup-oom"
    assert (verdict.initiator.rank, verdict.initiator.host) == (5, "n4")


def test_one_node_less_never_makes_a_wrong_rank_sure() -> None:
    truth = expected("oom-4n")
    paths = [path for path in files("oom-4n") if "kmsg" not in path and "slurm.out" not in path]

    verdict = explain(paths)

    if verdict.initiator.confidence == v.CONFIRMED:
        assert verdict.initiator.rank == truth["rank"]


def test_another_jobs_oom_kill_in_the_same_kernel_log_is_not_this_jobs(tmp_path: Path) -> None:
    kernel = (Path(files("oom-4n")[0]).parent / "kmsg.txt").read_text()
    (tmp_path / "kmsg.txt").write_text(kernel.replace("job_12", "job_99"))
    paths = [path for path in files("segv") if not path.endswith("kmsg.txt")]

    verdict = explain([*paths, str(tmp_path / "kmsg.txt")])

    assert verdict.cause.id == "process.segfault"
    assert verdict.initiator.rank == 3
    assert verdict.cause.confidence == v.CONFIRMED


def test_slurms_word_that_the_job_succeeded_outweighs_errors_in_its_log(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text(
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in f\n'
        "ValueError: caught and logged\n"
        "step 7 loss 0.1\n"
    )
    sacct = Path(next(path for path in files("success") if path.endswith("sacct.txt")))
    (tmp_path / "sacct.txt").write_bytes(sacct.read_bytes())

    verdict = explain([str(tmp_path)])

    assert verdict.cause.id == "none"
    assert verdict.cause.confidence == v.CONFIRMED


def test_a_console_that_does_not_tell_how_the_job_ended_makes_no_failed_attempt_sure() -> None:
    consoles = tuple(each for each in case("live-recovered").documents if each.what == "job-output")

    verdict = diagnose(Case(consoles))

    assert verdict.cause.confidence != v.CONFIRMED
    assert verdict.initiator.confidence != v.CONFIRMED
