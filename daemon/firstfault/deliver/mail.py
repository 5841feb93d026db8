"""Mail by SMTP (RFC 5321, 5322), over verified TLS.

A message's Message-ID comes from its delivery: where it was sent twice (the server took it, and the
answer was lost), both have one, and mail programs show one. Reports with one fingerprint refer to a
message that never was, which makes mail programs show them as one conversation.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import smtplib
import ssl
from collections.abc import Callable, Mapping
from email.header import Header
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime
from typing import Literal

import msgspec

from firstfault.deliver.outcome import Failed, Needless, Result, Sent
from firstfault.deliver.owners import OwnerError
from firstfault.deliver.patience import within
from firstfault.model.jobs import Delivery
from firstfault.report.mail import Letter


class _Policy(EmailPolicy):
    """Keeps a subject as it is written, and makes encoded words (RFC 2047) of it where it is more
    than plain ASCII or looks like one: the library's own way decodes what looks like one, and may
    break one in two."""

    def header_store_parse(self, name: str, value: str) -> tuple[str, str]:
        """As the library's, but for the subject; one of several lines raises ValueError."""
        if name.lower() != "subject":
            return super().header_store_parse(name, value)
        if len(value.splitlines()) > 1:
            raise ValueError("a subject is one line")
        return name, value

    def fold_binary(self, name: str, value: str) -> bytes:
        """As the library's, but for the subject."""
        if name.lower() != "subject":
            return super().fold_binary(name, value)
        said = str(value)
        charset = "us-ascii" if said.isascii() and "=?" not in said else "utf-8"
        folded = Header(said, charset, header_name=name).encode(linesep=self.linesep)
        return f"{name}: {folded}{self.linesep}".encode("ascii")


# 7-bit: no server needs an extension for it; lines end in CRLF and are never too long.
_POLICY = _Policy(linesep="\r\n", cte_type="7bit")
_CUT = "\n\n[cut here: the message would be too large]\n"
_REASON = 200


class Server(msgspec.Struct, frozen=True):
    """A mail server, and how it is spoken to; ``user`` "": without logging in."""

    host: str
    port: int
    security: Literal["starttls", "tls", "none"]
    tls: ssl.SSLContext | None = None
    user: str = ""
    password: str = ""
    timeout_s: float = 10.0

    def __repr__(self) -> str:
        return f"Server({self.host}:{self.port})"  # it holds a password


class Mail:
    """Sends each report to the addresses that ``receivers`` gives; () or None: nobody.

    ``receivers`` may raise `OwnerError`. ``letter`` gives what a delivery says.
    """

    def __init__(
        self,
        server: Server,
        sender: str,
        receivers: Callable[[Delivery], tuple[str, ...]],
        letter: Callable[[Delivery], Letter],
        max_bytes: int,
    ) -> None:
        self._server = server
        self._sender = sender
        self._receivers = receivers
        self._letter = letter
        self._max_bytes = max_bytes

    def send(self, delivery: Delivery) -> Result:
        """Sends once; the server has twice its time-out for all of it."""
        try:
            receivers = self._receivers(delivery)
        except OwnerError as error:
            return Failed(str(error), alone=True)
        if not receivers:
            user = delivery.current.verdict.job.user
            return Needless(f"no mail address is known of {user or 'the owner'}, or they want none")
        letter, now = self._letter(delivery), dt.datetime.now(dt.UTC)
        content = message(delivery, letter, self._sender, receivers, now, self._max_bytes)
        seconds = 2 * self._server.timeout_s
        late = Failed(f"{self._server!r} did not take the message within {seconds:g} s")
        return within(
            seconds, lambda: _posted(self._server, self._sender, receivers, content), late
        )


def message(
    delivery: Delivery,
    letter: Letter,
    sender: str,
    receivers: tuple[str, ...],
    now: dt.datetime,
    max_bytes: int,
) -> bytes:
    """The message in RFC 5322's form. What would be larger than ``max_bytes`` goes without HTML,
    and then with its text cut."""
    whole = _encoded(delivery, letter, sender, receivers, now)
    if len(whole) <= max_bytes:
        return whole
    plain = msgspec.structs.replace(letter, html="")
    short = _encoded(delivery, plain, sender, receivers, now)
    while len(short) > max_bytes and len(plain.text) > len(_CUT):
        kept = max(0, len(plain.text) * max_bytes // len(short) - 2 * len(_CUT))
        plain = msgspec.structs.replace(plain, text=plain.text[:kept] + _CUT)
        short = _encoded(delivery, plain, sender, receivers, now)
    return short


def _encoded(
    delivery: Delivery,
    letter: Letter,
    sender: str,
    receivers: tuple[str, ...],
    now: dt.datetime,
) -> bytes:
    host = sender.rpartition("@")[2]
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = f"firstfault <{sender}>"
    mail["To"] = ", ".join(receivers)
    mail["Subject"] = letter.subject
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{delivery.delivery_id}@{host}>"
    mail["In-Reply-To"] = mail["References"] = f"<{_thread(delivery)}@{host}>"
    # RFC 3834, 5: so that nobody's absence note answers it.
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(letter.text)
    if letter.html:
        mail.add_alternative(letter.html, subtype="html")
    return mail.as_bytes()


def _thread(delivery: Delivery) -> str:
    current = delivery.current
    same = current.verdict.fingerprint or f"job {current.job} {current.incarnation}"
    return hashlib.sha256(f"{current.cluster}\n{same}".encode("utf-8", "replace")).hexdigest()[:24]


def tried(server: Server) -> Result:
    """Whether the server can be reached, and lets this account in; nothing is sent."""
    return _done(server, lambda smtp: {})


def _posted(server: Server, sender: str, receivers: tuple[str, ...], content: bytes) -> Result:
    return _done(server, lambda smtp: smtp.sendmail(sender, receivers, content), receivers)


def _done(
    server: Server,
    work: Callable[[smtplib.SMTP], Mapping[str, tuple[int, bytes]]],
    receivers: tuple[str, ...] = (),
) -> Result:
    try:
        with _connected(server) as smtp:
            refused = work(smtp)
    except smtplib.SMTPRecipientsRefused as error:
        return _not_taken(server, error.recipients, ())
    except smtplib.SMTPResponseException as error:
        said = f"{server!r} answered {error.smtp_code}: {_text(error.smtp_error)}"
        # A login that fails is mended there, or here: the next message would fail alike.
        passing = error.smtp_code < 500 or isinstance(error, smtplib.SMTPAuthenticationError)
        return Failed(said, retry=passing)
    except smtplib.SMTPNotSupportedError as error:
        return Failed(f"{server!r}: {error}. Set mail.security and mail.user to what it offers.")
    except ssl.SSLCertVerificationError as error:
        said = f"{server!r} shows no valid certificate ({error.verify_message})"
        return Failed(f"{said}. Set mail.ca_file, or mail.server to the name in the certificate.")
    except (OSError, smtplib.SMTPException) as error:
        return Failed(f"{server!r} could not be reached or closed ({type(error).__name__})")
    if refused:
        taken = tuple(address for address in receivers if address not in refused)
        return _not_taken(server, refused, taken)
    return Sent()


def _connected(server: Server) -> smtplib.SMTP:
    if server.security == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, timeout=server.timeout_s, context=server.tls
        )
    else:
        smtp = smtplib.SMTP(server.host, server.port, timeout=server.timeout_s)
    try:
        if server.security == "starttls":
            smtp.starttls(context=server.tls)
        if server.user:
            smtp.login(server.user, server.password)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _not_taken(
    server: Server, refused: Mapping[str, tuple[int, bytes]], taken: tuple[str, ...]
) -> Failed:
    said = "; ".join(f"{to}: {code} {_text(why)}" for to, (code, why) in sorted(refused.items()))
    others = f" ({', '.join(taken)} have it)" if taken else ""
    # Sent again it would come twice to those who have it.
    passing = not taken and all(code < 500 for code, _ in refused.values())
    return Failed(f"{server!r} refused {said}{others}", retry=passing, alone=True)


def _text(said: bytes | str) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return " ".join(text.split())[:_REASON]
