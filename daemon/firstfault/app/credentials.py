"""The configuration's secrets: from the file that a key names, or as systemd hands them over.

systemd's LoadCredential= puts each into a file of $CREDENTIALS_DIRECTORY, readable by this service
alone (systemd.exec(5)); it is used where the key is not set. What was read is hidden from the log.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, urlsplit

import sqlalchemy as sa

from firstfault.app import journal
from firstfault.config import Config, ConfigError

WEBHOOK = "slack-webhook"
LINK_KEY = "web-secret"
STORE_PASSWORD = "store-password"  # noqa: S105 - a name

_URL = re.compile(r"https?://[A-Za-z0-9\[][\x21-\x7e]*")
_SHORTEST_KEY = 32


def webhook(config: Config) -> str:
    """The webhook's URL, "" where Slack is off. Raises `ConfigError`, which does not quote it."""
    remedy = "It holds the webhook's URL and is readable by the daemon's user only."
    url = config.slack.webhook
    if not url:
        url, where = _read("slack.webhook_file", config.slack.webhook_file, WEBHOOK, remedy)
        if url and not _URL.fullmatch(url):
            raise ConfigError(f"{where} holds no URL. {remedy}")
    if url:
        # An error of the HTTP library quotes the path alone.
        journal.hide(url, urlsplit(url).path)
    return url


def link_key(config: Config) -> str:
    """What signs the reports' links, "" where none is set. Raises `ConfigError`."""
    remedy = (
        "It holds 32 random characters or more, readable by the daemon's user only: "
        "openssl rand -hex 32"
    )
    key, where = _read("web.secret_file", config.web.secret_file, LINK_KEY, remedy)
    if key and len(key) < _SHORTEST_KEY:
        raise ConfigError(f"{where} holds too few characters. {remedy}")
    journal.hide(key)
    return key


def store_url(config: Config) -> str:
    """The store's URL, its password put in. Raises `ConfigError`."""
    remedy = "It holds the database's password and is readable by the daemon's user only."
    password, where = _read(
        "store.password_file", config.store.password_file, STORE_PASSWORD, remedy
    )
    try:
        url = sa.make_url(config.store.url)
    except sa.exc.ArgumentError:
        return config.store.url  # who opens it says what is wrong with it
    if password and url.get_backend_name() != "sqlite":
        if url.password:
            raise ConfigError(f"store.url holds a password, and so does {where}: keep one.")
        url = url.set(password=password)
    if url.password:
        journal.hide(str(url.password), quote(str(url.password), safe=""))
    return url.render_as_string(hide_password=False)


def file_of(key_file: str, credential: str) -> Path | None:
    """The file that a secret is read from, None where there is none."""
    if key_file:
        return Path(key_file)
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    path = Path(folder, credential) if folder else None
    return path if path is not None and path.exists() else None


def _read(key: str, key_file: str, credential: str, remedy: str) -> tuple[str, str]:
    """The secret, "" where there is none, and where it is from, for messages."""
    path = file_of(key_file, credential)
    if path is None:
        return "", ""
    where = f"{key} {path}" if key_file else f"the credential {path}"
    try:
        text = path.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror}. {remedy}") from error
    except UnicodeDecodeError:
        # Its message would quote a part of the secret.
        raise ConfigError(f"{where} is not UTF-8. {remedy}") from None
    if not text:
        raise ConfigError(f"{where} is empty. {remedy}")
    return text, where
