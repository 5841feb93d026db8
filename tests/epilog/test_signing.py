"""What is signed, by a real munged and with a key; docs/transport.md describes both."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from firstfault_epilog import signing
from firstfault_epilog.settings import Settings
from tests.intake.munged import Munged, munged

__all__ = ["munged"]

BODY = b"\x1f\x8b the record"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_bytes(b"0123456789abcdef" * 2 + b"\n")
    return path


def check_statement(statement: str) -> None:
    lines = statement.split("\n")

    assert lines[:3] == ["firstfault.statement/1", "/v1/records", "n3"]
    assert lines[3] == hashlib.sha256(BODY).hexdigest()
    assert abs(int(lines[4]) - time.time()) < 60
    assert re.fullmatch("[0-9a-f]{32}", lines[5])
    assert lines[6:] == ["firstfault.end", ""]


def test_a_credential_of_munge_holds_the_statement_and_proves_root(munged: Munged) -> None:
    settings = Settings(munge_socket=str(munged.socket))

    value = signing.authorization(settings, "/v1/records", "n3", BODY)

    scheme, credential = value.split(" ")
    told = subprocess.run(
        ["unmunge", f"--socket={munged.socket}"],
        input=credential,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    head, _, statement = told.partition("\n\n")
    assert scheme == "Firstfault-Munge"
    assert re.search(r"^UID:.*\(0\)$", head, re.MULTILINE)
    check_statement(statement)


def test_no_two_signatures_are_alike(munged: Munged, key_file: Path) -> None:
    for settings in (Settings(munge_socket=str(munged.socket)), Settings(key_file=str(key_file))):
        values = {signing.authorization(settings, "/v1/records", "n3", BODY) for _ in range(3)}

        assert len(values) == 3


def test_a_key_signs_the_statement_without_the_newline_at_its_end(key_file: Path) -> None:
    value = signing.authorization(Settings(key_file=str(key_file)), "/v1/records", "n3", BODY)

    scheme, encoded, mac = value.split(" ")
    statement = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    assert scheme == "Firstfault-Key"
    assert mac == hmac.new(b"0123456789abcdef" * 2, statement, hashlib.sha256).hexdigest()
    assert "=" not in encoded
    check_statement(statement.decode())


@pytest.mark.parametrize(
    ("sign", "has_key", "scheme"),
    [
        ("auto", False, "munge"),
        ("auto", True, "key"),
        ("munge", True, "munge"),
        ("key", True, "key"),
        ("key", False, "key"),
    ],
)
def test_the_scheme(sign: str, has_key: bool, scheme: str) -> None:
    assert signing.scheme(Settings(sign=sign, key_file="/k" if has_key else None)) == scheme


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"k" * 32, 0o640, "others may read it"),
        (b"k" * 32, 0o604, "others may read it"),
        (b"k" * 31, 0o400, "32 to 4096 bytes"),
        (b"k" * 31 + b"\n", 0o400, "32 to 4096 bytes"),
        (b"k" * 5000, 0o400, "32 to 4096 bytes"),
        (b"", 0o400, "32 to 4096 bytes"),
        (None, 0o400, "No such file"),
    ],
)
def test_a_key_file_that_is_not_safe_is_not_used(
    tmp_path: Path, content: bytes | None, mode: int, words: str
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)

    with pytest.raises(signing.SigningError, match=words) as raised:
        signing.authorization(Settings(key_file=str(path)), "/v1/records", "n3", BODY)

    assert str(path) in str(raised.value)
    assert "kkkk" not in str(raised.value)


def test_a_key_file_of_another_user_or_behind_a_link_or_a_pipe_is_not_used(
    tmp_path: Path, key_file: Path
) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(key_file)
    os.mkfifo(pipe, 0o600)
    for path in (link, pipe):
        with pytest.raises(signing.SigningError):
            signing.read_key(Settings(key_file=str(path)))
    if os.geteuid() == 0:
        os.chown(key_file, 65534, 65534)
        with pytest.raises(signing.SigningError, match="chown root"):
            signing.read_key(Settings(key_file=str(key_file)))


def test_without_munged_it_is_said_and_nothing_hangs(tmp_path: Path) -> None:
    with pytest.raises(signing.SigningError, match="munge"):
        signing.authorization(
            Settings(munge_socket=str(tmp_path / "none")), "/v1/records", "n3", BODY
        )


@pytest.mark.parametrize("node", ["", "n 3", "n\n3", "n\x003", "é", "x" * 256])
def test_what_is_no_nodes_name_is_not_signed(key_file: Path, node: str) -> None:
    with pytest.raises(signing.SigningError, match="not a node's name"):
        signing.authorization(Settings(key_file=str(key_file)), "/v1/records", node, BODY)
