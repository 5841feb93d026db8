"""Looking up the address of a job's owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.deliver.owners import OwnerError, Owners, is_address


def test_the_file_comes_before_the_command_and_that_before_the_template(tmp_path: Path) -> None:
    mapping = tmp_path / "owners"
    mapping.write_text("# people\nalice alice@lab.example\n\n")
    said = {"bob": "bob@dept.example\n", "carol": ""}
    owners = Owners("{user}@example.org", mapping, lambda user: said[user])

    addresses = [owners.address(user) for user in ("alice", "bob", "carol")]

    assert addresses == ["alice@lab.example", "bob@dept.example", "carol@example.org"]


def test_who_wants_no_messages_has_no_address(tmp_path: Path) -> None:
    mapping = tmp_path / "owners"
    mapping.write_text("alice -\n")

    assert Owners("{user}@example.org", mapping).address("alice") is None


@pytest.mark.parametrize(
    "user",
    [None, "", "-rf", "a b", "a\nBcc: x@y.z", "a;id", "x" * 200, "a@b", "é"],
)
def test_a_user_that_makes_no_plain_address_has_none(user: str | None) -> None:
    assert Owners("{user}@example.org").address(user) is None


def test_a_command_that_fails_is_not_taken_for_no_address() -> None:
    def failing(user: str) -> str:
        raise OwnerError("owners.command: no end after 10 s")

    with pytest.raises(OwnerError, match="no end"):
        Owners("{user}@example.org", None, failing).address("alice")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OwnerError, match="absent cannot be read: No such file"):
        Owners("", tmp_path / "absent").address("alice")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a@b", True),
        ("a.b+c@host-1.example.org", True),
        ("a@b\r\nBcc: c@d", False),
        ("a@b, c@d", False),
        ("<a@b>", False),
        ("a@-b", False),
        (".a@b", False),
        ("a" * 251 + "@b.c", False),
    ],
)
def test_only_a_plain_address_is_one(text: str, plain: bool) -> None:
    assert is_address(text) is plain
