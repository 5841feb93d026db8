"""Who comes in to the pages, as [web] tells: ways of proof, names of hosts, tokens of forms."""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from firstfault.app.credentials import link_key, proxy_secret
from firstfault.app.journal import say
from firstfault.app.rights import Coordinators, Rights
from firstfault.config import Config, ConfigError
from firstfault.intake import munge
from firstfault.slurm import sacct
from firstfault.slurm.coordinators import coordinated
from firstfault.slurm.facts import FactsError
from firstfault.web import signed, tokens
from firstfault.web.access import Access, Open, Unasked, Way, Ways
from firstfault.web.forms import Forms
from firstfault.web.guard import Entrance
from firstfault.web.hosts import names_of
from firstfault.web.proxy import Proxy
from firstfault.web.settings import is_loopback, is_open


def entrance_of(config: Config, coordinators: Coordinators | None = None) -> Entrance:
    """Who comes in, as configured. Raises `ConfigError`."""
    web = config.web
    access: Access
    if is_open(web):
        if not is_loopback(web.host):  # of a running daemon, whose address a reload does not change
            raise ConfigError(
                f"web.host is {web.host!r}, and nothing tells any more who reads: "
                f"set web.proxy_user_header, or restart with the pages on 127.0.0.1."
            )
        access = Open()
    else:
        access = Ways(list(_ways(config, coordinators)))
    return Entrance(
        access,
        names_of(web.host, web.public_url, web.allowed_hosts),
        Forms(link_key(config)),
        web.public_url,
    )


def coordinators_of(config: Config) -> Coordinators | None:
    """Who tells which accounts users coordinate; None where nobody is asked."""
    asked = config.web.coordinators and config.slurm.source != "none"
    if not config.web.enabled or is_open(config.web) or not asked:
        return None
    return Coordinators(lambda: coordinated(sacctmgr_of(config), config.slurm.timeout_s))


def sacctmgr_of(config: Config) -> Path:
    """sacctmgr's absolute path. Raises `FactsError`."""
    known = sacct.find(config.slurm.sacct)
    beside = None if known is None else shutil.which(known.with_name("sacctmgr"))
    path = config.admin_comment.sacctmgr or beside or shutil.which("sacctmgr")
    if not path:
        raise FactsError("sacctmgr is not on PATH, nor beside slurm.sacct")
    return Path(path).absolute()


def _ways(config: Config, coordinators: Coordinators | None) -> Sequence[Way]:
    web = config.web
    rights = Rights(web.admins, web.admin_groups, coordinators)
    ways: list[Way] = []
    if web.tokens_file:
        known = TokensFile(Path(web.tokens_file))
        known.read()
        ways.append(tokens.Tokens(known.now, _today))
    if web.munge:
        decode = decoding(config.intake.munge_socket)
        ways.append(signed.Signatures(decode, rights.of_uid, time.time))
    if web.proxy_user_header:
        secret = proxy_secret(config)
        ways.append(Proxy(web.proxy_user_header, secret, web.trusted_proxies, rights.of))
    return ways


def decoding(socket: str) -> signed.Decode:
    """Decodes MUNGE credentials. Raises `ConfigError` where nothing can."""
    try:
        decode = munge.decoder(socket)
    except munge.MungeAway as error:
        raise ConfigError(f"web.munge: {error}") from error

    def asked(credential: str) -> signed.Signed:
        try:
            made = decode(credential)
        except munge.Unacceptable as error:
            raise signed.Unacceptable(str(error)) from error
        except munge.MungeAway as error:
            raise Unasked(str(error)) from error
        return signed.Signed(made.uid, made.payload)

    return asked


class TokensFile:
    """The tokens in a file, read again when it changes. While it cannot be read none counts: a
    token that was taken out must not come back by a slip."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._known: tuple[tokens.Token, ...] = ()

    def read(self) -> tuple[tokens.Token, ...]:
        """The tokens as the file is now. Raises `ConfigError`."""
        where = f"web.tokens_file {self._path}"
        try:
            with self._path.open("rb") as file:
                info = os.fstat(file.fileno())
                text = file.read(1024 * 1024).decode("utf-8")
            if info.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
                raise ConfigError(f"{where} may be written by others: chmod go-w it.")
            return tokens.parse(text)
        except OSError as error:
            raise ConfigError(f"{where}: cannot be read: {error.strerror}") from error
        except (UnicodeDecodeError, tokens.TokenError) as error:
            raise ConfigError(f"{where}: {error}") from error

    def now(self) -> Sequence[tokens.Token]:
        """The tokens that count."""
        with self._lock:
            seen = self._signs()
            if seen != self._seen:
                try:
                    self._known = self.read()
                except ConfigError as error:
                    self._known = ()
                    say(logging.ERROR, "tokens-refused", error=error)
                self._seen = seen
            return self._known

    def _signs(self) -> tuple[int, ...]:
        try:
            info = self._path.stat()
        except OSError:
            return (0,)
        return (info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)


def _today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()
