"""The daemon's configuration: TOML into frozen values. docs/configuration.md describes each key.

etc/firstfault.toml holds every key at its default; a test keeps it, this and the page together.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from firstfault.deliver.settings import (
    AdminComment,
    Apprise,
    Delivery,
    Mail,
    Webhook,
    mistakes,
)
from firstfault.web import settings as web_settings
from firstfault.web.settings import Web, is_loopback

_URL = re.compile(r"https?://[A-Za-z0-9\[][\x21-\x7e]*")
Reported = Literal["always", "if-failed", "never"]
_CHANNELS = ("mail", "webhook", "apprise", "admin_comment")
SYSTEM_FILE = Path("/etc/firstfault/firstfault.toml")


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names file, key and remedy."""


class Spool(msgspec.Struct, frozen=True):
    """[spool]: where collectors put records."""

    dir: str = "/var/spool/firstfault"
    scan_s: float = 2.0
    watch: bool = True
    keep: bool = False
    max_file_bytes: int = 8 * 1024 * 1024
    max_record_bytes: int = 64 * 1024 * 1024


class Intake(msgspec.Struct, frozen=True):
    """[intake]: records and questions that nodes send by HTTP."""

    enabled: bool = False
    host: str = "127.0.0.1"
    port: int = 8766
    tls_cert: str = ""
    tls_key: str = ""
    munge: bool = True
    munge_socket: str = ""
    uids: tuple[int, ...] = (0,)
    key_file: str = ""
    max_connections: int = 512
    max_waiting_bytes: int = 64 * 1024 * 1024
    head_s: float = 10.0
    body_s: float = 30.0


class Store(msgspec.Struct, frozen=True):
    """[store]: the database."""

    url: str = "sqlite:////var/lib/firstfault/firstfault.db"
    password_file: str = ""
    keep_evidence_days: float = 14.0
    keep_verdicts_days: float = 365.0
    max_evidence_bytes: int = 0

    def __repr__(self) -> str:
        return "Store(...)"  # the URL may hold a password


class Slurm(msgspec.Struct, frozen=True):
    """[slurm]: who is asked what Slurm knows of a job."""

    source: Literal["auto", "pyslurm", "sacct", "none"] = "auto"
    sacct: str = ""
    clusters: tuple[str, ...] = ()
    timeout_s: float = 30.0
    first_ask_s: float = 1.0
    give_up_s: float = 1800.0
    sweep_s: float = 300.0
    sweep_after_s: float = 300.0


class Ends(msgspec.Struct, frozen=True):
    """[ends]: which ends of jobs are reported."""

    failed: Reported = "always"
    timeout: Reported = "always"
    node_fail: Reported = "always"
    cancelled: Reported = "always"
    cancelled_by_owner: Reported = "if-failed"
    preempted: Reported = "if-failed"
    requeued: Reported = "if-failed"


class Judge(msgspec.Struct, frozen=True):
    """[judge]: when a job is judged."""

    settle_s: float | Literal["auto"] = "auto"
    early_s: float = 5.0


class Diagnosis(msgspec.Struct, frozen=True):
    """[diagnosis]: what a site adds to it."""

    signatures: str = ""


class Report(msgspec.Struct, frozen=True):
    """[report]: the HTML files."""

    dir: str = "/var/lib/firstfault/reports"


class Mask(msgspec.Struct, frozen=True):
    """[mask]: what a site takes for secrets, beside the known forms."""

    patterns: tuple[str, ...] = ()


class Templates(msgspec.Struct, frozen=True):
    """[templates]: a site's own page templates."""

    dir: str = ""


class Owners(msgspec.Struct, frozen=True):
    """[owners]: the mail address of a job's owner."""

    template: str = ""
    file: str = ""
    command: tuple[str, ...] = ()
    command_timeout_s: float = 10.0


class Incidents(msgspec.Struct, frozen=True):
    """[incidents]: when the failures of several jobs are one matter."""

    jobs: int = 5
    within_s: float = 600.0
    quiet_s: float = 3600.0
    reservations_s: float = 300.0


Domain = Literal["user", "system", "either"]
Confidence = Literal["confirmed", "likely", "possible", "unknown"]


class Slack(msgspec.Struct, frozen=True):
    """[slack]: messages by incoming webhook, and by a bot."""

    webhook: str = ""
    webhook_file: str = ""
    token_file: str = ""
    api_url: str = "https://slack.com/api/"
    owners: bool = True
    admins: str = ""
    admins_domains: tuple[Domain, ...] = ("system", "either")
    admins_confidence: Confidence = "possible"
    admins_causes: tuple[str, ...] = ()
    attach: bool = False
    gather_s: float = 3600.0
    per_hour: int = 20
    timeout_s: float = 10.0
    attempts: int = 160

    def __repr__(self) -> str:
        return "Slack(...)"  # the webhook is a secret


class Explain(msgspec.Struct, frozen=True):
    """[explain]: logs that readers of the pages send to have them explained."""

    enabled: bool = True
    max_bytes: int = 32 * 1024 * 1024
    limit_s: float = 60.0
    max_memory_bytes: int = 1024 * 1024 * 1024
    at_once: int = 2
    per_minute: int = 20
    all_per_minute: int = 60
    keep_days: float = 30.0
    keep_reports: int = 100


class Metrics(msgspec.Struct, frozen=True):
    """[metrics]: what Prometheus reads."""

    enabled: bool = True
    host: str = ""
    port: int = 8767


class Log(msgspec.Struct, frozen=True):
    """[log]: what is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["logfmt", "json"] = "logfmt"
    report: bool = False


class Config(msgspec.Struct, frozen=True):
    """All of it."""

    allow_root: bool = False
    shadow: bool = False
    spool: Spool = Spool()
    intake: Intake = Intake()
    store: Store = Store()
    slurm: Slurm = Slurm()
    ends: Ends = Ends()
    judge: Judge = Judge()
    diagnosis: Diagnosis = Diagnosis()
    report: Report = Report()
    mask: Mask = Mask()
    templates: Templates = Templates()
    owners: Owners = Owners()
    incidents: Incidents = Incidents()
    slack: Slack = Slack()
    delivery: Delivery = Delivery()
    mail: Mail = Mail()
    webhook: Webhook = Webhook()
    apprise: Apprise = Apprise()
    admin_comment: AdminComment = AdminComment()
    web: Web = Web()
    explain: Explain = Explain()
    metrics: Metrics = Metrics()
    log: Log = Log()


def load(path: Path | None) -> Config:
    """The configuration in ``path``; without one the system's file, or defaults if that is absent.

    Raises `ConfigError`.
    """
    if path is None:
        if not SYSTEM_FILE.exists():
            return Config()
        path = SYSTEM_FILE
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error}") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Config:
    """The configuration in a TOML ``text``; ``name`` is the file's, for messages.

    Raises `ConfigError`.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: is not TOML: {error}") from error
    _check_keys(data, Config, name, "")
    try:
        config = msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_located(str(error))}") from error
    for key, said in _contradictions(config):
        raise ConfigError(f"{name}: {key}: {said}")
    return config


def keys(config: Config | None = None) -> dict[str, object]:
    """Every key, dotted ("spool.dir"), with its value in ``config``, or its default."""
    found: dict[str, object] = {}
    for name, value in msgspec.to_builtins(config or Config()).items():
        if isinstance(value, dict):
            found |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            found[name] = value
    return found


def _check_keys(data: dict[str, Any], kind: type[msgspec.Struct], name: str, prefix: str) -> None:
    hints = get_type_hints(kind)
    for key, value in data.items():
        if key not in hints:
            raise ConfigError(
                f"{name}: unknown key {prefix + key!r}. {_remedy(key, hints, prefix)}"
            )
        hint = hints[key]
        if get_origin(hint) is None and isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            if not isinstance(value, dict):
                raise ConfigError(f"{name}: {key} is a table: write [{key}] and its keys below it.")
            _check_keys(value, hint, name, f"{prefix}{key}.")
        elif get_origin(hint) is Literal and value not in get_args(hint):
            allowed = ", ".join(f'"{choice}"' for choice in get_args(hint))
            raise ConfigError(f"{name}: {prefix}{key} is {value!r}; it may be {allowed}.")


def _remedy(key: str, here: Mapping[str, object], prefix: str) -> str:
    """Where an unknown key may have been meant to stand."""
    elsewhere = [known for known in keys() if known.rpartition(".")[2] == key]
    near = [prefix + known for known in difflib.get_close_matches(key, here, n=1, cutoff=0.6)]
    far = difflib.get_close_matches(prefix + key, keys(), n=1, cutoff=0.6)
    for guess in (*elsewhere, *near, *far):
        return f"Did you mean {guess!r}?"
    return f"Known here: {', '.join(sorted(here))}."


def _located(message: str) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.web.port`" with the key first."""
    said, _, place = message.partition(" - at `$.")
    return f"{place.rstrip('`')}: {said}" if place else message


def _contradictions(config: Config) -> list[tuple[str, str]]:
    wrong = _numbers(config) + _intake(config)
    wrong += mistakes(config.mail, config.webhook)
    wrong += web_settings.mistakes(config.web)
    for key, path in (
        ("spool.dir", config.spool.dir),
        ("report.dir", config.report.dir),
        ("slurm.sacct", config.slurm.sacct),
        ("diagnosis.signatures", config.diagnosis.signatures),
        ("templates.dir", config.templates.dir),
        ("owners.file", config.owners.file),
        *(("owners.command", word) for word in config.owners.command[:1]),
        ("slack.webhook_file", config.slack.webhook_file),
        ("slack.token_file", config.slack.token_file),
        ("delivery.rules", config.delivery.rules),
        ("mail.ca_file", config.mail.ca_file),
        ("mail.password_file", config.mail.password_file),
        ("webhook.url_file", config.webhook.url_file),
        ("webhook.secret_file", config.webhook.secret_file),
        ("webhook.template", config.webhook.template),
        ("apprise.urls_file", config.apprise.urls_file),
        ("admin_comment.sacctmgr", config.admin_comment.sacctmgr),
        ("intake.tls_cert", config.intake.tls_cert),
        ("intake.tls_key", config.intake.tls_key),
        ("intake.munge_socket", config.intake.munge_socket),
        ("intake.key_file", config.intake.key_file),
        ("web.secret_file", config.web.secret_file),
        ("web.proxy_secret_file", config.web.proxy_secret_file),
        ("web.tokens_file", config.web.tokens_file),
    ):
        if (path or key in ("spool.dir", "report.dir")) and not path.startswith("/"):
            wrong.append((key, f"is {path!r}; it must be an absolute path."))
    for key, url in (
        ("web.public_url", config.web.public_url),
        ("slack.webhook", config.slack.webhook),
        ("slack.api_url", config.slack.api_url),
    ):
        if url and not _URL.fullmatch(url):
            wrong.append((key, "must be an http:// or https:// URL."))
    wrong += _slack(config.slack)
    if config.owners.template and "{user}" not in config.owners.template:
        wrong.append(("owners.template", 'must hold "{user}", as in "{user}@example.org".'))
    if config.slack.webhook and config.slack.webhook_file:
        wrong.append(("slack.webhook", "and slack.webhook_file are both set: keep one."))
    return wrong


def _intake(config: Config) -> list[tuple[str, str]]:
    intake = config.intake
    wrong = []
    if bool(intake.tls_cert) != bool(intake.tls_key):
        wrong.append(("intake.tls_cert", "and intake.tls_key belong together: set both."))
    if not is_loopback(intake.host) and not intake.tls_cert:
        said = f"is {intake.host!r}: off loopback TLS is needed, set intake.tls_cert and tls_key."
        wrong.append(("intake.host", said))
    if intake.enabled and not intake.munge and not intake.key_file:
        wrong.append(("intake.munge", "is false: then intake.key_file must name a key."))
    if intake.max_waiting_bytes < config.spool.max_file_bytes:
        said = f"must be spool.max_file_bytes ({config.spool.max_file_bytes}) or more."
        wrong.append(("intake.max_waiting_bytes", f"is {intake.max_waiting_bytes}; it {said}"))
    return wrong


def _slack(slack: Slack) -> list[tuple[str, str]]:
    wrong = []
    if slack.admins and not re.fullmatch(r"[CG][A-Z0-9]{2,20}", slack.admins):
        said = (
            "must be a channel's ID, as C0123456789: it stands at the end of the channel's details."
        )
        wrong.append(("slack.admins", f"is {slack.admins!r}; it {said}"))
    if not slack.api_url.endswith("/"):
        wrong.append(("slack.api_url", f'is {slack.api_url!r}; it must end in "/".'))
    return wrong


def _numbers(config: Config) -> list[tuple[str, str]]:
    positive = ["spool.scan_s", "spool.max_file_bytes", "spool.max_record_bytes"]
    positive += ["slurm.timeout_s", "slack.timeout_s", "slack.attempts", "web.link_days"]
    positive += [f"{table}.timeout_s" for table in _CHANNELS] + ["mail.max_bytes"]
    positive += ["store.keep_evidence_days", "store.keep_verdicts_days"]
    positive += ["slack.per_hour", "incidents.jobs", "incidents.within_s", "incidents.quiet_s"]
    positive += [
        "owners.command_timeout_s",
        "intake.max_connections",
        "intake.head_s",
        "intake.body_s",
    ]
    positive += ["explain.max_bytes", "explain.limit_s", "explain.max_memory_bytes"]
    positive += ["explain.at_once", "explain.per_minute", "explain.all_per_minute"]
    positive += ["explain.keep_reports"]
    not_negative = (
        "incidents.reservations_s",
        "slack.gather_s",
        "slurm.first_ask_s",
        "slurm.give_up_s",
        "slurm.sweep_s",
        "slurm.sweep_after_s",
        "judge.settle_s",
        "store.max_evidence_bytes",
        "judge.early_s",
        "explain.keep_days",
    )
    # Longer, and a question or a delivery would be claimed anew while it is under way.
    most = {"slurm.timeout_s": 60, "slack.timeout_s": 25, "owners.command_timeout_s": 25}
    most |= {f"{table}.timeout_s": 25 for table in _CHANNELS}
    most["mail.timeout_s"] = 15  # the owner is looked up before
    most["explain.keep_days"] = 36500
    values: dict[str, Any] = keys(config)
    wrong = [
        (key, "must be a finite number.")
        for key, value in values.items()
        if isinstance(value, float) and not math.isfinite(value)
    ]
    wrong += [(key, "must be more than 0.") for key in positive if not values[key] > 0]
    wrong += [
        (key, "must be 0 or more.")
        for key in not_negative
        if values[key] != "auto" and not values[key] >= 0
    ]
    if config.store.keep_verdicts_days < config.store.keep_evidence_days:
        wrong.append(("store.keep_verdicts_days", "must not be less than keep_evidence_days."))
    wrong += [(key, f"must be {top} or less.") for key, top in most.items() if values[key] > top]
    wrong += [
        (key, "must be 0 to 65535 (0: any free one).")
        for key in ("web.port", "metrics.port", "intake.port", "mail.port")
        if not 0 <= values[key] <= 65535
    ]
    return [(key, f"is {values[key]}; it {said}") for key, said in wrong]
