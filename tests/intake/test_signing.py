"""Whose word counts: MUNGE's by a real munged, and a key's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from firstfault.intake import munge, signing
from firstfault.intake.signing import Full, Refused, Signatures
from tests.intake import senders
from tests.intake.munged import Munged

BODY = b"a record"
PATH = senders.RECORDS
NOBODY = 65534


def by_munge(munged: Munged, uids: frozenset[int] = frozenset({0})) -> Signatures:
    return Signatures(munge.decoder(str(munged.socket)), None, uids, time.time)


def by_key(clock: float | None = None) -> Signatures:
    return Signatures(
        None, senders.KEY, frozenset(), time.time if clock is None else lambda: clock or 0.0
    )


@pytest.mark.parametrize("way", [munge.Library, lambda s: munge.Command("/usr/bin/unmunge", s)])
def test_a_credential_of_root_proves_what_it_holds_and_once_only(munged: Munged, way: type) -> None:
    signatures = Signatures(way(str(munged.socket)), None, frozenset({0}), time.time)
    header = senders.by_munge(munged, senders.statement(BODY, "n17"))

    proven = signatures.statement(header, PATH)

    assert (proven.path, proven.node) == (PATH, "n17")
    assert proven.covers(BODY)
    assert not proven.covers(BODY + b"!")
    with pytest.raises(Refused, match="MUNGE credential"):
        signatures.statement(header, PATH)


@pytest.mark.parametrize("way", [munge.Library, lambda s: munge.Command("/usr/bin/unmunge", s)])
def test_a_credential_of_another_user_proves_nothing(munged: Munged, way: type) -> None:
    header = senders.by_munge(munged, senders.statement(BODY), uid=NOBODY)

    with pytest.raises(Refused, match="uid 65534, which may not send"):
        Signatures(way(str(munged.socket)), None, frozenset({0}), time.time).statement(header, PATH)


def test_the_uids_that_count_are_configured(munged: Munged) -> None:
    header = senders.by_munge(munged, senders.statement(BODY), uid=NOBODY)

    assert by_munge(munged, frozenset({NOBODY})).statement(header, PATH).node == "n1"


def test_a_credential_that_was_altered_or_has_expired_proves_nothing(munged: Munged) -> None:
    signed = senders.statement(BODY)
    header = senders.by_munge(munged, signed)
    brief = senders.by_munge(munged, signed, "--ttl=1")
    time.sleep(2.1)

    for wrong in (header[:-9] + "AAAAAAA=:", header[:60], brief):
        with pytest.raises(Refused, match="MUNGE credential"):
            by_munge(munged).statement(wrong, PATH)


def test_a_munged_that_is_away_is_no_word_against_the_sender(tmp_path: Path) -> None:
    for way in (munge.Library(f"{tmp_path}/x"), munge.Command("/usr/bin/unmunge", f"{tmp_path}/x")):
        with pytest.raises(munge.MungeAway, match="Is it running"):
            Signatures(way, None, frozenset({0}), time.time).statement(
                "Firstfault-Munge MUNGE:AwQDAAC=:", PATH
            )


def test_a_key_proves_a_statement_once() -> None:
    signatures = by_key()
    header = senders.by_key(senders.statement(BODY))

    assert signatures.statement(header, PATH).covers(BODY)
    with pytest.raises(Refused, match="nonce was seen before"):
        signatures.statement(header, PATH)


@pytest.mark.parametrize(
    ("signed", "key", "said"),
    [
        (senders.statement(BODY, at=1_000), senders.KEY, "behind the daemon's clock"),
        (senders.statement(BODY, at=9_000), senders.KEY, "ahead of the daemon's clock"),
        (senders.statement(BODY, path="/v1/wanted", at=5_000), senders.KEY, "another path"),
        (senders.statement(BODY, at=5_000), b"x" * 40, "not made with this daemon's key"),
        (senders.statement(BODY, at=5_000)[:-1], senders.KEY, "not a firstfault.statement/1"),
        (senders.statement(BODY, node="a b", at=5_000), senders.KEY, "not a firstfault.statement"),
        (b"", b"x" * 40, "not made with this daemon.s key"),
    ],
)  # fmt: skip
def test_a_key_does_not_prove_what_is_old_elsewhere_or_another_keys(
    signed: bytes, key: bytes, said: str
) -> None:
    with pytest.raises(Refused, match=said):
        by_key(5_000).statement(senders.by_key(signed, key), PATH)


@pytest.mark.parametrize(
    "header",
    ["", "Basic cm9vdDo=", "Firstfault-Key", "Firstfault-Key a b", "Firstfault-Munge ", "\xff" * 99,
     "Firstfault-Key ==== " + "0" * 64, "Firstfault-Munge MUNGE:AwQDAAC=:"],
)  # fmt: skip
def test_what_is_no_signature_is_refused(header: str) -> None:
    with pytest.raises(Refused):
        by_key().statement(header, PATH)


def test_a_scheme_that_is_off_is_refused() -> None:
    with pytest.raises(Refused, match="not turned on"):
        Signatures(None, None, frozenset(), time.time).statement(
            senders.by_key(senders.statement(BODY)), PATH
        )


def test_nonces_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "NONCES_MAX", 3)
    now = [5_000.0]
    signatures = Signatures(None, senders.KEY, frozenset(), lambda: now[0])

    def send() -> None:
        signatures.statement(senders.by_key(senders.statement(BODY, at=now[0])), PATH)

    for _ in range(3):
        send()
    with pytest.raises(Full):
        send()
    now[0] += 2 * signing.WINDOW_S + 1
    send()


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [(b"k" * 31, 0o600, "32 to 4096"), (b"k" * 5000, 0o600, "32 to 4096"),
     (b"k" * 32, 0o604, "chmod o=")],
)  # fmt: skip
def test_a_key_that_is_short_or_open_to_all_is_not_used(
    tmp_path: Path, content: bytes, mode: int, said: str
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(mode)

    with pytest.raises(ValueError, match=said):
        signing.read_key(path)


def test_a_key_is_used_without_the_newline_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(senders.KEY + b"\n")
    path.chmod(0o640)

    assert signing.read_key(path) == senders.KEY
