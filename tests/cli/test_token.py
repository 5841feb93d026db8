"""``firstfault token``: a token, and the line that makes it count."""

from __future__ import annotations

import datetime as dt

import pytest
from click.testing import CliRunner, Result

from firstfault import cli_token
from firstfault.model.board import Reader
from firstfault.web import tokens


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli_token.token, ["new", *arguments])


@pytest.mark.parametrize(
    ("asked", "reader", "until"),
    [
        (("wall", "--administrator"), Reader("token wall", administrator=True), None),
        (("ci", "--user", "alice"), Reader("token ci", "alice"), None),
        (
            ("ci", "--account", "a", "--account", "b", "--until", "2027-06-30"),
            Reader("token ci", accounts=("a", "b")),
            dt.date(2027, 6, 30),
        ),
    ],
)
def test_a_token_is_shown_with_its_line(
    asked: tuple[str, ...], reader: Reader, until: dt.date | None
) -> None:
    token, line = run(*asked).stdout.splitlines()
    (made,) = tokens.parse(line)

    assert made == (tokens.hashed(token), reader, until)
    assert token not in line
    assert run(*asked).stdout.splitlines()[0] != token


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("wall",), "gives no rights"),
        (("a b", "--administrator"), "must be NAME sha256:HEX RIGHTS"),
        (("-", "--administrator"), "must begin with a name"),
        (("wall", "--administrator", "--user", "alice"), "an administrator sees everything"),
        (("wall", "--user", "a b"), "'b' is not known here"),
        (("wall", "--account", "a,,b"), "'account=a,,b' is not known here"),
        (("wall", "--user", "alice", "--until", "soon"), "does not match the format"),
    ],
)
def test_what_makes_no_sound_line_makes_no_token(asked: tuple[str, ...], said: str) -> None:
    result = run(*asked)

    assert result.exit_code != 0
    assert said in result.output
    assert tokens.PREFIX not in result.stdout
