"""The command that tells owners' addresses: one argument, a deadline, no shell."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from firstfault.app.owners import owners_of
from firstfault.config import Config
from firstfault.config import Owners as Table
from firstfault.deliver.owners import OwnerError, Owners


def asking(folder: Path, text: str, template: str = "") -> Owners:
    path = folder / "address"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    table = Table(template=template, command=(str(path),), command_timeout_s=0.3)
    return owners_of(msgspec.structs.replace(Config(), owners=table))


def test_the_command_gets_the_name_as_one_argument(tmp_path: Path) -> None:
    owners = asking(tmp_path, f'echo "$#" >> {tmp_path}/asked; echo "$1@cluster.example.org"')

    assert owners.address("ada") == "ada@cluster.example.org"
    assert owners.address("ada; id") is None
    assert (tmp_path / "asked").read_text() == "1\n"


def test_where_the_command_names_none_the_template_does(tmp_path: Path) -> None:
    assert asking(tmp_path, ":", "{user}@example.org").address("ada") == "ada@example.org"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exit 3", "ended with status 3"),
        ("sleep 60", r"no end after 0\.3 s"),
        ("exec yes", "more than 4096 bytes|no end after"),
    ],
)
def test_a_command_that_fails_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(OwnerError, match=said):
        asking(tmp_path, text).address("ada")


def test_a_command_that_is_not_there_is_told() -> None:
    table = Table(command=("/nonexistent/address",))

    with pytest.raises(OwnerError, match="cannot be run: No such file"):
        owners_of(msgspec.structs.replace(Config(), owners=table)).address("ada")
