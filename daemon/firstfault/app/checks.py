"""`firstfault check`: is this host set up? Each point with what was found and the remedy."""

from __future__ import annotations

import errno
import grp
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import requests
import sqlalchemy as sa

from firstfault.app import credentials, outlets, slack_readers
from firstfault.app.accounting import slurm_of
from firstfault.app.certificate import tls_of
from firstfault.app.channels import SLACKS
from firstfault.app.customs import patterns_of, template_faults
from firstfault.app.entrance import TokensFile, coordinators_of, entrance_of, sacctmgr_of
from firstfault.app.intake import signatures_of
from firstfault.app.links import links_of
from firstfault.app.rules import idle_patterns
from firstfault.app.rules_file import rules_of
from firstfault.app.workers import StartError
from firstfault.config import Config, ConfigError
from firstfault.deliver import mail
from firstfault.deliver.bot import Bot, SlackError
from firstfault.deliver.outcome import Failed
from firstfault.intake import spool
from firstfault.intake.site import install
from firstfault.signatures import SignatureError
from firstfault.slurm import library
from firstfault.slurm.coordinators import coordinated
from firstfault.slurm.facts import FactsError
from firstfault.slurm.sacct import Sacct, find
from firstfault.store.database import StoreError, open_store
from firstfault.web import server
from firstfault.web.settings import is_loopback, is_open


class Point(msgspec.Struct, frozen=True):
    """One point: ``fine`` None means that it is switched off."""

    name: str
    fine: bool | None
    said: str


class _Wrong(Exception):
    """What is wrong and the remedy, in one text."""


class _Off(Exception):
    """Why this is switched off."""


def points(config: Config) -> Iterator[Point]:
    """Checks one point after the other; nothing is posted, and nothing stays changed but the
    store's schema, which is brought to this version."""
    user = _point("user", lambda: _user(config))
    yield user
    if not user.fine:
        return  # what root makes here, the daemon could not open
    yield _point("spool", lambda: _spool(config))
    yield _point("store", lambda: _store(config))
    yield _point("reports", lambda: _reports(config))
    if config.diagnosis.signatures:
        yield _point("signatures", lambda: _signatures(config))
    if config.mask.patterns:
        yield _point("mask", lambda: f"{len(patterns_of(config))} patterns of the site's own")
    if config.templates.dir:
        yield _point("templates", lambda: _templates(config))
    yield _point("slurm", lambda: _slurm(config))
    yield _point("slack", lambda: _slack(config))
    yield _point("slack bot", lambda: _slack_bot(config))
    yield _point("mail", lambda: _mail(config))
    yield _point("webhook", lambda: _webhook(config))
    yield _point("apprise", lambda: _apprise(config))
    yield _point("admin comment", lambda: _admin_comment(config))
    yield _point("rules", lambda: _rules(config))
    yield _point("pages", lambda: _pages(config))
    yield _point("access", lambda: _access(config))
    yield _point("links", lambda: _links(config))
    yield _point("metrics", lambda: _metrics(config))
    yield _point("intake", lambda: _intake(config))
    if config.shadow:
        yield Point("shadow", None, "shadow = true: nothing is posted, now or later")


def _point(name: str, check: Callable[[], str]) -> Point:
    try:
        return Point(name, True, check())
    except _Off as error:
        return Point(name, None, str(error))
    except (_Wrong, ConfigError, StartError) as error:
        return Point(name, False, str(error))


def _user(config: Config) -> str:
    if os.geteuid() == 0 and not config.allow_root:
        raise _Wrong(
            "this is root, and the daemon does not run as root. Run the check as the daemon's "
            "user (runuser -u firstfault -- firstfault check), or set allow_root = true."
        )
    return f"uid {os.geteuid()}"


def _spool(config: Config) -> str:
    folder = Path(config.spool.dir)
    _writable(folder, "spool.dir", "install -d -o root -g firstfault -m 2770 {}")
    try:
        aside = sum(not p.name.endswith(".reason") for p in (folder / spool.QUARANTINE).iterdir())
    except OSError:
        aside = 0
    note = f"; {aside} records in quarantine, each with a .reason" if aside else ""
    return f"{folder} is writable, {len(spool.waiting(folder))} records wait{note}"


def _store(config: Config) -> str:
    _secret("store.password_file", config.store.password_file)
    try:
        database = open_store(credentials.store_url(config))
    except StoreError as error:
        raise _Wrong(f"{error}") from error
    try:
        with database.writing() as connection:
            connection.execute(sa.text("SELECT 1"))
        return f"{database.engine.url.render_as_string(hide_password=True)} is open"
    except sa.exc.SQLAlchemyError as error:
        raise _Wrong(f"store.url: cannot write: {error}") from error
    finally:
        database.close()


def _reports(config: Config) -> str:
    folder = Path(config.report.dir)
    _writable(folder, "report.dir", "install -d -o firstfault -g firstfault -m 0750 {}")
    return f"{folder} is writable"


def _signatures(config: Config) -> str:
    folder = Path(config.diagnosis.signatures)
    try:
        return f"{install(folder)} of the site's own in {folder} are sound"
    except SignatureError as error:
        raise _Wrong(f"diagnosis.signatures: {error}") from error


def _templates(config: Config) -> str:
    if faults := template_faults(config):
        raise _Wrong("; ".join(faults))
    return f"those in {config.templates.dir} can be read"


def _slurm(config: Config) -> str:
    if config.slurm.source == "none":
        raise _Off('not asked (slurm.source = "none")')
    if config.slurm.source == "pyslurm":
        return _pyslurm(config)
    path = find(config.slurm.sacct)
    if path is None:
        raise _Wrong(
            "sacct is not on PATH. Install Slurm's client commands here, set slurm.sacct to its "
            'path, or set slurm.source = "none".'
        )
    sacct = Sacct(path, config.slurm.timeout_s)
    try:
        fields = sacct.fields()
        # A job that hardly exists: what matters is that accounting answers.
        sacct.facts(["4294967294"])
    except FactsError as error:
        raise _Wrong(f"{error}") from error
    return f"{path} answers ({len(fields)} fields)"


def _pyslurm(config: Config) -> str:
    if not library.is_installed():
        raise _Wrong(
            "pyslurm is not installed: pip install 'firstfault[pyslurm]' in a version that fits "
            'the cluster\'s Slurm, or set slurm.source = "auto".'
        )
    try:
        slurm_of(config).facts(["4294967294"])
    except FactsError as error:
        raise _Wrong(f"{error}") from error
    return "pyslurm answers"


def _slack(config: Config) -> str:
    url = credentials.webhook(config)
    if not url:
        raise _Off("off (slack.webhook_file is not set; a unit's credentials are not seen here)")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise _Wrong("the webhook is no URL: copy it anew from Slack's app page.") from error
    _secret("slack.webhook_file", config.slack.webhook_file)
    try:
        # The webhook itself answers to posts only; its server must be reachable.
        with requests.head(
            f"{parts.scheme}://{parts.netloc}/", timeout=config.slack.timeout_s, stream=True
        ) as response:
            return f"{parts.hostname} answers ({response.status_code}); nothing was posted"
    except requests.RequestException as error:
        raise _Wrong(
            f"{parts.hostname} cannot be reached ({type(error).__name__}). Check name resolution, "
            f"the firewall, and HTTPS_PROXY in the daemon's environment."
        ) from error


def _slack_bot(config: Config) -> str:
    token = credentials.bot_token(config)
    if not token:
        raise _Off("off (slack.token_file is not set; a unit's credentials are not seen here)")
    _secret("slack.token_file", config.slack.token_file)
    told = slack_readers.readers(config)
    if not told:
        raise _Wrong("it writes to nobody: set [owners] for owners, or slack.admins.")
    try:
        name = Bot(token, config.slack.timeout_s, config.slack.api_url).name()
    except SlackError as error:
        raise _Wrong(f"{error.failed.reason}") from error
    return f"{name}, writes to {' and '.join(told)}; nothing was posted"


def _mail(config: Config) -> str:
    if not config.mail.server:
        raise _Off("off (mail.server is not set)")
    _secret("mail.password_file", config.mail.password_file)
    server = outlets.mail_server(config)
    answer = mail.tried(server)
    if isinstance(answer, Failed):
        raise _Wrong(answer.reason)
    whose = f" and lets {server.user} in" if server.user else ""
    return f"{server.host} port {server.port} answers{whose}; nothing was sent"


def _webhook(config: Config) -> str:
    _secret("webhook.url_file", config.webhook.url_file)
    _secret("webhook.secret_file", config.webhook.secret_file)
    url, key = credentials.webhook_target(config)
    if not url:
        raise _Off("off (webhook.url is not set)")
    outlets.body_of(config, links_of(config))
    return f"posts to {urlsplit(url).hostname}, {'signed' if key else 'unsigned'}; not tried"


def _apprise(config: Config) -> str:
    _secret("apprise.urls_file", config.apprise.urls_file)
    names = [name for name, _ in outlets.apprise_of(config, links_of(config))]
    if not names:
        raise _Off("off (apprise.urls_file is not set)")
    return f"{', '.join(names)}; not tried"


def _admin_comment(config: Config) -> str:
    if not config.admin_comment.enabled:
        raise _Off("off (admin_comment.enabled = false)")
    outlets.admin_comment(config)
    return "sacctmgr is there; whether it may write is seen at the first failure"


def _rules(config: Config) -> str:
    if not config.delivery.rules:
        raise _Off("none (delivery.rules is not set): every channel gets every report")
    rules = rules_of(config)
    known = [name for name, _ in outlets.outlets_of(config, rules)] + list(SLACKS)
    for name, pattern in idle_patterns(rules, known):
        raise _Wrong(
            f"delivery.rules {config.delivery.rules}: rule {name!r} sends to {pattern!r}, and no "
            f"channel fits it. There are: {', '.join(known)}."
        )
    return f"{len(rules.rule)} rules in {config.delivery.rules} are sound"


def _pages(config: Config) -> str:
    if not config.web.enabled:
        raise _Off("off (web.enabled = false)")
    return _address("web", config.web.host, config.web.port)


def _access(config: Config) -> str:
    web = config.web
    if not web.enabled:
        raise _Off("off, as the pages are")
    _secret("web.proxy_secret_file", web.proxy_secret_file)
    entrance_of(config)
    if is_open(web):
        reached = f"on {web.host}" + (f" or by {web.public_url}" if web.public_url else "")
        return (
            f"open: whoever reaches the pages, {reached}, sees and does everything; "
            f"docs/access.md tells how they learn who reads"
        )
    ways = []
    if web.proxy_user_header:
        proxies = ", ".join(web.trusted_proxies)
        ways.append(f"{web.proxy_user_header} from {proxies}")
    if web.munge:
        ways.append("MUNGE")
    if web.tokens_file:
        ways.append(f"{len(TokensFile(Path(web.tokens_file)).read())} tokens")
    unknown = [name for name in web.admin_groups if not _is_group(name)]
    if unknown:
        raise _Wrong(
            f"web.admin_groups: {', '.join(unknown)}: no such group on this host (getent group)."
        )
    admins = [*web.admins, *(f"the group {name}" for name in web.admin_groups)]
    seen = f"{', '.join(admins)} see everything" if admins else "only root sees everything"
    bare = "" if is_loopback(web.host) else f"; {web.host} is plain HTTP: TLS is the proxy's"
    return f"{', '.join(ways)}; {seen}; {_coordinators(config)}{bare}"


def _coordinators(config: Config) -> str:
    if coordinators_of(config) is None:
        return "coordinators see their own jobs alone"
    try:
        found = coordinated(sacctmgr_of(config), config.slurm.timeout_s)
    except FactsError as error:
        raise _Wrong(f"web.coordinators: {error}. Mend it, or set it to false.") from error
    return f"{len(found)} coordinators see their accounts"


def _is_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def _links(config: Config) -> str:
    _secret("web.secret_file", config.web.secret_file)
    key = credentials.link_key(config)
    if not config.web.public_url:
        raise _Off("messages carry none (web.public_url is not set)")
    if not key:
        return f"lead to {config.web.public_url}, unsigned: readers need a way to the pages"
    return f"lead to {config.web.public_url}, signed, good for {config.web.link_days} days"


def _metrics(config: Config) -> str:
    if not config.metrics.enabled:
        raise _Off("off (metrics.enabled = false)")
    if config.metrics.host:
        return _address("metrics", config.metrics.host, config.metrics.port)
    if not config.web.enabled:
        raise _Wrong("the pages, where they would be, are off: set metrics.host.")
    return "at /metrics of the pages"


def _intake(config: Config) -> str:
    if not config.intake.enabled:
        raise _Off("off (intake.enabled = false): records come by the spool")
    signatures_of(config.intake)
    tls_of(config.intake)
    return _address("intake", config.intake.host, config.intake.port)


def _address(table: str, host: str, port: int) -> str:
    try:
        server.listener(host, port).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise _Wrong(
                f"{table}: cannot listen on {host} port {port}: {error.strerror or error}. Set "
                f"{table}.host to an address of this host."
            ) from error
        return f"{host} port {port} is in use: by the daemon, if it runs"
    return f"{host} port {port} is free for the daemon"


def _secret(key: str, path: str) -> None:
    if not path:
        return
    try:
        mode = stat.S_IMODE(Path(path).stat().st_mode)
    except OSError:
        return  # who reads it says so
    if mode & 0o077 & ~0o040:
        raise _Wrong(f"{key} {path} has mode {mode:04o}: it holds a secret. chmod 0600 it.")


def _writable(folder: Path, key: str, remedy: str) -> None:
    if not folder.is_dir():
        raise _Wrong(f"{key} {folder} is not there. Make it: {remedy.format(folder)}")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".check-"):
            pass
    except OSError as error:
        raise _Wrong(
            f"{key} {folder} cannot be written: {error.strerror}. Mend it: {remedy.format(folder)}"
        ) from error
