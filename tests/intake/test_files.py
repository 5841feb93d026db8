"""Named files and folders become a case; what cannot be read is said."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import msgspec
import pytest
import zstandard

from firstfault.intake import files
from firstfault.intake.excerpts import WHOLE
from firstfault.intake.files import (
    LEAST_KEPT,
    MOST_KEPT,
    UnreadableInput,
    gather,
    share,
    shown,
)
from tests.intake.records import record

TEXT = b"step 0\nstep 1\n"


def names(*paths: str, hosts: dict[str, str] | None = None) -> list[tuple[str, str | None]]:
    found = gather(paths, hosts or {}, None)
    return [(each.name, each.host) for each in found.case.documents]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("n1/dmesg.txt", "n2/dmesg.txt", "slurm.out"):
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(TEXT)
    return tmp_path / "logs"


def test_a_folder_is_searched_through_in_the_order_of_its_names(logs: Path) -> None:
    assert names("logs") == [
        ("logs/n1/dmesg.txt", None),
        ("logs/n2/dmesg.txt", None),
        ("logs/slurm.out", None),
    ]


@pytest.mark.parametrize("spelling", ["logs", "./logs", "logs/", "logs//", "./logs/."])
def test_a_path_may_be_spelled_in_many_ways(logs: Path, spelling: str) -> None:
    assert [host for _, host in names(spelling, hosts={"./logs/n2/": "n2"})] == [None, "n2", None]


def test_a_file_that_several_names_lead_to_is_read_once(logs: Path) -> None:
    (logs / "latest.out").symlink_to("slurm.out")

    found = names("logs", "logs/slurm.out", "./logs/slurm.out", str(logs / "slurm.out"))

    assert len(found) == 3


def test_of_several_names_the_one_with_a_host_counts(logs: Path) -> None:
    assert names("logs/slurm.out", hosts={str(logs / "slurm.out"): "n9"}) == [
        (str(logs / "slurm.out"), "n9")
    ]


def test_the_nearest_path_gives_the_host(logs: Path) -> None:
    found = dict(names(hosts={"logs": "n0", "logs/n1": "n1"}))

    assert found == {"logs/n1/dmesg.txt": "n1", "logs/n2/dmesg.txt": "n0", "logs/slurm.out": "n0"}


def test_a_host_is_no_prefix_of_a_path(logs: Path) -> None:
    (logs / "n10").mkdir()
    (logs / "n10" / "a").write_bytes(TEXT)

    assert ("logs/n10/a", None) in names("logs", hosts={"logs/n1": "n1"})


def test_standard_input_has_a_host_where_one_is_named() -> None:
    found = gather((), {"-": "n1"}, io.BytesIO(TEXT))

    assert [(each.name, each.host, each.size) for each in found.case.documents] == [
        ("-", "n1", len(TEXT))
    ]


def test_a_file_called_minus_is_a_file(logs: Path) -> None:
    (logs.parent / "-").write_bytes(TEXT)

    assert names("./-") == [("./-", None)]


def test_a_file_knows_its_size_and_its_last_change(logs: Path) -> None:
    os.utime(logs / "slurm.out", (1_780_000_000, 1_780_000_000))

    (document,) = gather(["logs/slurm.out"], {}, None).case.documents

    assert document.size == len(TEXT)
    assert document.modified_at is not None
    assert document.modified_at.timestamp() == 1_780_000_000
    assert document.excerpts[0].data == TEXT


@pytest.mark.parametrize("times", [1, 3])
def test_frames_are_read_one_after_another(logs: Path, times: int) -> None:
    packed = {
        "a.gz": gzip.compress(TEXT),
        "a.zst": zstandard.ZstdCompressor().compress(TEXT),
    }
    for name, data in packed.items():
        (logs / name).write_bytes(data * times)

        (document,) = gather([f"logs/{name}"], {}, None).case.documents

        assert document.excerpts[0].data == TEXT * times


@pytest.mark.slow
def test_a_small_file_that_unpacks_to_much_is_read_in_parts(logs: Path) -> None:
    packed = zstandard.ZstdCompressor().compress(b"\n" * (1 << 27))
    (logs / "bomb.zst").write_bytes(packed)

    (document,) = gather(["logs/bomb.zst"], {}, None).case.documents

    assert document.size == 1 << 27
    assert sum(len(each.data) for each in document.excerpts) < 64 << 20


def test_what_cannot_be_read_is_an_error_by_name_and_a_warning_in_a_folder(logs: Path) -> None:
    (logs / "cut.zst").write_bytes(zstandard.ZstdCompressor().compress(TEXT)[:-3])

    found = gather(["logs"], {}, None)

    assert found.warnings == ("logs/cut.zst: the compressed data ends too early; left out",)
    assert len(found.case.documents) == 3
    with pytest.raises(UnreadableInput, match=r"^logs/cut\.zst: the compressed data ends"):
        gather(["logs/cut.zst"], {}, None)
    with pytest.raises(UnreadableInput, match=r"^logs/cut\.zst: "):
        gather(["logs"], {"./logs/cut.zst": "n1"}, None)


def test_a_missing_file_with_a_host_is_an_error(logs: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"^logs/gone: No such file"):
        gather(["logs"], {"logs/gone": "n1"}, None)


def test_an_evidence_record_among_files_is_read_as_one(logs: Path) -> None:
    (logs / "record.json.gz").write_bytes(gzip.compress(msgspec.json.encode(record())))

    found = gather(["logs"], {}, None)

    assert found.case.nodes_reported
    assert not found.warnings


def test_a_damaged_record_in_a_folder_is_a_warning(logs: Path) -> None:
    (logs / "record.json").write_text('{"schema": "firstfault.evidence/1"}')
    (logs / "newer.json").write_text('{"schema": "firstfault.evidence/9"}')

    warnings = gather(["logs"], {}, None).warnings

    assert [each.partition(":")[0] for each in warnings] == ["logs/newer.json", "logs/record.json"]
    assert all(each.endswith("; left out") for each in warnings)


def test_bytes_that_are_no_utf8_are_spelled_out_in_a_name() -> None:
    assert shown(os.fsdecode(b"a\xff\xe4.log")) == "a\\xff\\xe4.log"
    assert shown("zwölf.log") == "zwölf.log"


MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], WHOLE),
        ([5 * MIB, 900 * MIB], WHOLE),
        ([MIB] * 100, WHOLE),
        ([900 * MIB] * 16, MOST_KEPT // 16),
        ([MIB] * 64 + [900 * MIB] * 4, 16 * MIB),
        ([MIB] * 100_000, LEAST_KEPT),
    ],
)
def test_what_is_kept_of_all_files_together_is_bounded(sizes: list[int], expected: int) -> None:
    assert share(sizes) == expected


def test_of_many_large_files_the_fault_is_kept_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_KEPT", 4 * MIB)
    quiet = b"step 1234 loss 0.5 throughput 1234.5\n" * 40_000
    for n in range(20):
        boom = b"ValueError: boom %d\n" % n
        (tmp_path / f"rank{n:02}.log").write_bytes(quiet[: len(quiet) * n // 20] + boom + quiet)

    found = gather([str(tmp_path)], {}, None).case.documents

    assert sum(len(each.data) for document in found for each in document.excerpts) < 5 * MIB
    for n, document in enumerate(found):
        assert any(b"ValueError: boom %d\n" % n in each.data for each in document.excerpts)


def test_json_is_kept_whole_however_many_large_files_stand_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_KEPT", MIB)
    data = b'{"jobs": [' + b" " * 2 * MIB + b"]}"
    (tmp_path / "sacct.json").write_bytes(data)

    (document,) = gather([str(tmp_path)], {}, None).case.documents

    assert document.complete
    assert b"".join(each.data for each in document.excerpts) == data
