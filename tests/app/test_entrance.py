"""Who comes in, from the configuration: secrets, tokens, groups, coordinators, reloads."""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from starlette.datastructures import Headers
from starlette.requests import Request

from firstfault.app import checks
from firstfault.app.entrance import TokensFile, coordinators_of, entrance_of
from firstfault.app.rights import Coordinators, Rights, groups_of
from firstfault.config import Config, ConfigError, load, parse
from firstfault.model.board import NOBODY, Reader
from firstfault.slurm.coordinators import parse as coordinators_in
from firstfault.slurm.facts import FactsError
from firstfault.web import tokens
from firstfault.web.access import Identity, Open
from tests.app.processes import configure


def configured(text: str) -> Config:
    return parse(f"[web]\n{text}", "f")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("s" * 40 + "\n")
    path.chmod(0o600)
    return path


def identified(config: Config, *headers: tuple[str, str], peer: str = "127.0.0.1") -> Identity:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": Headers({}).raw + [(k.lower().encode(), v.encode()) for k, v in headers],
        "client": (peer, 1),
    }
    return asyncio.run(entrance_of(config).access.identify(Request(scope)))


def test_without_a_way_everyone_on_loopback_is_an_administrator() -> None:
    entrance = entrance_of(Config())

    assert isinstance(entrance.access, Open)
    assert "No access control" in entrance.access.note
    assert identified(Config()).reader.administrator


def test_a_reload_never_opens_the_pages_to_the_network() -> None:
    # Its address stays as it was until the restart, the rest of the table does not.
    running = Config()
    web = msgspec.structs.replace(running.web, host="0.0.0.0")
    with pytest.raises(ConfigError, match=r"web.host is '0.0.0.0', and nothing tells any more"):
        entrance_of(msgspec.structs.replace(running, web=web))


def test_a_proxy_needs_its_secret(secret: Path) -> None:
    with pytest.raises(ConfigError, match=r"web\.proxy_secret_file must name a file"):
        entrance_of(configured('proxy_user_header = "X-Remote-User"'))
    secret.write_text("short")
    with pytest.raises(ConfigError, match="holds too few characters"):
        entrance_of(
            configured(f'proxy_user_header = "X-Remote-User"\nproxy_secret_file = "{secret}"')
        )


def test_the_proxys_word_is_taken_as_configured(secret: Path) -> None:
    config = configured(
        f'proxy_user_header = "X-Remote-User"\nproxy_secret_file = "{secret}"\n'
        f'trusted_proxies = ["192.0.2.0/24"]\nadmins = ["ops"]'
    )
    proof = ("X-Firstfault-Proxy", "s" * 40)

    def told(user: str, peer: str) -> Reader:
        return identified(config, ("X-Remote-User", user), proof, peer=peer).reader

    assert told("alice", "192.0.2.7") == Reader("alice", "alice")
    assert told("ops", "192.0.2.7").administrator
    assert told("ops", "::ffff:192.0.2.7").administrator
    assert told("ops", "127.0.0.1") == NOBODY
    assert told("ops", "192.0.3.7") == NOBODY
    # Root by a proxy's word is a user like others.
    assert not told("root", "192.0.2.7").administrator
    assert identified(config, peer="192.0.2.7").reader == NOBODY


def test_the_file_of_tokens_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    _, line = tokens.new("one", "administrator")
    _, other = tokens.new("two", "user=alice")
    path.write_text(line)
    known = TokensFile(path)

    assert [each.reader.name for each in known.now()] == ["token one"]
    path.write_text(f"{line}\n{other}")
    assert [each.reader.name for each in known.now()] == ["token one", "token two"]
    path.write_text(other)
    assert [each.reader.name for each in known.now()] == ["token two"]
    # While it cannot be read none counts: a token that was taken out stays out.
    path.write_text(f"{other}\nnonsense")
    assert list(known.now()) == []
    path.unlink()
    assert list(known.now()) == []
    path.write_text(line)
    assert [each.reader.name for each in known.now()] == ["token one"]
    path.chmod(0o666)
    assert list(known.now()) == []


def test_a_file_of_tokens_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    for text, said in ((None, "cannot be read"), ("x", "line 1: must"), ("\x00", "line 1: must")):
        if text is not None:
            path.write_text(text)
        with pytest.raises(ConfigError, match=said):
            entrance_of(configured(f'tokens_file = "{path}"'))


def test_members_of_an_admin_group_are_administrators() -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    mine = grp.getgrgid(pwd.getpwnam(me).pw_gid).gr_name

    assert mine in groups_of(me)
    assert Rights(admin_groups=[mine]).of(me).administrator
    assert not Rights(admin_groups=["no-such-group"]).of(me).administrator
    assert not Rights(admin_groups=[mine]).of("no-such-user").administrator
    assert groups_of("no-such-user") == set()


def test_root_and_the_daemons_own_user_are_administrators_by_their_uid() -> None:
    for uid in (0, os.geteuid()):
        found = Rights().of_uid(uid)
        assert found is not None and found.administrator
    nobody = pwd.getpwnam("nobody")
    found = Rights().of_uid(nobody.pw_uid)

    assert found == Reader("nobody", "nobody")
    assert Rights().of_uid(3_999_999_999) is None


def test_coordinators_see_their_accounts_and_keep_them_while_slurm_is_away() -> None:
    answers: list[Mapping[str, tuple[str, ...]] | None] = [{"bob": ("chem", "physics")}, None, {}]

    def ask() -> Mapping[str, tuple[str, ...]]:
        answer = answers.pop(0)
        if answer is None:
            raise FactsError("slurmdbd is away")
        return answer

    coordinators = Coordinators(ask)
    rights = Rights(coordinators=coordinators)

    assert rights.of("bob").accounts == ()
    coordinators.once()
    assert rights.of("bob") == Reader("bob", "bob", accounts=("chem", "physics"))
    assert rights.of("alice").accounts == ()
    coordinators.once()
    assert rights.of("bob").accounts == ("chem", "physics")
    coordinators.once()
    assert rights.of("bob").accounts == ()


def test_nobody_is_asked_for_coordinators_where_it_would_be_for_nothing() -> None:
    assert coordinators_of(Config()) is None
    assert coordinators_of(configured("munge = true\ncoordinators = false")) is None
    assert coordinators_of(configured("munge = true")) is not None
    assert coordinators_of(parse("slurm.source = 'none'\nweb.munge = true", "f")) is None


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("", {}),
        ("root|\nbob|chem,physics,plasma\ncarol|\n", {"bob": ("chem", "physics", "plasma")}),
        ("bob|chem,chem,\n|physics\n", {"bob": ("chem",)}),
        ("bob\n", {}),
    ],
)
def test_what_sacctmgr_prints_is_read(printed: str, found: dict[str, tuple[str, ...]]) -> None:
    assert coordinators_in(printed) == found


def test_forms_stay_good_over_a_reload_and_a_restart_with_a_key(secret: Path) -> None:
    config = configured(f'secret_file = "{secret}"')
    alice = Reader("alice", "alice")

    assert entrance_of(config).forms.accepts(entrance_of(config).forms.token(alice), alice)
    assert entrance_of(Config()).forms.accepts(entrance_of(Config()).forms.token(alice), alice)


def test_the_names_that_are_answered_to_are_those_of_the_configuration() -> None:
    config = configured(
        'public_url = "https://Faults.Example.org/x"\nallowed_hosts = ["alias.example.org"]'
    )
    hosts = entrance_of(config).hosts

    for name in ("faults.example.org", "alias.example.org:443", "localhost", "127.0.0.1:8765"):
        assert hosts.allows(Headers({"host": name})), name
    for name in ("example.org", "x.faults.example.org", ""):
        assert not hosts.allows(Headers({"host": name})), name


def access_point(tmp_path: Path, **web: object) -> checks.Point:
    config = load(configure(tmp_path, web=web))
    return next(point for point in checks.points(config) if point.name == "access")


def test_check_says_who_may_read(tmp_path: Path, secret: Path) -> None:
    _, line = tokens.new("wall", "administrator")
    known = tmp_path / "tokens"
    known.write_text(line)
    mine = grp.getgrgid(os.getegid()).gr_name

    opened = access_point(tmp_path)
    closed = access_point(
        tmp_path,
        proxy_user_header="X-Remote-User",
        proxy_secret_file=str(secret),
        tokens_file=str(known),
        admins=["ops"],
        admin_groups=[mine],
    )

    assert opened.fine and opened.said.startswith("open: whoever reaches the pages, on 127.0.0.1,")
    assert closed.fine
    assert closed.said.startswith(
        f"X-Remote-User from 127.0.0.1/32, ::1/128, 1 tokens; ops, the group {mine} see everything"
    )


def test_check_names_what_keeps_readers_out(tmp_path: Path, secret: Path) -> None:
    proxy = {"proxy_user_header": "X-Remote-User", "proxy_secret_file": str(secret)}
    secret.chmod(0o644)
    for web, said in (
        (proxy, f"web.proxy_secret_file {secret} has mode 0644: it holds a secret"),
        ({"proxy_user_header": "X-Remote-User"}, "web.proxy_secret_file must name a file"),
        ({"tokens_file": "/absent"}, "web.tokens_file /absent: cannot be read"),
        ({"munge": True, "admin_groups": ["no-such-group"]}, "no-such-group: no such group"),
    ):
        point = access_point(tmp_path, **web)

        assert point.fine is False
        assert said in point.said
