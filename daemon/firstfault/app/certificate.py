"""The intake's certificate: read at the start, and again when its files change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from firstfault.app.journal import say
from firstfault.app.workers import StartError
from firstfault.config import Intake
from firstfault.intake import listener


class Certificate:
    """``context`` serves new connections with what the files held when they were last good."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._stamps = self._stamp()
        self.context = listener.tls(certificate, key)

    def renew(self) -> int:
        """Reads the files again where they have changed. Where they do not fit together (yet), what
        is served stays, and they are tried again at their next change."""
        stamps = self._stamp()
        if stamps == self._stamps:
            return 0
        self._stamps = stamps
        try:
            # In a context of its own first: a half-written pair would spoil the one that serves.
            listener.tls(*self._files)
            self.context.load_cert_chain(*self._files)
        except OSError as error:
            said = error.strerror or error
            say(logging.ERROR, "certificate-refused", path=self._files[0], reason=said)
        else:
            say(logging.INFO, "certificate-renewed", path=self._files[0])
        return 0

    def _stamp(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_stamp(path) for path in self._files)


def certificate_of(intake: Intake) -> Certificate | None:
    """As configured; None: plain HTTP, on loopback. Raises `StartError`."""
    if not intake.tls_cert:
        return None
    try:
        return Certificate(Path(intake.tls_cert), Path(intake.tls_key))
    except OSError as error:
        raise StartError(
            f"intake.tls_cert {intake.tls_cert}, intake.tls_key {intake.tls_key}: "
            f"{error.strerror or error}. They are PEM files of the certificate with its chain, and "
            f"of its key without a passphrase."
        ) from error


def tls_of(intake: Intake) -> ssl.SSLContext | None:
    """The context of `certificate_of`. Raises `StartError`."""
    certificate = certificate_of(intake)
    return None if certificate is None else certificate.context


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_ino
