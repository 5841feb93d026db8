"""A file's kind comes from its content."""

from __future__ import annotations

import json

import pytest

from firstfault.readers.kind import Kind, kind
from tests.readers.logs import document
from tests.readers.test_epilog import TEXT as EPILOG
from tests.readers.test_error_file import error_file
from tests.readers.test_kernel import FORMS, SEQUENCE, log

SACCT = "JobID|JobName|State|ExitCode|NodeList\n12|train|FAILED|1:0|n[1-4]\n"


@pytest.mark.parametrize("name", ["a.log", "dmesg.txt", "error.json", "sacct.txt", "-"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (log(SEQUENCE), Kind.KERNEL),
        (error_file("ValueError: x"), Kind.ERROR_FILE),
        (EPILOG, Kind.EPILOG),
        (SACCT, Kind.SACCT_TEXT),
        ('{"schema": "firstfault.evidence/1", "id": "x"}', Kind.RECORD),
        ("step 0 loss 1.0\nstep 5 loss 0.2\n", Kind.OUTPUT),
        ("[rank0]: Traceback (most recent call last):\n", Kind.OUTPUT),
        ("[default1]:step\n[default1]:step\n", Kind.OUTPUT),
        ("2026-11-30T15:56:25.423000+00:00 INFO step 0\n", Kind.OUTPUT),
        ("\x1b[32mstep 0\x1b[0m\n", Kind.OUTPUT),
    ],
)
def test_the_name_decides_nothing(name: str, text: str, expected: Kind) -> None:
    assert kind(document(text, name)) is expected


@pytest.mark.parametrize("form", FORMS)
def test_a_kernel_log_is_told_in_each_form(form: object) -> None:
    assert kind(document(log(SEQUENCE, form))) is Kind.KERNEL  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [b"", b"\n", b"\x00" * 5_000, b" \r\n\x00\n"])
def test_an_empty_file_tells_nothing(data: bytes) -> None:
    assert kind(document(data)) is Kind.OTHER


def test_coloured_kernel_lines_are_still_a_kernel_log() -> None:
    text = "\x00" + log([f"\x1b[31m{each}" for each in SEQUENCE]).replace("[ 16", "\x1b[32m[ 16")

    assert kind(document(text)) is Kind.KERNEL


def test_a_few_kernel_lines_do_not_make_output_a_kernel_log() -> None:
    assert kind(document(log(SEQUENCE) + "step\n" * 20)) is Kind.OUTPUT


def test_what_a_job_writes_does_not_make_its_output_a_kernel_log() -> None:
    assert kind(document(log(SEQUENCE), what="job-output")) is Kind.OUTPUT
    assert kind(document(log(SEQUENCE), what="rank-log")) is Kind.OUTPUT
    assert kind(document("a line without a head\n", what="kernel")) is Kind.KERNEL


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"lr": 0.1}),
        json.dumps({"lr": 0.1}, indent=2),
        '{"step": 1}\n{"step": 2}\n',
        "[1, 2]",
    ],
)
def test_settings_and_metrics_are_no_logs(text: str) -> None:
    assert kind(document(text)) is Kind.OTHER


def test_output_that_begins_and_ends_like_json_is_output() -> None:
    text = "{'lr': 0.1}\nTraceback (most recent call last):\n{'loss': 1.0}\n"

    assert kind(document(text)) is Kind.OUTPUT
    assert kind(document('{"lr": 0.1}\nstep\nstep {}\n')) is Kind.OUTPUT


def test_a_cut_error_file_is_output_and_does_no_harm() -> None:
    assert kind(document(error_file("ValueError: x")[:-5])) is Kind.OUTPUT


def test_json_that_nests_without_end_is_survived() -> None:
    assert kind(document("[" * 200_000)) is Kind.OUTPUT
    assert kind(document('{"a":' * 100_000)) is Kind.OUTPUT
