"""`firstfault failures`, `nodes` and `job`, asked of a daemon's API."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import pwd
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import click
import click.testing
import msgspec
import pytest

from firstfault.app.entrance import decoding
from firstfault.cli_daemon import job
from firstfault.cli_failures import failures
from firstfault.cli_nodes import nodes
from firstfault.cli_reading import Moment
from firstfault.model import verdict as v
from firstfault.model.board import Failure, FailureFilter, Reader
from firstfault.report import text
from firstfault.web import api, server, tokens
from firstfault.web.access import Ways
from firstfault.web.application import application
from firstfault.web.guard import Entrance
from firstfault.web.signed import Signatures
from tests.fakes.serving import Serving
from tests.intake.munged import Munged, munged
from tests.web import boards

__all__ = ["munged"]

Run = Callable[..., click.testing.Result]
BOARD = boards.Remembered(boards.ends())
EVERY = BOARD.failures(boards.ADMINISTRATOR, FailureFilter(), None, 10_000).failures


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    sock = server.listener("127.0.0.1", 0)
    with server.serving(application(api.places(BOARD, None, lambda: boards.NOW)), sock):
        yield server.address(sock)


def run(command: click.Command, *arguments: str, **environment: str) -> click.testing.Result:
    clean: dict[str, str | None] = {
        name: None for name in os.environ if name.startswith("FIRSTFAULT_")
    }
    return click.testing.CliRunner().invoke(command, arguments, env=clean | environment)


def test_the_newest_failures_are_a_table_of_eighty_columns(url: str) -> None:
    shown = run(failures, "--url", url)

    lines = shown.stdout.splitlines()
    assert shown.exit_code == 0
    assert lines[0].split() == ["ENDED", "JOB", "USER", "NODES", "CAUSE", "SURE", "RANK,", "HOST"]
    assert [line.split()[2] for line in lines[1:]] == [
        f"{each.cluster}/{each.job}" for each in EVERY[:20]
    ]
    assert max(map(len, lines)) <= 80
    assert shown.stderr == "The first 20: --limit 0 lists all.\n"
    assert "\x1b" not in shown.stdout


@pytest.mark.parametrize("limit", [1, 499, 0])
def test_as_many_are_listed_as_are_asked_for(url: str, limit: int) -> None:
    shown = run(failures, "--limit", str(limit), "--format", "json", FIRSTFAULT_URL=url)

    found = msgspec.json.decode(shown.stdout, type=dict[str, list[Failure]])["failures"]
    assert found == list(EVERY[: limit or None])


def test_csv_is_what_the_api_gives(url: str) -> None:
    shown = run(failures, "--url", url, "--format", "csv", "--limit", "0")

    rows = list(csv.reader(io.StringIO(shown.stdout, newline=""), strict=True))
    assert [row[1] for row in rows[1:]] == [each.job for each in EVERY]


@pytest.mark.parametrize("option", ["cluster", "cause", "domain", "confidence", "user", "account"])
def test_each_filter_leaves_what_it_names(url: str, option: str) -> None:
    wanted = getattr(EVERY[0], option)

    shown = run(failures, "--url", url, f"--{option}", wanted, "--format", "json", "--limit", "0")

    found = json.loads(shown.stdout)["failures"]
    assert {each[option] for each in found} == {wanted}
    assert len(found) == sum(getattr(each, option) == wanted for each in EVERY)


def test_that_none_is_found_is_said_and_no_error(url: str) -> None:
    shown = run(failures, "--url", url, "--user", "nobody-at-all")

    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr == "No failure is stored that fits, or none that you may see.\n"


def test_nothing_that_users_wrote_acts_in_a_terminal(url: str) -> None:
    shown = run(failures, "--url", url, "--limit", "0")

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", shown.stdout)


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("90m", dt.timedelta(minutes=90)),
        ("12h", dt.timedelta(hours=12)),
        ("7d", dt.timedelta(days=7)),
        ("2w", dt.timedelta(days=14)),
    ],
)
def test_a_time_may_be_how_long_ago(text: str, ago: dt.timedelta) -> None:
    before = dt.datetime.now(dt.UTC)
    found = Moment().convert(text, None, None)

    assert before - ago <= found <= dt.datetime.now(dt.UTC) - ago


def test_a_time_may_be_a_day() -> None:
    midnight = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)

    assert Moment().convert("2026-11-30", None, None) == midnight


@pytest.mark.parametrize("text", ["yesterday", "999999w", "1y", "", "2026-13-01", "\x1b[31m1h"])
def test_what_is_no_time_is_bad_usage(url: str, text: str) -> None:
    shown = run(failures, "--url", url, "--since", text)

    assert shown.exit_code == 2
    assert "is no time: give one as 2026-11-30T16:00:00Z" in shown.stderr
    assert "\x1b" not in shown.stderr


def test_suspect_nodes_come_first(url: str) -> None:
    shown = run(nodes, "--url", url, "--hours", "8784", "--limit", "0")

    lines = shown.stdout.splitlines()
    assert {line.split()[0].partition("/")[2] for line in lines if " yes " in line} == {"n07"}
    assert " yes " in lines[1]
    assert max(map(len, lines)) <= 80
    assert "No failure began on any other of" in shown.stderr


def test_twenty_nodes_are_listed_unless_more_are_asked_for(url: str) -> None:
    shown = run(nodes, "--url", url, "--hours", "8784")

    assert len(shown.stdout.splitlines()) == 21
    assert re.fullmatch(r"The first 20 of \d+: --limit 0 lists all.\n", shown.stderr)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_all_nodes_are_given_to_programs(url: str, form: str) -> None:
    shown = run(nodes, "--url", url, "--hours", "8784", "--all", "--limit", "0", "--format", form)

    since = boards.NOW - dt.timedelta(days=366)
    count = len(BOARD.nodes(boards.ADMINISTRATOR, since, boards.NOW))
    if form == "json":
        assert len(json.loads(shown.stdout)["nodes"]) == count
    else:
        assert len(list(csv.reader(io.StringIO(shown.stdout, newline="")))) == count + 1


def test_a_job_is_shown_as_the_store_would_show_it(url: str) -> None:
    failure = EVERY[0]
    found = BOARD.failure(boards.ADMINISTRATOR, failure.cluster, failure.job)
    assert found is not None

    as_text = run(job, failure.job, "--url", url)
    as_json = run(job, failure.job, "--url", url, "--format", "json")
    as_html = run(job, failure.job, "--url", url, "--format", "html")

    assert as_text.stdout == text.render(found.stored.verdict, width=80, color=False)
    assert v.decode(as_json.stdout.encode()) == found.stored.verdict
    assert as_html.stdout.startswith("<!")


@pytest.mark.parametrize("arguments", [("99999",), ("../../x",), ("1", "--cluster", "other")])
def test_a_job_that_is_not_there_is_said(url: str, arguments: tuple[str, ...]) -> None:
    shown = run(job, *arguments, "--url", url)

    assert shown.exit_code == 1
    assert "is stored" in shown.stderr or "no such" in shown.stderr


def test_a_number_on_two_clusters_asks_for_one() -> None:
    twice = [*boards.ends(3)]
    facts = msgspec.structs.replace(twice[1].facts, id=twice[0].facts.id, cluster="other")
    twice[1] = twice[1]._replace(facts=facts)
    sock = server.listener("127.0.0.1", 0)
    with server.serving(application(api.places(boards.Remembered(twice))), sock):
        where = server.address(sock)
        shown = run(job, facts.id, "--url", where)
        chosen = run(job, facts.id, "--url", where, "--cluster", "other")

    assert shown.exit_code == 1
    assert "choose with --cluster" in shown.stderr
    assert chosen.exit_code == 0


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_a_daemon_that_is_not_there_is_named_with_the_remedy(form: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens
        where = f"http://127.0.0.1:{held.getsockname()[1]}"
        shown = run(failures, "--format", form, FIRSTFAULT_URL=where)

    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr == (
        f"Error: no daemon answers at {where}: Connection refused. "
        f"Is it right (FIRSTFAULT_URL), and does the daemon run?\n"
    )


@pytest.mark.parametrize("where", ["nonsense", "http://", "http://[::1", "ftp://a/", "http://a b/"])
def test_an_address_that_is_none_is_an_error_of_one_line(where: str) -> None:
    shown = run(failures, "--url", where)

    assert shown.exit_code == 1
    assert shown.stderr.count("\n") == 1
    assert where.rstrip("/") in shown.stderr


class Strange(BaseHTTPRequestHandler):
    """Answers as no firstfault does."""

    status, headers_, body = 200, (("content-type", "text/html"),), b"<html>\x1b[31m"

    def do_GET(self) -> None:
        self.send_response(self.status)
        for name, value in self.headers_:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "headers", "body", "said"),
    [
        (200, (), b"<html>", "something else than this program reads"),
        (200, (), b'{"failures": [{"job": 3}]}', "something else than this program reads"),
        (302, (("location", "https://login/\x1b"),), b"", "sends its readers on to https://login/"),
        (502, (), b"", "answers with status 502"),
        (400, (("content-type", "application/problem+json"),), b"{", "answers with status 400"),
    ],
)
def test_an_answer_of_something_else_is_said(
    status: int, headers: tuple[tuple[str, str], ...], body: bytes, said: str
) -> None:
    members = {"status": status, "headers_": headers, "body": body}
    other = Serving(type("Other", (Strange,), members))
    try:
        shown = run(failures, "--url", f"http://127.0.0.1:{other.port}")
    finally:
        other.stop()

    assert shown.exit_code == 1
    assert said in shown.stderr
    assert "\x1b" not in shown.stderr


def test_a_refusal_is_told_in_the_daemons_words(url: str) -> None:
    shown = run(failures, "--url", url, "--user", "a" * 300)

    assert shown.exit_code == 1
    assert "user has 300 characters; it may have 256" in shown.stderr


def test_a_token_tells_who_asks(tmp_path: Path) -> None:
    token, line = tokens.new("reporter", "user=alice")
    (tmp_path / "token").write_text(token + "\n")
    way = tokens.Tokens(lambda: tokens.parse(line), lambda: dt.date(2026, 11, 30))
    sock = server.listener("127.0.0.1", 0)
    app = application(api.places(BOARD), lambda: Entrance(Ways([way])))
    with server.serving(app, sock):
        where = server.address(sock)
        mine = run(failures, "--url", where, "--token-file", str(tmp_path / "token"))
        same = run(failures, FIRSTFAULT_URL=where, FIRSTFAULT_TOKEN=token)
        nobody = run(failures, FIRSTFAULT_URL=where, FIRSTFAULT_TOKEN=token[:-1] + "!")
        none = run(failures, "--url", where, "--token-file", str(tmp_path / "absent"))

    assert {line.split()[3] for line in mine.stdout.splitlines()[1:]} == {"alice"}
    assert same.stdout == mine.stdout
    assert (nobody.exit_code, none.exit_code) == (1, 1)
    assert token[:-1] not in nobody.stderr
    assert "No such file" in none.stderr


@pytest.mark.parametrize("where", ["http://ff.example.org:8765", "http://192.0.2.1", "nonsense"])
def test_a_token_is_not_sent_where_others_could_read_it(where: str) -> None:
    shown = run(failures, "--url", where, FIRSTFAULT_TOKEN="firstfault_secret")

    assert shown.exit_code == 1
    assert "a token is sent by https:// only" in shown.stderr
    assert "secret" not in shown.stderr


def test_nodes_are_for_administrators_alone() -> None:
    token, line = tokens.new("reporter", "user=alice")
    way = tokens.Tokens(lambda: tokens.parse(line), lambda: dt.date(2026, 11, 30))
    sock = server.listener("127.0.0.1", 0)
    app = application(api.places(BOARD), lambda: Entrance(Ways([way])))
    with server.serving(app, sock):
        shown = run(nodes, "--url", server.address(sock), FIRSTFAULT_TOKEN=token)

    assert shown.exit_code == 1
    assert shown.stderr.endswith("nodes are for administrators alone\n")


def test_munge_tells_who_asks(munged: Munged) -> None:
    asked: list[int] = []

    def reader(uid: int) -> Reader:
        asked.append(uid)
        return boards.ALICE

    way = Signatures(decoding(str(munged.socket)), reader, time.time)
    sock = server.listener("127.0.0.1", 0)
    app = application(api.places(BOARD), lambda: Entrance(Ways([way])))
    with server.serving(app, sock):
        where = server.address(sock)
        # A filter with what is quoted in an address: exactly that is signed.
        shown = run(
            failures, "--text", "rank a&b=%", "--url", where,
            FIRSTFAULT_MUNGE_SOCKET=str(munged.socket),
        )  # fmt: skip
        listed = run(failures, "--url", where, FIRSTFAULT_MUNGE_SOCKET=str(munged.socket))
        away = run(failures, "--url", where, FIRSTFAULT_MUNGE_SOCKET="/nowhere/socket")

    assert shown.exit_code == 0, shown.stderr
    assert {line.split()[3] for line in listed.stdout.splitlines()[1:]} == {"alice"}
    assert asked == [os.geteuid()] * 2
    assert away.exit_code == 1
    assert "does not know who you are" in away.stderr
    assert "MUNGE made no credential here" in away.stderr


def test_a_reader_that_closes_the_pipe_ends_it_quietly(url: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m firstfault failures --url {url} --limit 0 --format json | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == '{"failures": [\n'
    assert done.stderr == ""


def test_a_store_on_this_machine_is_read_without_a_daemon(tmp_path: Path, url: str) -> None:
    boards.stored(f"sqlite:///{tmp_path / 'store.db'}").close_store()
    (tmp_path / "c.toml").write_text(f'[store]\nurl = "sqlite:///{tmp_path / "store.db"}"\n')
    config = str(tmp_path / "c.toml")

    listed = run(failures, "--config", config, "--limit", "0", "--format", "json")
    suspects = run(nodes, "--config", config, "--hours", "8784", "--until", "2026-11-30T16:00:00Z")
    shown = run(job, EVERY[0].job, "--config", config)

    found = msgspec.json.decode(listed.stdout, type=dict[str, list[Failure]])["failures"]
    assert [each.job for each in found] == [each.job for each in EVERY]
    assert suspects.exit_code == 0, suspects.stderr
    assert shown.stdout == run(job, EVERY[0].job, "--url", url).stdout


def test_a_store_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'[store]\nurl = "sqlite:///{tmp_path / "store.db"}"\n')

    shown = run(failures, "--config", str(tmp_path / "c.toml"))

    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "is not there" in shown.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_who_may_not_read_the_configuration_asks_the_daemon_of_this_machine(
    tmp_path: Path,
) -> None:
    closed = tmp_path / "etc"
    closed.mkdir(mode=0o700)
    (closed / "firstfault.toml").write_text("")
    code = f"""
import os, pathlib
import firstfault.config
from firstfault.cli_failures import failures

firstfault.config.SYSTEM_FILE = pathlib.Path({str(closed / "firstfault.toml")!r})
os.setresuid(*[{pwd.getpwnam("nobody").pw_uid}] * 3)
failures.main(["--since", "1h"])
"""

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "http_proxy": "http://192.0.2.1:9"},
    )

    # Another daemon may answer on this machine, and know nobody or everybody.
    assert "Traceback" not in done.stderr
    if done.returncode != 0:
        assert "http://127.0.0.1:8765" in done.stderr
        assert "Permission denied" in done.stderr or "who you are" in done.stderr
