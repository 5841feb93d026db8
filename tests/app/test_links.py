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

from firstfault.app.channels import channels_of
from firstfault.app.links import Links, Target
from firstfault.cli_daemon import job as show
from firstfault.config import load
from firstfault.deliver.outcome import Sent
from firstfault.model import verdict as v
from firstfault.model.jobs import Delivery, StoredVerdict
from firstfault.store.database import open_store
from tests.app.processes import Daemon, configure
from tests.app.test_outlets import MAIL, put_job, secret
from tests.fakes.mail import Letter, MailServer
from tests.fakes.slack import SlackServer
from tests.fakes.web_receiver import WebReceiver

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

    assert links.for_owner(STORED) == links.signed(STORED)
    assert str(links.for_owner(STORED)).startswith("https://ff.example/shared/")
    assert links.target(token(links)) == Target("c1", "12", 2)


def test_without_a_key_links_lead_to_the_pages_and_without_an_address_nowhere() -> None:
    assert Links("https://ff.example").for_owner(STORED) == "https://ff.example/jobs/c1/12"
    assert Links("https://ff.example").target("x") is None
    assert Links("", KEY).for_owner(STORED) is None


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


def test_the_owners_mail_carries_a_link_that_opens_that_report_alone(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    with MailServer() as mail:
        config = configure(
            tmp_path,
            spool={"scan_s": 0.2},
            mail={**MAIL, "port": mail.port},
            owners={"template": "{user}@example.org"},
            web={"public_url": "http://public.example", "secret_file": str(key)},
        )
        with Daemon(config) as daemon:
            address = daemon.wait_for(r"event=pages url=(\S+)")[1]
            put_job(tmp_path / "spool", "12")
            daemon.wait_for(r"delivered .*channel=mail-owner")
            printed = click.testing.CliRunner().invoke(
                show, ["12", "--link", "--config", str(config)]
            )
            path = printed.stdout.strip().removeprefix("http://public.example")
            opened = requests.get(address + path, timeout=10)
            forged = requests.get(address + path[:-3], timeout=10)

    (letter,) = mail.letters
    assert "http://public.example/shared/" in said(letter)
    assert "/jobs/testcluster/12" not in said(letter)
    assert path.startswith("/shared/")
    assert opened.status_code == 200
    assert "python.exception" in opened.text
    assert "All failed jobs" not in opened.text
    assert opened.headers["referrer-policy"] == "no-referrer"
    assert forged.status_code == 404
    assert "This link is not valid" in forged.text


def said(letter: Letter) -> str:
    """The text of a mail and its HTML, decoded."""
    parts = [part for part in letter.message.walk() if part.get_content_maintype() == "text"]
    return "\n".join(part.get_content() for part in parts)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Apprise loads
def test_what_several_people_read_carries_no_signed_link(tmp_path: Path) -> None:
    verdict = v.Verdict(job=v.Job(id="12", user="alice"), cause=STORED.verdict.cause)
    stored = StoredVerdict("c1", "12", 1, 1, STORED.created_at, verdict)
    with MailServer() as mail, WebReceiver() as web, SlackServer() as slack:
        urls = f"teams json://{web.address}/x\n"
        config = configure(
            tmp_path,
            mail={**MAIL, "port": mail.port},
            owners={"template": "{user}@example.org"},
            webhook={"url": web.url},
            slack={"webhook": slack.url},
            apprise={"urls_file": secret(tmp_path / "urls", urls)},
            delivery={
                "rules": secret(tmp_path / "rules", '[lists]\nadmins = ["hpc@example.org"]\n')
            },
            web={
                "public_url": "https://ff.example",
                "secret_file": secret(tmp_path / "key", KEY),
            },
        )
        database = open_store(f"sqlite:///{tmp_path}/ff.db")
        channels = channels_of(load(config), database)
        sent = {
            name: channel.send(Delivery(1, "d1", name, 1, stored, None))
            for name, channel in channels.items()
        }
        database.close()

    letters = {letter.receivers[0]: said(letter) for letter in mail.letters}
    shared = [
        str(slack.messages[0].payload),
        *(post.body.decode() for post in web.posts),
        letters["hpc@example.org"],
        (tmp_path / "reports" / "c1" / "12.html").read_text(),
    ]
    assert set(sent) == {
        "report",
        "slack",
        "mail-owner",
        "mail-admins",
        "webhook",
        "apprise-teams",
    }
    assert set(sent.values()) == {Sent()}
    assert "https://ff.example/shared/" in letters["alice@example.org"]
    assert ["/shared/" in each for each in shared] == [False] * 5
    assert ["https://ff.example/jobs/c1/12" in each for each in shared] == [True] * 4 + [False]


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
