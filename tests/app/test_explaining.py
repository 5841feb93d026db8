"""Explaining a stranger's logs: a real process each, and what it does not survive."""

from __future__ import annotations

import gzip
import lzma
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import zstandard

from firstfault.app.explaining import Processes
from firstfault.config import Explain
from firstfault.model.explained import Explained, NotExplained, Upload
from tests.app.processes import children

WORKER = "firstfault.app.explain_worker"
CASES = Path(__file__).parents[1] / "cases"
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def case(name: str) -> dict[str, bytes]:
    """The files of a recorded case, by their paths in its folder."""
    return {
        str(path.relative_to(CASES / name)): path.read_bytes()
        for path in sorted((CASES / name).rglob("*"))
        if path.is_file() and not path.name.startswith("expected.")
    }


def explained(
    files: dict[str, bytes],
    hosts: dict[str, str] | None = None,
    settings: Explain | None = None,
    signatures: str = "",
) -> Explained:
    with ExitStack() as stack:
        uploads = []
        for name, data in files.items():
            file = stack.enter_context(tempfile.TemporaryFile())
            file.write(data)
            uploads.append(Upload(name, file))
        return Processes(settings or Explain(), signatures).explain(uploads, hosts or {})


@pytest.mark.parametrize("name", ["exc", "live-oom-4n"])
def test_logs_that_are_sent_are_explained_as_those_on_disk(name: str) -> None:
    found = explained(case(name))

    assert (found.verdict.cause.id, found.verdict.cause.confidence, found.warnings) == {
        "exc": ("python.exception", "confirmed", ()),
        "live-oom-4n": ("memory.cgroup-oom", "confirmed", ()),
    }[name]


@pytest.mark.parametrize("ending", PACKED)
def test_packed_logs_are_read(ending: str) -> None:
    packed = {f"{name}{ending}": PACKED[ending](data) for name, data in case("exc").items()}

    assert explained(packed).verdict.cause.id == "python.exception"


def test_a_host_that_is_named_is_the_files() -> None:
    log = b"Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 'x'\n"
    verdict = explained({"logs/0.err": log}, {"logs": "node7"}).verdict

    assert verdict.initiator.host == "node7"


def test_when_a_file_was_sent_is_not_when_it_was_written() -> None:
    log = b"\n".join(b"step %d loss 1.0" % step for step in range(200))
    verdict = explained({"slurm.out": log}).verdict

    assert "2026" not in str(verdict.chain)
    assert all(each.earliest is None and each.latest is None for each in verdict.chain)


def test_what_cannot_be_read_is_said_and_the_rest_is_explained() -> None:
    cut = gzip.compress(os.urandom(5000))[:3000]
    found = explained({**case("exc"), "more/cut.log.gz": cut})

    assert found.verdict.cause.id == "python.exception"
    assert found.warnings == ("more/cut.log.gz: the compressed data ends too early; left out",)


def test_what_takes_too_long_is_ended_and_says_so() -> None:
    bomb = gzip.compress(bytes(16 << 20)) * 400
    with pytest.raises(NotExplained, match="longer than 2 s here"):
        explained({"bomb.gz": bomb}, settings=Explain(limit_s=2))

    assert children(WORKER) == []


def test_what_takes_too_much_memory_is_ended_and_says_so() -> None:
    with pytest.raises(NotExplained, match="more memory than 120 MiB"):
        explained(
            {f"{n}.log": b"step 1 loss 2.0\n" * 1_200_000 for n in range(4)},
            settings=Explain(max_memory_bytes=120 << 20),
        )


def test_a_process_that_breaks_off_is_a_defect_and_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstfault.app.explaining._PROGRAM", ("/bin/sh", "-c", "exit 9"))
    with pytest.raises(NotExplained, match="a defect of firstfault"):
        explained({"a.log": b"x"})

    assert [record.getMessage() for record in caplog.records] == ["explain-failed"]


def test_signatures_of_the_site_that_are_broken_are_said(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text("[[[")
    found = explained({"slurm.out": case("exc")["slurm.out"]}, signatures=str(tmp_path))

    assert found.warnings[0].startswith("without the site's own signatures: ")
    assert found.verdict.cause.id == "python.exception"
