"""The intake's certificate is read again when it changes, and never spoiled by a half-written one."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from firstfault.app.certificate import Certificate, certificate_of
from firstfault.app.workers import StartError
from firstfault.config import Intake


def make(folder: Path, name: str) -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
         "-days", "2", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def served(context: ssl.SSLContext) -> str:
    """The name in the certificate that a new connection is shown."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.verify_mode = ssl.CERT_NONE
    client = asking.wrap_bio(out, into)
    server = context.wrap_bio(into, out, server_side=True)
    for side in (client, server, client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown = client.getpeercert(binary_form=True)
    assert shown is not None
    text = subprocess.run(
        ["openssl", "x509", "-inform", "DER", "-noout", "-subject"],
        input=shown, check=True, capture_output=True,
    ).stdout.decode()  # fmt: skip
    return text.strip().rpartition("=")[2].strip()


def test_a_new_certificate_is_served_once_its_key_fits(tmp_path: Path) -> None:
    old, new = make(tmp_path, "old"), make(tmp_path, "new")
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    for source, target in zip(old, files, strict=True):
        target.write_bytes(source.read_bytes())
    certificate = Certificate(*files)

    def write(path: Path, content: bytes) -> None:
        path.with_suffix(".new").write_bytes(content)
        path.with_suffix(".new").rename(path)
        certificate.renew()

    assert served(certificate.context) == "old"
    write(files[0], new[0].read_bytes())
    assert served(certificate.context) == "old"
    write(files[1], b"half")
    assert served(certificate.context) == "old"
    write(files[1], new[1].read_bytes())
    assert served(certificate.context) == "new"
    files[0].unlink()
    certificate.renew()
    assert served(certificate.context) == "new"


def test_a_certificate_that_is_not_there_is_told_with_its_keys(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"intake\.tls_cert .*No such file"):
        certificate_of(Intake(tls_cert=f"{tmp_path}/x", tls_key=f"{tmp_path}/y"))
