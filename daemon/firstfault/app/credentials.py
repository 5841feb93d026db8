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
BOT_TOKEN = "slack-token"  # noqa: S105 - a name
LINK_KEY = "web-secret"
PROXY_SECRET = "web-proxy-secret"  # noqa: S105 - a name
STORE_PASSWORD = "store-password"  # noqa: S105 - a name
MAIL_PASSWORD = "mail-password"  # noqa: S105 - a name
WEBHOOK_URL = "webhook-url"
WEBHOOK_KEY = "webhook-secret"
APPRISE_URLS = "apprise-urls"

_URL = re.compile(r"https?://[A-Za-z0-9\[][\x21-\x7e]*")
_TOKEN = re.compile(r"[\x21-\x7e]{10,1000}")
# With "apprise-" before it, it fits into the outbox's column.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
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


def bot_token(config: Config) -> str:
    """The token of Slack's bot, "" where there is none. Raises `ConfigError`."""
    remedy = "It holds the bot's token (xoxb-...) and is readable by the daemon's user only."
    token, where = _read("slack.token_file", config.slack.token_file, BOT_TOKEN, remedy)
    if token and not _TOKEN.fullmatch(token):
        raise ConfigError(f"{where} holds no token. {remedy}")
    journal.hide(token)
    return token


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


def proxy_secret(config: Config) -> str:
    """What the proxy before the pages proves itself by, where one names the user.

    Raises `ConfigError`.
    """
    remedy = (
        "It holds 32 random characters or more (openssl rand -hex 32), which the proxy sends as "
        "X-Firstfault-Proxy: without it every user of the proxy's host could name another user."
    )
    path = config.web.proxy_secret_file
    secret, where = _read("web.proxy_secret_file", path, PROXY_SECRET, remedy)
    if config.web.proxy_user_header and not secret:
        raise ConfigError(
            f"web.proxy_user_header is set: web.proxy_secret_file must name a file. {remedy}"
        )
    if secret and (len(secret) < _SHORTEST_KEY or not _TOKEN.fullmatch(secret)):
        raise ConfigError(f"{where} holds too few characters, or blanks. {remedy}")
    journal.hide(secret)
    return secret


def mail_password(config: Config) -> str:
    """The password of the mail account, "" where there is none. Raises `ConfigError`."""
    remedy = "It holds the mail account's password and is readable by the daemon's user only."
    password, _ = _read("mail.password_file", config.mail.password_file, MAIL_PASSWORD, remedy)
    if config.mail.user and not password:
        raise ConfigError(f"mail.user is set: mail.password_file must name a file. {remedy}")
    journal.hide(password)
    return password


def webhook_target(config: Config) -> tuple[str, str]:
    """The generic webhook's URL and the key that signs, each "" where it is not set.

    Raises `ConfigError`, which quotes neither.
    """
    url, remedy = config.webhook.url, "It is readable by the daemon's user only."
    if not url:
        url, where = _read("webhook.url_file", config.webhook.url_file, WEBHOOK_URL, remedy)
        if url and not _URL.fullmatch(url):
            raise ConfigError(f"{where} holds no http:// or https:// URL. {remedy}")
        if url:
            journal.hide(url, urlsplit(url).path)
    key, where = _read("webhook.secret_file", config.webhook.secret_file, WEBHOOK_KEY, remedy)
    if key and len(key) < _SHORTEST_KEY:
        raise ConfigError(f"{where} holds too few characters: openssl rand -hex 32. {remedy}")
    journal.hide(key)
    return url, key


def apprise_urls(config: Config) -> dict[str, str]:
    """Apprise's URLs by the names that the site gave them. Raises `ConfigError`, quoting none."""
    remedy = "Each of its lines is NAME URL; it is readable by the daemon's user only."
    text, where = _read("apprise.urls_file", config.apprise.urls_file, APPRISE_URLS, remedy)
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, url = line.strip().partition(" ")
        if not _NAME.fullmatch(name) or "://" not in url or name in found:
            raise ConfigError(
                f"{where}: line {number}: must be a name of its own (1 to 24 of a-z, 0-9 and -), "
                f"a blank, and a URL. {remedy}"
            )
        found[name] = url.strip()
        journal.hide(url.strip(), *re.split(r"[/?&=@:]+", url)[1:])
    return found


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
