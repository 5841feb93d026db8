"""Signatures: how one kind of line or exception looks, and what it means. Data, with its tests.

A signature is a table in a TOML file of this folder, one file for a family:

``id``, unique · ``target``: "exception" (matched against ``Type: message``), "line" (matched
against a line without its prefixes) or "kernel" (matched against a kernel's message) ·
``pattern``: a regular expression, searched · ``means``: a cause of causes.toml, or what the
fault of another would look like: "peer-lost" (a peer went away), "waited" (a peer did not come
in time), "stopped" (told to stop), "launcher" (the launcher's own report of its workers),
"worker-killed" (a DataLoader worker was killed), "finished" (the program said that its
work was done), "recovered" (it said that it went on after an error) · ``samples`` and ``near_misses``: what must and
must not match · ``narrower_than``: the ids of those that may match the same text and then do not
count · ``at_most``: how sure a verdict by these words alone may be ("confirmed", "likely" or
"possible"), for words that something else may say too · ``reference``: where the format comes
from · ``wrong_if``: what would prove the reading wrong.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files

from firstfault.signatures.anchors import anchors
from firstfault.signatures.order import Ordered, ordered, overlaps
from firstfault.signatures.signature import (
    EFFECTS,
    TARGETS,
    Compiled,
    Signature,
    SignatureError,
    read,
)
from firstfault.signatures.soundness import parse

__all__ = [
    "EFFECTS",
    "TARGETS",
    "Compiled",
    "Signature",
    "SignatureError",
    "forget_exceptions",
    "known_anchors",
    "known_causes",
    "meaning",
    "meaning_of_exception",
    "parse",
    "signatures",
    "site_signatures",
    "use_compiled",
    "use_site",
    "words_of_lines",
]

# What the id of a site's own signature begins with.
SITE = "site."


@cache
def known_causes() -> frozenset[str]:
    """The ids of causes.toml."""
    text = files("firstfault").joinpath("causes.toml").read_text("utf-8")
    return frozenset(
        f"{family}.{name}" if isinstance(value, dict) else family
        for family, table in tomllib.loads(text).items()
        for name, value in table.items()
    )


# A site's own signatures, as long as this process lives.
_site: list[Compiled] = []


@cache
def _known() -> dict[str, Ordered]:
    # That the package's own are sound is tested: asked anew, it would cost each start.
    return _ordered([each for name, text in _files() for each in read(text, name)] + _site)


# Of so many exceptions it pays to find the words of their signatures: a job of a thousand nodes
# has thousands, most jobs have a few.
_FEW = 200
_exceptions_read = itertools.count()


# What exceptions mean, and of how many it is remembered.
_meanings: dict[tuple[str, str], tuple[Signature | None]] = {}
_MOST_MEANINGS = 262_144


@cache
def _by_words() -> Ordered:
    return ordered(signatures("exception"), all_by_words=True)


def _ordered(found: Iterable[Compiled]) -> dict[str, Ordered]:
    by_target: dict[str, list[Compiled]] = {target: [] for target in TARGETS}
    for each in found:
        by_target[each.signature.target].append(each)
    return {target: ordered(some) for target, some in by_target.items()}


def use_site(texts: Mapping[str, str]) -> int:
    """Makes a site's own signatures count beside the package's, in this process; their number.

    ``texts`` are TOML texts by their files' names. Raises `SignatureError`, and changes nothing,
    where one is not sound, has an id without the prefix ``site.``, or overlaps with another
    without a word of which is the narrower.
    """
    found = [each for name, text in texts.items() for each in parse(text, name, known_causes())]
    for each in found:
        if not each.signature.id.startswith(SITE):
            raise SignatureError(f"{each.place}: id: a site's own begins with {SITE!r}")
    before = list(_site)
    own = [each for target in TARGETS for each in signatures(target) if each not in before]
    for order in _ordered([*own, *found]).values():
        overlaps(order)
    use_compiled(found)
    return len(found)


def site_signatures() -> tuple[Compiled, ...]:
    """The site's own that count, for another process's `use_compiled`."""
    return tuple(_site)


def use_compiled(found: Iterable[Compiled]) -> None:
    """Makes a site's own signatures count that were found sound before."""
    _site[:] = found
    _known.cache_clear()
    _by_words.cache_clear()
    forget_exceptions()
    known_anchors.cache_clear()
    words_of_lines.cache_clear()


def _files() -> Iterator[tuple[str, str]]:
    for entry in sorted(files("firstfault.signatures").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            yield entry.name, entry.read_text("utf-8")


@cache
def known_anchors() -> dict[str, tuple[str, ...]]:
    """What a line must hold to be looked at in a huge log, by who says it: see ``anchors.py``."""
    return anchors(each for target in TARGETS for each in signatures(target))


@cache
def words_of_lines() -> frozenset[str] | None:
    """In small letters, the words of which each line that a signature of lines matches has one.

    None where a signature has no such words.
    """
    known = _known()["line"]
    if known.always:
        return None
    both = (each.texts for each in (known.exact, known.folded) if each is not None)
    return frozenset(word.lower() for texts in both for word in texts)


def signatures(target: str) -> tuple[Compiled, ...]:
    """The signatures of one target, by id."""
    return _known()[target].all


def meaning(target: str, text: str) -> Signature | None:
    """The narrowest signature of ``target`` that matches ``text``."""
    many = target == "exception" and next(_exceptions_read) >= _FEW
    found = (_by_words() if many else _known()[target]).narrowest(text)
    return found.signature if found else None


def meaning_of_exception(kind: str, message: str) -> Signature | None:
    """The narrowest signature of an exception, as Python prints it: its type and its message.

    It is remembered until `forget_exceptions`: of one exception it is asked several times.
    """
    key = (kind, message)
    # Another thread may forget all in the midst of this.
    known = _meanings.get(key)
    if known is None:
        known = (meaning("exception", f"{kind}: {message}"),)
        if len(_meanings) < _MOST_MEANINGS:
            _meanings[key] = known
    return known[0]


def forget_exceptions() -> None:
    """Lets go of what was remembered, at the end of a diagnosis: the texts are a job's."""
    _meanings.clear()
