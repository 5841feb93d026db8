"""Signed links: one report, for a time, and nothing else."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import time
from pathlib import Path

import click.testing
import itsdangerous
import pytest
import requests

from firstfault.app.links import Links, Target
from firstfault.cli_daemon import job as show
from firstfault.model import verdict as v
from firstfault.model.jobs import StoredVerdict
from tests.app.processes import Daemon, configure
from tests.app.test_serve import put_job
from tests.fakes.slack import SlackServer

KEY = "k" * 64
STORED = StoredVerdict(
    cluster="c1",
    job="12",
    incarnation=2,
    revision=1,
    created_at=dt.datetime(2026, 11, 30, tzinfo=dt.UTC),
    verdict=v.Verdict(job=v.Job(), cause=v.Cause("x", "x", "user", v.CONFIRMED)),
)


def token(links: Links) -> str:
    link = links.signed(STORED)
    assert link is not None
    return link.rpartition("/")[2]


def test_a_signed_link_leads_to_its_report() -> None:
    links = Links("https://ff.example/", KEY, 14)

    assert links.of(STORED) == links.signed(STORED)
    assert str(links.of(STORED)).startswith("https://ff.example/shared/")
    assert links.target(token(links)) == Target("c1", "12", 2)


def test_without_a_key_links_lead_to_the_pages_and_without_an_address_nowhere() -> None:
    assert Links("https://ff.example").of(STORED) == "https://ff.example/jobs/c1/12"
    assert Links("https://ff.example").target("x") is None
    assert Links("", KEY).of(STORED) is None


def forged(links: Links) -> list[str]:
    good = token(links)
    payload, stamp, signature = good.split(".")
    other = token(Links("", "o" * 64, 14))
    serializer = itsdangerous.URLSafeTimedSerializer(
        KEY, salt="firstfault.report/1", signer_kwargs={"digest_method": hashlib.sha256}
    )
    return [
        "",
        "x",
        good[:-1],
        good + "x",
        f"{payload}.{stamp}",
        f"{payload}.{stamp}.",
        f"{payload[:-2]}AA.{stamp}.{signature}",
        other,
        "." + good,
        "A" * 100_000,
        str(serializer.dumps({"job": "12"})),
        str(serializer.dumps(["c1", 12, 2])),
        itsdangerous.URLSafeTimedSerializer(KEY, salt="other").dumps(["c1", "12", 2]),
    ]


def test_a_link_that_is_forged_or_cut_leads_nowhere() -> None:
    links = Links("", KEY, 14)

    assert [text for text in forged(links) if links.target(str(text)) is not None] == []


def test_a_link_ends_with_its_time() -> None:
    old = token(Links("", KEY, 14))
    expired = Links("", KEY, 0)
    # Stamps are whole seconds.
    end = time.time() + 1.1
    while time.time() < end:
        time.sleep(0.05)

    assert expired.target(old) is None
    assert Links("", KEY, 14).target(old) is not None


def test_a_message_carries_a_link_that_opens_that_report_alone(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    with SlackServer() as slack:
        config = configure(
            tmp_path,
            spool={"scan_s": 0.2},
            slack={"webhook": slack.url},
            web={"public_url": "http://public.example", "secret_file": str(key)},
        )
        with Daemon(config) as daemon:
            address = daemon.wait_for(r"event=pages url=(\S+)")[1]
            put_job(tmp_path / "spool", "12")
            (message,) = slack.wait(1, 20)
            printed = click.testing.CliRunner().invoke(
                show, ["12", "--link", "--config", str(config)]
            )
            path = printed.stdout.strip().removeprefix("http://public.example")
            opened = requests.get(address + path, timeout=10)
            forged = requests.get(address + path[:-3], timeout=10)

    assert "http://public.example/shared/" in str(message.payload)
    assert "/jobs/testcluster/12" not in str(message.payload)
    assert path.startswith("/shared/")
    assert opened.status_code == 200
    assert "python.exception" in opened.text
    assert "All failed jobs" not in opened.text
    assert opened.headers["referrer-policy"] == "no-referrer"
    assert forged.status_code == 404
    assert "This link is not valid" in forged.text


@pytest.mark.parametrize("web", [{}, {"public_url": "https://ff.example"}])
def test_a_link_that_nothing_can_sign_is_told_with_the_remedy(
    tmp_path: Path, web: dict[str, object]
) -> None:
    config = configure(tmp_path, web=web)
    put_job(tmp_path / "spool", "12")
    with Daemon(config, "--once-idle") as daemon:
        assert daemon.process.wait(60) == os.EX_OK

    refused = click.testing.CliRunner().invoke(show, ["12", "--link", "--config", str(config)])

    assert refused.exit_code == 1
    assert "web.public_url" in refused.stderr
    assert "openssl rand -hex 32" in refused.stderr
