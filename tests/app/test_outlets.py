"""Mail, webhook, Apprise and AdminComment as the configuration turns them on, in a whole daemon."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import click.testing
import pytest

from firstfault.app.outlets import outlets_of
from firstfault.app.rules import Rules
from firstfault.app.rules_file import rules_of
from firstfault.cli_daemon import check
from firstfault.config import ConfigError, load
from firstfault.model.jobs import Delivery, StoredVerdict
from tests.app.processes import Daemon, configure, serve_once
from tests.app.test_serve import TRACEBACK
from tests.diagnosis.case_files import explain, files
from tests.fakes.mail import MailServer
from tests.fakes.web_receiver import WebReceiver
from tests.intake.records import fields, file, put

MAIL = {"server": "127.0.0.1", "security": "none", "sender": "ff@hpc.example"}
RULES = """
[lists]
admins = ["hpc@example.org", "ops@example.org"]

[[rule]]
name = "administrators"
send = ["mail-admins", "webhook"]
continue = true

[[rule]]
name = "owners"
send = ["mail-owner"]
"""


def secret(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def put_job(folder: Path, job: str) -> None:
    files = [file(f"/home/alice/slurm-{job}.out", "job-output", TRACEBACK)]
    told = {"SLURM_SCRIPT_CONTEXT": "epilog_slurmd", "SLURM_JOB_USER": "alice"}
    put(folder, fields("n1", job, nodes="n1", files=files, environment=told))


def names(config: Path) -> list[str]:
    loaded = load(config)
    return [name for name, _ in outlets_of(loaded, rules_of(loaded))]


def test_a_failure_goes_to_its_owner_a_list_and_the_sites_own_program(tmp_path: Path) -> None:
    rules = secret(tmp_path / "rules.toml", RULES)
    with MailServer() as mail, WebReceiver() as receiver:
        config = configure(
            tmp_path,
            mail={**MAIL, "port": mail.port},
            owners={"template": "{user}@example.org"},
            webhook={"url": receiver.url},
            delivery={"rules": rules},
        )
        put_job(tmp_path / "spool", "12")
        ended = serve_once(config)

    assert ended.returncode == 0, ended.stderr
    (post,) = receiver.posts
    assert json.loads(post.body)["verdict"]["job"]["user"] == "alice"
    to = sorted(letter.receivers for letter in mail.letters)
    assert to == sorted([("alice@example.org",), ("hpc@example.org", "ops@example.org")])


def test_a_mail_server_that_is_away_loses_nothing(tmp_path: Path) -> None:
    with MailServer() as mail:
        config = configure(
            tmp_path, mail={**MAIL, "port": mail.port}, owners={"template": "{user}@example.org"}
        )
        mail.answer = "451 later"
        with Daemon(config) as daemon:
            put_job(tmp_path / "spool", "12")
            daemon.wait_for("delivery-failed .*channel=mail-owner")
            daemon.kill()
        mail.answer = "250 OK"
        with Daemon(config) as daemon:
            daemon.wait_for(r"delivered .*channel=mail-owner", timeout_s=60)
            assert daemon.stop() == 0

    assert len(mail.letters) == 1


def test_shadow_mode_sends_no_mail(tmp_path: Path) -> None:
    with MailServer() as mail, WebReceiver() as receiver:
        config = configure(
            tmp_path,
            mail={**MAIL, "port": mail.port},
            owners={"template": "{user}@example.org"},
            webhook={"url": receiver.url},
        )
        config.write_text("shadow = true\n" + config.read_text())
        put_job(tmp_path / "spool", "12")
        ended = serve_once(config)

    assert ended.returncode == 0, ended.stderr
    assert (mail.letters, receiver.posts) == ([], [])


def test_nothing_is_on_that_is_not_asked_for(tmp_path: Path) -> None:
    assert names(configure(tmp_path)) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Apprise loads
def test_each_service_of_apprise_is_a_channel(tmp_path: Path) -> None:
    urls = secret(
        tmp_path / "urls", "# ours\nteams json://127.0.0.1:9/a\nops json://127.0.0.1:9/b\n"
    )

    assert names(configure(tmp_path, apprise={"urls_file": urls})) == [
        "apprise-teams",
        "apprise-ops",
    ]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            {"webhook": {"url": "http://h/x", "secret_file": "FILE short"}},
            "holds too few characters: openssl rand -hex 32",
        ),
        ({"webhook": {"url_file": "FILE not-a-url-SECRET"}}, "holds no http:// or https:// URL"),
        (
            {"webhook": {"url": "http://h/x", "template": "FILE {% if %}"}},
            "webhook.template FILE cannot be used",
        ),
        ({"apprise": {"urls_file": "FILE SECRET://x"}}, "line 1: must be a name of its own"),
        ({"mail": {**MAIL, "security": "tls", "user": "ff"}}, "mail.password_file must name"),
        (
            {"mail": {**MAIL, "security": "tls", "ca_file": "FILE x"}},
            "mail.ca_file FILE cannot be used",
        ),
        ({"delivery": {"rules": "FILE [lists]\na = ['a@b.c']"}}, "lists are for mail: set mail.s"),
        ({"delivery": {"rules": "/absent"}}, "delivery.rules /absent: cannot be read: No such"),
    ],
)
def test_a_mistake_is_told_with_its_remedy(
    tmp_path: Path, tables: dict[str, dict[str, object]], said: str
) -> None:
    path = tmp_path / "given"
    written: dict[str, dict[str, object]] = {}
    for table, keys in tables.items():
        written[table] = {}
        for key, value in keys.items():
            if isinstance(value, str) and value.startswith("FILE "):
                secret(path, value.removeprefix("FILE "))
                value = str(path)
            written[table][key] = value
    config = configure(tmp_path, **written)

    with pytest.raises(ConfigError) as error:
        names(config)

    assert said.replace("FILE", str(path)) in str(error.value)
    assert "SECRET" not in str(error.value)


def test_admin_comment_finds_sacctmgr_or_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sacct", "sacctmgr"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    config = configure(
        tmp_path,
        slurm={"source": "none", "sacct": str(tmp_path / "sacct")},
        admin_comment={"enabled": True},
    )

    assert names(config) == ["admin-comment"]
    (tmp_path / "sacctmgr").unlink()
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(ConfigError, match=r"admin_comment.enabled: sacct and sacctmgr are not on"):
        names(config)


def test_check_tries_the_mail_server_and_reads_the_rules(tmp_path: Path) -> None:
    rules = secret(tmp_path / "rules.toml", RULES.replace("webhook", "slack"))
    with MailServer() as mail:
        config = configure(tmp_path, mail={**MAIL, "port": mail.port}, delivery={"rules": rules})
        checked = click.testing.CliRunner().invoke(check, ["--config", str(config)])

    assert checked.exit_code == 0, checked.stdout
    assert f"ok    mail: 127.0.0.1 port {mail_port(checked.stdout)} answers; nothing was sent" in (
        checked.stdout
    )
    assert f"ok    rules: 2 rules in {rules} are sound" in checked.stdout
    assert "off   webhook" in checked.stdout
    assert mail.letters == []


def test_check_names_a_mail_server_that_is_away_and_a_rule_for_nobody(tmp_path: Path) -> None:
    rules = secret(tmp_path / "rules.toml", "[[rule]]\nname = 'r'\nsend = ['slak']\n")
    config = configure(
        tmp_path, mail={**MAIL, "port": 9, "timeout_s": 2}, delivery={"rules": rules}
    )

    checked = click.testing.CliRunner().invoke(check, ["--config", str(config)])

    assert checked.exit_code == 1
    assert "FAIL  mail: Server(127.0.0.1:9) could not be reached" in checked.stdout
    assert "rule 'r' sends to 'slak', and no channel fits it. There are: mail-owner, slack" in (
        checked.stdout
    )


def test_lists_are_channels_of_their_own(tmp_path: Path) -> None:
    config = load(configure(tmp_path, mail={**MAIL, "owners": False}))
    rules = Rules(lists={"a": ("a@b.c",), "b": ("b@b.c",)})

    assert [name for name, _ in outlets_of(config, rules)] == ["mail-a", "mail-b"]


def test_an_owners_mail_names_no_process_of_another_user_and_a_lists_does(tmp_path: Path) -> None:
    verdict = explain(files("made-host-oom-of-others"))
    stored = StoredVerdict("main", "7133", 1, 1, dt.datetime(2026, 11, 30, tzinfo=dt.UTC), verdict)
    with MailServer() as server:
        tables = {"mail": {**MAIL, "port": server.port}, "owners": {"template": "{user}@b.c"}}
        config = load(configure(tmp_path, **tables))
        for name, channel in outlets_of(config, Rules(lists={"admins": ("ops@b.c",)})):
            channel.send(Delivery(1, f"d-{name}", name, 1, stored))
        letters = {letter.receivers[0]: str(letter.message) for letter in server.letters}

    assert set(letters) == {"mira@b.c", "ops@b.c"}
    assert "mariadbd" not in letters["mira@b.c"]
    assert ("mariadbd" in letters["ops@b.c"]) is ("another process" in letters["mira@b.c"])


def mail_port(stdout: str) -> str:
    return stdout.partition("mail: 127.0.0.1 port ")[2].partition(" ")[0]
