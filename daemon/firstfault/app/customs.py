"""What a site adds of its own: signatures, patterns of secrets, templates. For the whole process."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from firstfault.app.journal import say
from firstfault.config import Config, ConfigError
from firstfault.report import masking, page
from firstfault.signatures import backtracking


def use_customs(config: Config) -> None:
    """Makes the site's patterns and templates count, in this process, in place of those before.

    Raises `ConfigError`, and changes nothing, for a pattern that is not sound and a folder that
    cannot be read. A template that is not sound is only told of: pages are then made by ours.
    """
    patterns, site = patterns_of(config), templates_of(config)
    masking.use_site(patterns)
    page.use_site(site)
    for fault in site.faults() if site else ():
        say(logging.WARNING, "template-broken", error=fault)


def patterns_of(config: Config) -> list[re.Pattern[str]]:
    """The site's own patterns of secrets. Raises `ConfigError` for one that is no regular
    expression, matches the empty text, or can be made slow by a line."""
    return [_sound(pattern) for pattern in config.mask.patterns]


def templates_of(config: Config) -> page.Site | None:
    """The site's own templates, read from `templates.dir`; None where it is not set.

    Raises `ConfigError` for a folder or a file that cannot be read.
    """
    if not config.templates.dir:
        return None
    folder = Path(config.templates.dir)
    texts = {}
    try:
        for path in sorted(folder.iterdir()):
            # Editors leave hidden files and copies behind.
            if path.is_file() and not path.name.startswith(".") and not path.name.endswith("~"):
                texts[path.name] = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"templates.dir: {path} is not UTF-8: {error}") from error
    except OSError as error:
        raise ConfigError(
            f"templates.dir: {error.filename or folder}: {error.strerror}. It must be a folder "
            f"that the daemon's user may read."
        ) from error
    return page.Site(str(folder), texts, _tell)


def _tell(name: str, said: str) -> None:
    say(logging.WARNING, "template-failed", page=name, error=said)


def _sound(pattern: str) -> re.Pattern[str]:
    key = f"mask.patterns: {pattern!r}"
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{key} is no regular expression: {error}.") from error
    if expression.search(""):
        raise ConfigError(f"{key} matches the empty text: say what must be there.")
    if reason := backtracking.fault(pattern):
        raise ConfigError(f"{key}: {reason}. Bound its repeats, as signatures do.")
    return expression


def template_faults(config: Config) -> Sequence[str]:
    """What is wrong with the site's templates, for `firstfault check`. Raises `ConfigError`."""
    site = templates_of(config)
    return site.faults() if site else ()
