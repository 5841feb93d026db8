"""A real SMTP server (aiosmtpd) that keeps what it takes, and can refuse, wait or hang up.

with MailServer() as mail:
    smtplib.SMTP(mail.host, mail.port).sendmail(...)
mail.letters[0].message["Subject"]
"""

from __future__ import annotations

import asyncio
import email
import ssl
import threading
from email.message import EmailMessage
from email.policy import default
from types import TracebackType
from typing import Any, NamedTuple

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


class Letter(NamedTuple):
    """What was taken: the envelope, the bytes as they came and the message in them."""

    sender: str
    receivers: tuple[str, ...]
    raw: bytes
    message: EmailMessage


class MailServer:
    """Listens on 127.0.0.1 while the context is entered.

    ``tls`` is a server's context; with ``from_start`` it is spoken from the first byte, else after
    STARTTLS, without which no mail is taken. ``login`` is the only name and password that may send,
    after STARTTLS.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        *,
        from_start: bool = False,
        login: tuple[str, str] | None = None,
    ) -> None:
        self.letters: list[Letter] = []
        self.refused: dict[str, str] = {}  # by receiver: the answer
        self.answer = "250 OK"  # to the message itself
        self.hangs_up = False  # after the message is taken, before it is answered
        self.waits_s = 0.0
        self._login = login
        self._from_start = from_start
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None, "MailServer is used in a with statement"
        return int(self._server.sockets[0].getsockname()[1])

    def _speaker(self) -> SMTP:
        late = self._tls is not None and not self._from_start
        return SMTP(
            self,
            hostname="localhost",
            tls_context=self._tls if late else None,
            require_starttls=late,
            authenticator=self.authenticate if self._login else None,
            auth_required=self._login is not None,
            loop=self._loop,
        )

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        """aiosmtpd's hook: is this the name and password?"""
        assert isinstance(data, LoginPassword)
        given = (data.login.decode(), data.password.decode())
        return AuthResult(success=given == self._login, handled=False)

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """aiosmtpd's hook: may this one get it?"""
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """aiosmtpd's hook: the message is there."""
        await asyncio.sleep(self.waits_s)
        if self.answer.startswith("250"):
            raw = bytes(envelope.original_content or b"")
            message = email.message_from_bytes(raw, policy=default)
            assert isinstance(message, EmailMessage)
            self.letters.append(
                Letter(envelope.mail_from or "", tuple(envelope.rcpt_tos), raw, message)
            )
        if self.hangs_up:
            assert server.transport is not None
            server.transport.abort()
        return self.answer

    def __enter__(self) -> MailServer:
        self._thread.start()
        starting = self._loop.create_server(
            self._speaker, self.host, 0, ssl=self._tls if self._from_start else None
        )
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
