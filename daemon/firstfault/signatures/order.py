"""Which signature counts where several match: the narrowest, as they declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from ahocorasick_rs import AhoCorasick, Implementation

from firstfault.signatures.grammar import words
from firstfault.signatures.signature import EFFECTS, Compiled, SignatureError


class Words(msgspec.Struct, frozen=True):
    """Words, and of each the signatures that it belongs to."""

    texts: tuple[str, ...]
    signatures: tuple[tuple[Compiled, ...], ...]
    automaton: AhoCorasick

    def found(self, text: str) -> list[tuple[Compiled, ...]]:
        """The signatures of each word in ``text``, however many there are, in one pass."""
        try:
            found = self.automaton.find_matches_as_indexes(text, overlapping=True)
        except UnicodeEncodeError:
            # Half a character, as a JSON text may have.
            text = text.encode("utf-8", "replace").decode()
            found = self.automaton.find_matches_as_indexes(text, overlapping=True)
        return [self.signatures[number] for number, _, _ in found]


class Ordered(msgspec.Struct, frozen=True):
    """Signatures of one target, by id, and of each the ids of those that it is narrower than.

    ``always`` are tried on each text; the others where the text holds one of their ``exact`` words,
    or in small letters one of their ``folded`` ones.
    """

    all: tuple[Compiled, ...]
    wider: Mapping[str, frozenset[str]]
    always: tuple[Compiled, ...]
    exact: Words | None
    folded: Words | None

    def narrowest(self, text: str) -> Compiled | None:
        """The match that no other match is narrower than.

        Of several an effect stands before a cause, for an effect blames nobody; then the one
        that begins first in ``text``, then the first by id.
        """
        held = self.exact.found(text) if self.exact else []
        if self.folded:
            held += self.folded.found(text.lower())
        if not held and not self.always:
            return None
        tried = {each.signature.id: each for some in (self.always, *held) for each in some}
        matches = {
            name: (each, found.start())
            for name, each in sorted(tried.items())
            if (found := each.regex.search(text))
        }
        if len(matches) > 1:
            beaten = {wide for name in matches for wide in self.wider[name]}
            matches = {name: match for name, match in matches.items() if name not in beaten}
        best = min(
            matches.values(),
            key=lambda match: (match[0].signature.means not in EFFECTS, match[1]),
            default=None,
        )
        return best[0] if best else None


def ordered(signatures: Iterable[Compiled], *, all_by_words: bool = False) -> Ordered:
    """``signatures``, all of one target, in their order.

    Those of exceptions are looked for by words only with ``all_by_words``: for a few exceptions it
    would cost more to find the words than it saves.

    Raises `SignatureError` for an id that stands there twice and for a ``narrower_than`` that
    names no signature or leads back to its own.
    """
    found = tuple(sorted(signatures, key=lambda each: each.signature.id))
    by_id: dict[str, Compiled] = {}
    for each in found:
        if (first := by_id.setdefault(each.signature.id, each)) is not each:
            raise SignatureError(f"{each.place}: id: it stands in {first.origin}, too")
    wider = {name: frozenset(_wider(each, by_id)) for name, each in by_id.items()}
    sought = {
        name: each.signature.pattern if all_by_words or each.signature.target != "exception" else ""
        for name, each in by_id.items()
    }
    named = {name: words(pattern) if pattern else () for name, pattern in sought.items()}
    folded = {
        name: words(sought[name], folded=True)
        for name, exact in named.items()
        if sought[name] and not exact
    }
    words_of = named | folded
    always = tuple(each for each in found if not words_of[each.signature.id])
    return Ordered(found, wider, always, _words(named, by_id), _words(folded, by_id))


def _words(named: Mapping[str, Iterable[str]], by_id: Mapping[str, Compiled]) -> Words | None:
    of_word: dict[str, list[Compiled]] = {}
    for name, sought in sorted(named.items()):
        for word in sought:
            of_word.setdefault(word, []).append(by_id[name])
    if not of_word:
        return None
    automaton = AhoCorasick(of_word, implementation=Implementation.ContiguousNFA)
    return Words(tuple(of_word), tuple(map(tuple, of_word.values())), automaton)


def overlaps(order: Ordered) -> None:
    """Raises `SignatureError` for a sample that another signature of ``order`` matches too.

    But where one of the two is declared the narrower.
    """
    for each in order.all:
        for sample in each.signature.samples:
            for other in order.all:
                name = other.signature.id
                declared = order.wider[each.signature.id] | order.wider[name]
                if other is each or {each.signature.id, name} & declared:
                    continue
                if other.regex.search(sample):
                    raise SignatureError(
                        f"{each.place}: narrower_than: its sample {sample!r} is matched by "
                        f"{name!r} of {other.origin}, too, and neither is declared the narrower"
                    )


def _wider(each: Compiled, by_id: Mapping[str, Compiled]) -> set[str]:
    result: set[str] = set()
    ahead = list(each.signature.narrower_than)
    while ahead:
        name = ahead.pop()
        if name == each.signature.id:
            raise SignatureError(f"{each.place}: narrower_than: it leads back to itself")
        if name not in by_id:
            raise SignatureError(
                f"{each.place}: narrower_than: {name!r} is no signature of its target"
            )
        if name not in result:
            result.add(name)
            ahead.extend(by_id[name].signature.narrower_than)
    return result
