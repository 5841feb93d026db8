"""Which signature counts where several match: the narrowest, as they declare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from firstfault.signatures.grammar import words
from firstfault.signatures.signature import EFFECTS, Compiled, SignatureError

_PART = 5
_MOST_WORDS = 50


class Ordered(msgspec.Struct, frozen=True):
    """Signatures of one target, by id, and of each the ids of those that it is narrower than.

    ``always`` are tried on each text; the others where the text holds a key of ``by_part``, or
    in small letters one of ``by_folded``, and with it one of the words that stand there.
    """

    all: tuple[Compiled, ...]
    wider: Mapping[str, frozenset[str]]
    always: tuple[Compiled, ...]
    by_part: Mapping[str, tuple[tuple[str, Compiled], ...]]
    by_folded: Mapping[str, tuple[tuple[str, Compiled], ...]]

    def narrowest(self, text: str) -> Compiled | None:
        """The match that no other match is narrower than.

        Of several an effect stands before a cause, for an effect blames nobody; then the one
        that begins first in ``text``, then the first by id.
        """
        parts = [part for part in self.by_part if part in text]
        low = text.lower() if self.by_folded else ""
        folded = [part for part in self.by_folded if part in low]
        if not parts and not folded and not self.always:
            return None
        tried = {each.signature.id: each for each in self.always}
        for part in parts:
            tried |= {each.signature.id: each for word, each in self.by_part[part] if word in text}
        for part in folded:
            tried |= {each.signature.id: each for word, each in self.by_folded[part] if word in low}
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
    return Ordered(found, wider, always, _by_part(named, by_id), _by_part(folded, by_id))


# A few short parts of words to look for first: most lines hold none of them. Each word stands
# under that part of it which most words have.
def _by_part(
    named: Mapping[str, Iterable[str]], by_id: Mapping[str, Compiled]
) -> dict[str, tuple[tuple[str, Compiled], ...]]:
    pairs = sorted((word, name) for name, words in named.items() for word in words)
    parts = Counter(part for word in {word for word, _ in pairs} for part in set(_parts(word)))
    many = Counter(name for _, name in pairs)
    result: dict[str, list[tuple[str, Compiled]]] = {}
    for word, name in pairs:
        best = max(_parts(word), key=lambda part: (parts[part], part))
        # Of too many words the parts must do.
        entry = (word if many[name] <= _MOST_WORDS else best, by_id[name])
        if entry not in result.setdefault(best, []):
            result[best].append(entry)
    return {part: tuple(found) for part, found in result.items()}


def _parts(word: str) -> list[str]:
    return [word[n : n + _PART] for n in range(max(1, len(word) - _PART + 1))]


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
