"""The configuration's tables of channels; docs/configuration.md describes each key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from firstfault.deliver.owners import is_address

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")

# A contradiction: the key, and what is wrong with it.
Mistake = tuple[str, str]


class Delivery(msgspec.Struct, frozen=True):
    """[delivery]: who gets what."""

    rules: str = ""


class Mail(msgspec.Struct, frozen=True):
    """[mail]: messages by SMTP."""

    server: str = ""
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    ca_file: str = ""
    user: str = ""
    password_file: str = ""
    sender: str = ""
    owners: bool = True
    max_bytes: int = 262144
    timeout_s: float = 10.0


class Webhook(msgspec.Struct, frozen=True):
    """[webhook]: verdicts as JSON to a site's own program."""

    url: str = ""
    url_file: str = ""
    secret_file: str = ""
    template: str = ""
    timeout_s: float = 10.0

    def __repr__(self) -> str:
        return "Webhook(...)"  # the URL may be a secret


class Apprise(msgspec.Struct, frozen=True):
    """[apprise]: messages by the services that the library Apprise knows."""

    urls_file: str = ""
    timeout_s: float = 10.0


class AdminComment(msgspec.Struct, frozen=True):
    """[admin_comment]: a line in the job's record in Slurm's accounting."""

    enabled: bool = False
    sacctmgr: str = ""
    timeout_s: float = 20.0


def mistakes(mail: Mail, webhook: Webhook) -> Iterator[Mistake]:
    """What in the tables contradicts itself."""
    if webhook.url and webhook.url_file:
        yield "webhook.url", "and webhook.url_file are both set: keep one."
    if not mail.server:
        return
    if not _HOST.fullmatch(mail.server):
        yield "mail.server", f"is {mail.server!r}; it must be a host name or an address."
    if not is_address(mail.sender):
        yield "mail.sender", f'is {mail.sender!r}; set it to an address, "firstfault@example.org".'
    if mail.user and mail.security == "none":
        yield "mail.user", 'is set and mail.security is "none": a password must be encrypted.'
