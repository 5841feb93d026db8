"""The configuration: every key documented, every mistake told with its remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstfault.config import Config, ConfigError, keys, load, parse

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "etc" / "firstfault.toml"
PAGE = ROOT / "docs" / "configuration.md"


def shipped_keys() -> list[str]:
    found = []
    table = ""
    for line in SHIPPED.read_text("utf-8").splitlines():
        header = re.fullmatch(r"\[(\w+)\]", line)
        key = re.match(r"(\w+) = ", line)
        if header:
            table = header[1] + "."
        elif key:
            found.append(table + key[1])
    return found


def test_the_shipped_file_holds_every_key_at_its_default() -> None:
    assert load(SHIPPED) == Config()
    assert shipped_keys() == list(keys())


def test_the_page_names_every_key_and_no_other() -> None:
    named = re.findall(r"^\| `([a-z_.]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert named == list(keys())


def test_an_empty_file_is_the_defaults() -> None:
    assert parse("", "f") == Config()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[spool]\ndri = 1", "f: unknown key 'spool.dri'. Did you mean 'spool.dir'?"),
        ("[spol]\ndir = '/x'", "f: unknown key 'spol'. Did you mean 'spool'?"),
        ("webhook_file = 'x'", "f: unknown key 'webhook_file'. Did you mean 'slack.webhook_file'?"),
        ("[web]\nqqqq = 1", "Known here: admin_groups, admins, allowed_hosts, coordinators,"),
        ("[web]\nport = 'x'", "f: web.port: Expected `int`, got `str`"),
        ("[web]\nport = 70000", "f: web.port: is 70000"),
        ("[web]\nhost = '0.0.0.0'", "f: web.host: is '0.0.0.0', and nothing tells who reads"),
        ("[web]\nhost = '::'", "or leave the pages on 127.0.0.1"),
        ("[web]\nproxy_user_header = 'Host'", "must be the name of a header of its own"),
        ("[web]\nproxy_user_header = 'X-A: b'", "must be the name of a header of its own"),
        ("[web]\ntrusted_proxies = ['0.0.0.0/0']", "is everyone: name the proxies"),
        ("[web]\ntrusted_proxies = ['proxy']", "does not appear to be an IPv4 or IPv6 network"),
        ("[web]\nproxy_user_header = 'X-U'\ntrusted_proxies = []", "no proxy may say who reads"),
        ("[web]\nadmins = ['a b']", "holds 'a b', which is no name of a user or group"),
        ("[web]\nallowed_hosts = ['a:80']", "holds 'a:80'; it must be a host name"),
        ("[web]\nallowed_hosts = ['*']", "holds '*'; it must be a host name"),
        ("spool = '/x'", "f: spool is a table"),
        ("[log]\nlevel = 'loud'", '"debug", "info", "warning", "error"'),
        ("[slurm]\nsource = 'slurmrestd'", 'it may be "auto", "pyslurm", "sacct", "none"'),
        ("[spool]\nscan_s = 0", "f: spool.scan_s: is 0.0; it must be more than 0"),
        ("[judge]\nearly_s = inf", "f: judge.early_s: is inf; it must be a finite number"),
        ("[slurm]\ntimeout_s = 61", "f: slurm.timeout_s: is 61.0; it must be 60 or less"),
        ("[judge]\nsettle_s = -1", "f: judge.settle_s: is -1.0; it must be 0 or more"),
        ("[spool]\ndir = 'here'", "must be an absolute path"),
        ("[web]\npublic_url = 'javascript:x'", "must be an http:// or https:// URL"),
        ("[web]\npublic_url = 'https://a b'", "must be an http:// or https:// URL"),
        ("[slack]\nwebhook = 'https://h/x'\nwebhook_file = '/w'", "keep one"),
        ("[mail]\nserver = 'mail.x'", "f: mail.sender: is ''; set it to an address"),
        ("[mail]\nserver = 'a b'\nsender = 'a@b.c'", "mail.server: is 'a b'; it must be a host"),
        ("[mail]\nsecurity = 'ssl'", 'it may be "starttls", "tls", "none"'),
        (
            "[mail]\nserver = 'h'\nsender = 'a@b.c'\nsecurity = 'none'\nuser = 'u'",
            "a password must be encrypted",
        ),
        ("[explain]\nkeep_days = -1", "f: explain.keep_days: is -1.0; it must be 0 or more"),
        ("[explain]\nkeep_days = 1e9", "explain.keep_days: is 1000000000.0; it must be 36500 or"),
        ("[explain]\nkeep_reports = 0", "f: explain.keep_reports: is 0; it must be more than 0"),
        ("[explain]\nper_minute = 0", "f: explain.per_minute: is 0; it must be more than 0"),
        ("[mail]\ntimeout_s = 16", "f: mail.timeout_s: is 16.0; it must be 15 or less"),
        ("[webhook]\nurl = 'https://h/x'\nurl_file = '/w'", "keep one"),
        ("[delivery]\nrules = 'rules.toml'", "f: delivery.rules: is 'rules.toml'; it must be an"),
        ("[spool", "f: is not TOML"),
    ],
)
def test_a_mistake_is_told_with_file_key_and_remedy(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "f")

    assert said in str(error.value)


def test_a_mistake_in_the_webhook_does_not_print_it() -> None:
    with pytest.raises(ConfigError) as error:
        parse("[slack]\nwebhook = 'hooks.slack.com/services/SECRET'", "f")

    assert "SECRET" not in str(error.value)


def test_a_whole_number_is_taken_for_seconds() -> None:
    assert parse("[judge]\nsettle_s = 60", "f").judge.settle_s == 60.0


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "absent.toml")
