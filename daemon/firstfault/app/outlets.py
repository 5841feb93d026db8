"""Mail, webhook, Apprise and AdminComment, as the configuration and the rules turn them on."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jinja2
import jinja2.sandbox
import msgspec

from firstfault.app.credentials import apprise_urls, mail_password, webhook_target
from firstfault.app.lifecycle import NONE, changes
from firstfault.app.links import Links, links_of
from firstfault.app.owners import owners_of
from firstfault.app.rules import Rules
from firstfault.config import Config, ConfigError
from firstfault.deliver.admin_comment import AdminComment
from firstfault.deliver.apprise_channel import AppriseChannel, AppriseError, Note
from firstfault.deliver.mail import Mail, Server
from firstfault.deliver.outcome import Channel
from firstfault.deliver.owners import OwnerError
from firstfault.deliver.webhook import Webhook
from firstfault.model import verdict as v
from firstfault.model.jobs import Delivery, StoredVerdict
from firstfault.report import mail as report_mail
from firstfault.report.discretion import for_owner
from firstfault.report.mail import Letter
from firstfault.slurm import command, sacct

OWNER = "mail-owner"
WEBHOOK = "webhook"
ADMIN_COMMENT = "admin-comment"
SCHEMA = "firstfault.delivery/1"

_CAP_BYTES = 1 << 20


def outlets_of(config: Config, rules: Rules) -> Iterator[tuple[str, Channel]]:
    """The channels that are on, by name. Raises `ConfigError`."""
    links = links_of(config)
    yield from _mail(config, rules, links)
    url, key = webhook_target(config)
    if url:
        yield WEBHOOK, Webhook(url, key, config.webhook.timeout_s, body_of(config, links))
    yield from apprise_of(config, links)
    if config.admin_comment.enabled:
        yield ADMIN_COMMENT, admin_comment(config)


def _mail(config: Config, rules: Rules, links: Links) -> Iterator[tuple[str, Channel]]:
    if not config.mail.server:
        if rules.lists:
            raise ConfigError("delivery.rules: lists are for mail: set mail.server.")
        return
    server, sender, most = mail_server(config), config.mail.sender, config.mail.max_bytes
    letter, owners = letters(links.page), owners_of(config)

    def owner(delivery: Delivery) -> tuple[str, ...]:
        user = delivery.current.verdict.job.user
        if user is None:
            raise OwnerError("Slurm has not said yet whose job it is")
        address = owners.address(user)
        return () if address is None else (address,)

    if config.mail.owners:
        yield OWNER, Mail(server, sender, owner, _owners(letters(links.for_owner)), most)
    for name, addresses in rules.lists.items():
        yield f"mail-{name}", Mail(server, sender, _always(tuple(addresses)), letter, most)


def mail_server(config: Config) -> Server:
    """The mail server, as configured. Raises `ConfigError`."""
    mail = config.mail
    tls = None
    if mail.security != "none":
        try:
            tls = ssl.create_default_context(cafile=mail.ca_file or None)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(f"mail.ca_file {mail.ca_file} cannot be used: {error}") from error
    return Server(
        host=mail.server.strip("[]"),
        port=mail.port,
        security=mail.security,
        tls=tls,
        user=mail.user,
        password=mail_password(config),
        timeout_s=mail.timeout_s,
    )


def letters(link: Callable[[StoredVerdict], str | None]) -> Callable[[Delivery], Letter]:
    """What makes a delivery's mail; ``link`` gives its link to the report."""

    def letter(delivery: Delivery) -> Letter:
        return report_mail.render(
            delivery.current.verdict,
            report_url=link(delivery.current),
            delivery_id=delivery.delivery_id,
            changes=_changes(delivery),
        )

    return letter


def _owners(letter: Callable[[Delivery], Letter]) -> Callable[[Delivery], Letter]:
    """The letter to a job's owner: with no process of another user."""

    def shown(delivery: Delivery) -> Letter:
        current, previous = delivery.current, delivery.previous
        current = msgspec.structs.replace(current, verdict=for_owner(current.verdict))
        before = None if previous is None else for_owner(previous)
        return letter(msgspec.structs.replace(delivery, current=current, previous=before))

    return shown


def body_of(config: Config, links: Links) -> Callable[[Delivery], bytes]:
    """What makes the JSON that is posted: firstfault's own, or what the template makes of it."""
    path = config.webhook.template
    template = _template(Path(path)) if path else None

    def body(delivery: Delivery) -> bytes:
        current = delivery.current
        said = {
            "schema": SCHEMA,
            "delivery": delivery.delivery_id,
            "cluster": current.cluster,
            "job": current.job,
            "incarnation": current.incarnation,
            "revision": current.revision,
            "report_url": links.page(current),
            "changes": _changes(delivery),
            "verdict": msgspec.Raw(v.encode(current.verdict)),
        }
        own = msgspec.json.encode(said)
        if template is None:
            return own
        made = template.render(**msgspec.json.decode(own)).encode("utf-8", "replace")
        msgspec.json.decode(made)  # what is no JSON is not sent
        return made

    return body


def admin_comment(config: Config) -> AdminComment:
    """The channel, as configured. Raises `ConfigError`."""
    asked = sacct.find(config.slurm.sacct)
    beside = str(asked.with_name("sacctmgr")) if asked is not None else "sacctmgr"
    path = config.admin_comment.sacctmgr or shutil.which("sacctmgr") or shutil.which(beside)
    if asked is None or path is None:
        raise ConfigError(
            "admin_comment.enabled: sacct and sacctmgr are not on PATH: install Slurm's client "
            "commands here, or set slurm.sacct and admin_comment.sacctmgr."
        )
    environment = {"LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
    environment["PATH"] = "/usr/bin:/bin"
    if "SLURM_CONF" in os.environ:
        environment["SLURM_CONF"] = os.environ["SLURM_CONF"]

    def run(argv: Sequence[str]) -> command.Output:
        return command.run(argv, environment, config.admin_comment.timeout_s, _CAP_BYTES)

    return AdminComment(Path(path), asked, run)


def notes(link: Callable[[StoredVerdict], str | None]) -> Callable[[Delivery], Note]:
    """What makes a delivery's message for a service of Apprise."""
    letter = letters(link)

    def note(delivery: Delivery) -> Note:
        said = letter(delivery)
        failure = delivery.current.verdict.cause.id != NONE
        return Note(said.subject, said.text, failure=failure)

    return note


def apprise_of(config: Config, links: Links) -> Iterator[tuple[str, Channel]]:
    """Apprise's services, by channel. Raises `ConfigError`."""
    note = notes(links.page)
    for name, url in apprise_urls(config).items():
        try:
            yield f"apprise-{name}", AppriseChannel(url, config.apprise.timeout_s, note)
        except AppriseError as error:
            raise ConfigError(f"apprise.urls_file: the URL of {name} {error}") from error
        except ModuleNotFoundError as error:
            raise ConfigError(
                "apprise.urls_file is set, and Apprise is not installed: "
                "pip install 'firstfault[apprise]'"
            ) from error


def _template(path: Path) -> jinja2.Template:
    environment = jinja2.sandbox.SandboxedEnvironment(undefined=jinja2.StrictUndefined)
    # Unlike jinja2's own it is for JSON alone: no HTML entities in it.
    environment.filters["tojson"] = lambda value: msgspec.json.encode(value).decode()
    try:
        return environment.from_string(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, jinja2.TemplateSyntaxError) as error:
        raise ConfigError(f"webhook.template {path} cannot be used: {error}") from error


def _changes(delivery: Delivery) -> list[str]:
    if delivery.previous is None:
        return []
    return changes(delivery.previous, delivery.current.verdict) or ["the details"]


def _always(addresses: tuple[str, ...]) -> Callable[[Delivery], tuple[str, ...]]:
    return lambda delivery: addresses
