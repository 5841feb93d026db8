"""The configuration's secrets: where they come from, and that they come out nowhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from firstfault.app.credentials import link_key, store_url, webhook
from firstfault.config import ConfigError, parse
from tests.app.processes import Daemon, command, configure
from tests.app.test_serve import put_job

URL = "https://hooks.example/services/T000/B000/SECRET"


def test_a_secret_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "webhook"
    config = parse(f'[slack]\nwebhook_file = "{file}"', "f")
    file.write_text(f"{URL}\n")

    assert webhook(config) == URL


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"SECRET without a scheme", "holds no URL"),
        (b"https://SECRET\xff", "is not UTF-8"),
        (b"\n", "is empty"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_holds_none_is_named_but_not_quoted(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "webhook"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"slack\.webhook_file {file} {said}") as error:
        webhook(parse(f'[slack]\nwebhook_file = "{file}"', "f"))

    assert "SECRET" not in str(error.value)
    assert error.value.__cause__ is None or "SECRET" not in repr(error.value.__cause__)


def test_a_credential_of_systemd_is_used_where_no_key_names_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slack-webhook").write_text(URL)
    (tmp_path / "store-password").write_text("pass/word")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    other = tmp_path / "other"
    other.write_text("https://other.example/x")

    assert webhook(parse("", "f")) == URL
    assert webhook(parse(f'[slack]\nwebhook_file = "{other}"', "f")) == "https://other.example/x"
    assert link_key(parse("", "f")) == ""
    config = parse('[store]\nurl = "postgresql+psycopg://ff@db/ff"', "f")
    assert store_url(config) == "postgresql+psycopg://ff:pass%2Fword@db/ff"
    assert store_url(parse("", "f")) == parse("", "f").store.url


def test_a_key_that_can_be_guessed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("short")

    with pytest.raises(ConfigError, match=r"too few characters.*openssl rand -hex 32"):
        link_key(parse(f'[web]\nsecret_file = "{file}"', "f"))


def test_two_passwords_are_one_too_many(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("one")
    text = f'[store]\nurl = "postgresql+psycopg://ff:other@db/ff"\npassword_file = "{file}"'

    with pytest.raises(ConfigError, match="keep one"):
        store_url(parse(text, "f"))


def test_a_configuration_that_is_printed_shows_no_secret() -> None:
    config = parse(f'[slack]\nwebhook = "{URL}"\n[store]\nurl = "postgresql://u:SECRET@h/d"', "f")

    assert "SECRET" not in repr(config)
    assert "SECRET" not in f"{config.slack} {config.store}"


BREAKS = """
import sys
from firstfault.deliver import slack
import requests

def broken(self, delivery):
    raise ValueError(f"cannot post to {self._webhook}")

slack.Slack.send = broken
from firstfault.cli_daemon import serve
serve()
"""


def test_no_secret_comes_out_of_a_daemon_whatever_fails(tmp_path: Path) -> None:
    """At the level "debug": a receiver that is away, errors that quote the URL, a bad reload."""
    secrets = {"slack-webhook": URL.replace("https://hooks.example", "http://127.0.0.1:9")}
    secrets |= {"web-secret": "LINK-SECRET" * 4}
    for name, text in secrets.items():
        (tmp_path / name).write_text(text)
    config = configure(
        tmp_path, log={"level": "debug"}, spool={"scan_s": 0.2}, web={"public_url": "http://h"}
    )
    os.environ["CREDENTIALS_DIRECTORY"] = str(tmp_path)
    try:
        put_job(tmp_path / "spool", "12")
        with Daemon(config) as daemon:
            daemon.wait_for("event=delivery-failed .*channel=slack")
            daemon.stop()
        away = daemon.said()
        ran = subprocess.Popen(
            command(BREAKS, "--config", str(config)), stderr=subprocess.PIPE, text=True
        )
        assert ran.stderr is not None
        broken = ""
        for line in ran.stderr:
            broken += line
            if "event=delivery-error" in line:
                break
        ran.terminate()
        broken += ran.communicate(timeout=30)[1]
    finally:
        del os.environ["CREDENTIALS_DIRECTORY"]

    assert "could not be reached" in away
    assert "cannot post to [hidden]" in broken
    for said in (away, broken):
        assert "SECRET" not in said
    # Neither does the store hold it.
    assert b"SECRET" not in (tmp_path / "ff.db").read_bytes()
