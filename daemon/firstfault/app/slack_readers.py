"""Whom Slack's bot writes to: a job's owner alone, and the administrators in their channel."""

from __future__ import annotations

import datetime as dt
import fnmatch
import time
from collections.abc import Callable

import msgspec

from firstfault.app import gathering, rendering
from firstfault.app.gathering import Said
from firstfault.app.links import Links, links_of
from firstfault.config import Config
from firstfault.config import Slack as Settings
from firstfault.deliver.bot import Bot
from firstfault.deliver.outcome import Failed, Needless
from firstfault.deliver.owners import OwnerError, Owners
from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.report import slack_brief
from firstfault.report.advice import ON_CALL, OWNER
from firstfault.report.discretion import for_owner
from firstfault.report.masking import masked
from firstfault.store import common_causes, messages
from firstfault.store.database import Database
from firstfault.store.incidents import signs_of
from firstfault.store.messages import Message, Pace, Place, Told

OWNERS = "slack-owner"
ADMINS = "slack-admins"
_NAMES = 10
# Conversations are kept in memory so long; the next daemon asks anew.
_KEPT_S = 3600.0
_MOST_KEPT = 10_000
# Slack bears three changes of a message in a second or so; people bear fewer.
_PAUSE = dt.timedelta(seconds=10)


class ToOwners:
    """Direct messages, found by mail address."""

    def __init__(
        self, database: Database, bot: Bot, owners: Owners, links: Links, attach: bool
    ) -> None:
        self._database = database
        self._bot = bot
        self._owners = owners
        self._links = links
        self._attach = attach
        self._known: dict[str, tuple[float, str]] = {}

    def place(self, delivery: j.Delivery) -> Place | Needless | Failed:
        """The conversation with the job's owner."""
        verdict = delivery.current.verdict
        user = verdict.job.user
        if user is None:
            return Failed("Slurm has not said yet whose job it is", alone=True)
        try:
            address = self._owners.address(user)
        except OwnerError as error:
            return Failed(str(error))
        if address is None:
            return Needless(f"[owners] tells no address of {user}")
        conversation = self._conversation(address)
        if conversation is None:
            return Needless(f"nobody in Slack's workspace has the address {address}")
        incident = common_causes.of_job(self._database, delivery.job_key)
        subject = f"incident/{incident}" if incident is not None else _subject(verdict, user)
        return Place(OWNERS, conversation, subject, _array(verdict))

    def say(self, message: Message) -> Said | None:
        """The report in a glance, or, of an incident, a line."""
        told = _told(self._database, message)
        job_key = told.job_key
        if told.shown is None or job_key is None:
            return None
        shown = msgspec.structs.replace(told.shown, verdict=for_owner(told.shown.verdict))
        told = msgspec.structs.replace(told, shown=shown)
        verdict, url = shown.verdict, self._links.for_owner(shown)
        key = common_causes.of_job(self._database, job_key)
        found = () if key is None else common_causes.listed(self._database, 1, key=key)
        for incident in found:
            return Said(
                slack_brief.incident_line(
                    incident,
                    verdict=verdict,
                    report_url=url,
                    count=told.count,
                    message_id=message.message_id,
                )
            )
        page = rendering.page(shown).encode("utf-8", "replace") if self._attach else None
        file = None if page is None else (f"{shown.job}.html", page)
        return Said(_brief(told, message, url), file)

    def _conversation(self, address: str) -> str | None:
        known = self._known.get(address)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        user = self._bot.user(address)
        if user is None:
            return None
        conversation = self._bot.direct(user)
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[address] = (time.monotonic() + _KEPT_S, conversation)
        return conversation


class ToAdmins:
    """The administrators' channel, with its filter; incidents stand in it for their jobs."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        links: Links,
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._database = database
        self._settings = settings
        self._links = links
        self._clock = clock

    def place(self, delivery: j.Delivery) -> Place | Needless | Failed:
        """Their channel, where the failure is one that they want to hear of."""
        verdict = delivery.current.verdict
        # What was said is corrected, whatever the filter thinks of the correction.
        if not messages.has_job(self._database, ADMINS, delivery.job_key):
            reason = self._unwanted(delivery)
            if reason is not None:
                return Needless(reason)
        subject = _subject(verdict, verdict.job.user or "")
        return Place(ADMINS, self._settings.admins, subject, _array(verdict))

    def say(self, message: Message) -> Said | None:
        """The report in a glance, or the incident."""
        if message.incident_key is not None:
            found = common_causes.listed(self._database, 1, key=message.incident_key)
            url = self._links.pages()
            return next(
                (
                    Said(slack_brief.incident(one, report_url=url, message_id=message.message_id))
                    for one in found
                ),
                None,
            )
        told = _told(self._database, message)
        if told.shown is None:
            return None
        # Who may see all reports needs no signed link, and who may not gets none here.
        return Said(_brief(told, message, self._links.page(told.shown), ON_CALL))

    def _unwanted(self, delivery: j.Delivery) -> str | None:
        verdict, cause = delivery.current.verdict, delivery.current.verdict.cause
        wanted = self._settings
        if cause.domain not in wanted.admins_domains:
            return f"slack.admins_domains leaves out {cause.domain}"
        if v.weaker(cause.confidence, wanted.admins_confidence) != wanted.admins_confidence:
            return f"{cause.confidence} is less than slack.admins_confidence"
        patterns = wanted.admins_causes
        if patterns and not any(fnmatch.fnmatchcase(cause.id, one) for one in patterns):
            return f"slack.admins_causes leaves out {cause.id}"
        incident = common_causes.of_job(self._database, delivery.job_key)
        if incident is not None:
            return f"it is told as one of incident {incident}"
        signs = signs_of(verdict)
        silence = common_causes.silenced(
            self._database, delivery.current.cluster, signs, self._clock()
        )
        if silence is not None:
            return f"{silence.name} is silenced by {silence.said_by}"
        return None


def readers(config: Config) -> tuple[str, ...]:
    """The channels that the bot has, where it has a token."""
    owners = config.owners
    has_addresses = bool(owners.template or owners.file or owners.command)
    return (
        *((OWNERS,) if config.slack.owners and has_addresses else ()),
        *((ADMINS,) if config.slack.admins else ()),
    )


def readers_of(
    config: Config, database: Database, token: str, owners: Owners
) -> dict[str, gathering.Gathering]:
    """The bot's channels, as configured. Raises `ConfigError`."""
    links = links_of(config)
    settings = config.slack
    bot = Bot(token, settings.timeout_s, settings.api_url)
    pace = Pace(dt.timedelta(seconds=settings.gather_s), _PAUSE, settings.per_hour)
    told = readers(config)
    made: dict[str, gathering.Reader] = {}
    if OWNERS in told:
        made[OWNERS] = ToOwners(database, bot, owners, links, settings.attach)
    if ADMINS in told:
        made[ADMINS] = ToAdmins(database, settings, links, _now)
    seconds = 2 * settings.timeout_s
    return {
        name: gathering.Gathering(database, name, bot, reader, pace, seconds, _now)
        for name, reader in made.items()
    }


def _told(database: Database, message: Message) -> Told:
    told = messages.told(database, message.key, _NAMES)
    if told.shown is None:
        return told
    # As the site's patterns are today.
    verdict = masked(told.shown.verdict)
    return msgspec.structs.replace(told, shown=msgspec.structs.replace(told.shown, verdict=verdict))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _brief(told: Told, message: Message, url: str | None, reader: str = OWNER) -> dict[str, object]:
    assert told.shown is not None
    return slack_brief.render(
        told.shown.verdict,
        report_url=url,
        message_id=message.message_id,
        revision=told.shown.revision,
        jobs=told.jobs,
        count=told.count,
        alike=told.alike,
        reader=reader,
    )


def _subject(verdict: v.Verdict, user: str) -> str:
    """What the same failure of the same user has in common; a job without a fingerprint is alone."""
    same = verdict.fingerprint or f"job/{verdict.job.id}"
    return f"{verdict.job.cluster or ''}/{user}/{same}"[:200]


def _array(verdict: v.Verdict) -> str | None:
    if verdict.job.array_task is None or verdict.job.id is None:
        return None
    return f"{verdict.job.cluster or ''}/{verdict.job.id}"[:120]
