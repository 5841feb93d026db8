"""The file of rules that ``delivery.rules`` names: TOML into `Rules`, every mistake with its place."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from firstfault.app.rules import Rule, Rules, times
from firstfault.config import Config, ConfigError
from firstfault.deliver.owners import is_address

# With "mail-" before it, a name fits into the outbox's column.
_LIST = re.compile(r"[a-z0-9][a-z0-9-]{0,25}")
_TAKEN = "owner"
_LONGEST_DAYS = 365


def rules_of(config: Config) -> Rules:
    """The rules, as configured. Raises `ConfigError`."""
    return load(Path(config.delivery.rules)) if config.delivery.rules else Rules()


def load(path: Path) -> Rules:
    """The rules in ``path``. Raises `ConfigError`."""
    try:
        return parse(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise ConfigError(f"delivery.rules {path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"delivery.rules {path}: is not UTF-8: {error}") from error


def parse(text: str, name: str) -> Rules:
    """The rules in a TOML ``text``; ``name`` is the file's, for messages. Raises `ConfigError`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: is not TOML: {error}") from error
    _check_keys(data, Rules, f"{name}: ")
    tables = data.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(
            f"{name}: rule is a list of tables: write [[rule]] and its keys below it."
        )
    for number, table in enumerate(tables, 1):
        where = f"{name}: rule {number}{_named(table)}: "
        _check_keys(table, Rule, where)
        _mistaken(_converted(table, Rule, where), where)
    rules: Rules = _converted(data, Rules, f"{name}: ")
    _check_lists(rules, name)
    return rules


def _converted(data: dict[str, Any], kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        allowed = _CHOICES.get(key.partition("[")[0])
        more = f"; it may be {allowed}" if allowed and "enum" in said else ""
        raise ConfigError(f"{where}{key + ': ' if key else ''}{said}{more}") from error


_CHOICES = {
    "domain": '"user", "system", "either"',
    "confidence": '"confirmed", "likely", "possible", "unknown"',
    "quiet_days": '"mon", "tue", "wed", "thu", "fri", "sat", "sun"',
}


def _check_keys(data: dict[str, Any], kind: type[msgspec.Struct], where: str) -> None:
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else f"Known here: {', '.join(known)}."
            raise ConfigError(f"{where}unknown key {key!r}. {remedy}")


def _mistaken(rule: Rule, where: str) -> None:
    if rule.quiet:
        try:
            begin, end = times(rule.quiet)
            if begin == end:
                raise ValueError
        except ValueError:
            raise ConfigError(
                f'{where}quiet is {rule.quiet!r}; it must be like "22:00-07:00".'
            ) from None
    if rule.quiet_days and len(set(rule.quiet_days)) == 7:
        raise ConfigError(f"{where}quiet_days are all days: then use send = [].")
    if rule.repeat_days is not None and not 0 < rule.repeat_days <= _LONGEST_DAYS:
        raise ConfigError(
            f"{where}repeat_days is {rule.repeat_days:g}; it must be more than 0, and "
            f"{_LONGEST_DAYS} or less."
        )
    least, most = rule.nodes_min, rule.nodes_max
    if least is not None and most is not None and least > most:
        raise ConfigError(f"{where}nodes_min is {least} and nodes_max {most}: no job has so many.")


def _check_lists(rules: Rules, name: str) -> None:
    try:
        ZoneInfo(rules.timezone)
    except (OSError, ValueError, KeyError):
        raise ConfigError(
            f'{name}: timezone is {rules.timezone!r}; it must be like "Europe/Berlin" or "UTC" '
            f"(and Debian's package tzdata be installed)."
        ) from None
    for key, addresses in rules.lists.items():
        if not _LIST.fullmatch(key) or key == _TAKEN:
            raise ConfigError(
                f"{name}: lists.{key}: a list's name has 1 to 26 of a-z, 0-9 and -, and is not "
                f'"{_TAKEN}".'
            )
        wrong = [address for address in addresses if not is_address(address)]
        if wrong or not addresses:
            said = f"{wrong[0]!r} is no mail address" if wrong else "names no address"
            raise ConfigError(f"{name}: lists.{key}: {said}.")


def _named(table: dict[str, Any]) -> str:
    name = table.get("name")
    return f" ({name!r})" if isinstance(name, str) else ""
