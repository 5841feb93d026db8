"""The log: one line an event, nothing that acts in a terminal, no secret."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys

import pytest

from firstfault.app.journal import shown

SECRET = "T000/B000/very-secret"

LINES = f"""
import logging, threading, warnings
from firstfault.app import journal
journal.start("debug", FORM)
journal.hide("{SECRET}", "no")
journal.say(logging.INFO, "told", job="12", rank=3, sure=True, nothing=None, text="two\\nlines")
journal.say(logging.INFO, "told", url="https://h/{SECRET}?x", long="{SECRET}" * 1000, word="no")
try:
    raise OSError("POST /{SECRET}")
except OSError:
    journal.trouble("failed", worker="w")
logging.getLogger("urllib3").warning("retrying /%s", "{SECRET}")
logging.getLogger("urllib3").info("not worth a line")
thread = threading.Thread(target=lambda: 1 / len("{SECRET}"[100:]), name="t")
thread.start()
thread.join()
raise RuntimeError("at /{SECRET}")
"""


def log(form: str) -> list[str]:
    code = LINES.replace("FORM", repr(form))
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 1
    return ran.stderr.splitlines()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("plain-word_1.2", "plain-word_1.2"),
        (12, "12"),
        (True, "yes"),
        (dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC), "2026-11-30T16:00:00.000Z"),
        ("two words", '"two words"'),
        ('say "x"', '"say \\"x\\""'),
        ("a\nevent=forged", '"a\\nevent=forged"'),
        ("\x1b[2J", '"\\u001b[2J"'),
        ("\u202eright", '"\\u202eright"'),
        ("\udcff", '"\\udcff"'),
        ("", '""'),
    ],
)
def test_a_value_is_one_harmless_word(value: object, said: str) -> None:
    assert shown(value) == said


def test_a_long_value_is_cut() -> None:
    assert len(shown("x" * 100_000)) < 1100


def test_json_lines_hold_the_values_as_they_are() -> None:
    lines = [json.loads(line) for line in log("json")]

    assert lines[0] == {
        "time": lines[0]["time"],
        "level": "info",
        "event": "told",
        "job": "12",
        "rank": 3,
        "sure": True,
        "text": "two\nlines",
    }
    events = [line["event"] for line in lines[1:]]
    assert events == ["told", "failed", "library", "crashed", "crashed"]


def test_logfmt_lines_hold_the_same() -> None:
    lines = log("logfmt")

    assert lines[0].endswith('level=info event=told job=12 rank=3 sure=yes text="two\\nlines"')
    assert "level=error event=failed worker=w trace=" in lines[2]
    assert "level=warning event=library logger=urllib3 message=" in lines[3]
    assert "event=crashed thread=t trace=" in lines[4]
    assert "level=critical event=crashed trace=" in lines[5]
    assert len(lines) == 6


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_a_secret_is_in_no_line_whoever_quotes_it(form: str) -> None:
    said = "\n".join(log(form))

    assert "secret" not in said
    assert said.count("[hidden]") > 5
    assert "word=no" in said or '"word": "no"' in said
