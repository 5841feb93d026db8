"""The package's signatures mean one thing each, and an unsound one is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firstfault.model.event import Sign
from firstfault.signatures import (
    EFFECTS,
    TARGETS,
    Compiled,
    SignatureError,
    forget_exceptions,
    known_anchors,
    known_causes,
    meaning,
    meaning_of_exception,
    parse,
    signature,
    signatures,
    words_of_lines,
)
from firstfault.signatures.anchors import compiled
from firstfault.signatures.order import ordered, overlaps
from tests.readers.logs import events

ALL = [each for target in TARGETS for each in signatures(target)]
SAMPLES = [(each, sample) for each in ALL for sample in each.signature.samples]
CAUSES = frozenset({"python.exception"})

SOUND = """
[[signature]]
id = "a"
target = "line"
means = "python.exception"
pattern = 'kaboom \\d+'
samples = ['kaboom 7']
near_misses = ['kaboom x']
reference = 'a program'
wrong_if = 'it is not'
"""


@pytest.mark.parametrize(
    ("each", "sample"),
    SAMPLES,
    ids=[f"{each.signature.id}-{n}" for n, (each, _) in enumerate(SAMPLES)],
)
def test_a_sample_is_understood_as_its_own_signature(each: Compiled, sample: str) -> None:
    found = meaning(each.signature.target, sample)

    assert found is not None
    assert found.id == each.signature.id


@pytest.mark.parametrize(
    ("each", "sample"),
    [pair for pair in SAMPLES if pair[0].signature.target == "line"],
    ids=lambda value: value[:30] if isinstance(value, str) else value.signature.id,
)
def test_a_lines_sample_is_found_in_a_log(each: Compiled, sample: str) -> None:
    found = [event for event in events(f"step\n{sample}\nstep\n") if isinstance(event, Sign)]

    assert [event.means for event in found] == [each.signature.means]


OWN = sorted(Path(signature.__file__ or "").parent.glob("*.toml"))


@pytest.mark.parametrize("path", OWN, ids=[path.name for path in OWN])
def test_the_packages_own_signatures_are_sound(path: Path) -> None:
    assert parse(path.read_text(), path.name, known_causes())


def test_no_overlap_of_the_packages_own_signatures_is_undeclared() -> None:
    for target in TARGETS:
        overlaps(ordered(signatures(target)))


@pytest.mark.parametrize(
    ("each", "sample"),
    SAMPLES,
    ids=[f"{each.signature.id}-{n}" for n, (each, _) in enumerate(SAMPLES)],
)
def test_each_sample_holds_an_anchor(each: Compiled, sample: str) -> None:
    found = compiled(anchor for some in known_anchors().values() for anchor in some)

    assert found.search(sample)


def test_an_id_names_one_signature() -> None:
    ids = [each.signature.id for each in ALL]

    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("each", ALL, ids=[each.signature.id for each in ALL])
def test_a_signature_says_where_it_comes_from_and_what_would_prove_it_wrong(each: Compiled) -> None:
    signature = each.signature

    assert signature.reference.strip()
    assert signature.wrong_if.strip()
    assert signature.means in known_causes() | EFFECTS


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: bad shape",
        "step 7 loss 0.5",
        "RuntimeError: The size of tensor a (3) must match the size of tensor b (4)",
        "AssertionError",
        "INFO: saved checkpoint, no error",
        "0 errors, 3 warnings",
    ],
)
@pytest.mark.parametrize("target", ["exception", "line"])
def test_what_no_signature_knows_means_nothing(target: str, text: str) -> None:
    assert meaning(target, text) is None


def test_the_narrowest_match_counts() -> None:
    text = "RuntimeError: CUDA error: an illegal memory access was encountered"

    found = meaning("exception", text)

    assert found is not None
    assert found.means == "gpu.illegal-access"


def test_a_sound_signature_loads() -> None:
    (each,) = parse(SOUND, "site.toml", CAUSES)

    assert each.regex.search("kaboom 12")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("pattern = 'kaboom \\d+'", "pattern = '(?:bo+)+m \\d+'", "pattern: a repeat in a repeat"),
        ("pattern = 'kaboom \\d+'", "pattern = 'b..m \\d+'", "anchors: the pattern shows none"),
        ("means =", "anchors = ['bang']\nmeans =", "none of them is in the sample 'kaboom 7'"),
        ("means =", "anchors = ['kaboom(']\nmeans =", "anchors: "),
        ("means =", "anchors = ['x*']\nmeans =", "anchors: one of them matches everything"),
        ('target = "line"', 'target = "file"', "target 'file'"),
        ('means = "python.exception"', 'means = "python.exception"\nat_most = "sure"', "'sure'"),
        ('means = "python.exception"', 'means = "no.cause"', "'no.cause'"),
        ("samples = ['kaboom 7']", "samples = []", "no sample"),
        ("samples = ['kaboom 7']", "samples = ['bang']", "'bang'"),
        ("near_misses = ['kaboom x']", "near_misses = ['kaboom 9']", "'kaboom 9'"),
        ("pattern = 'kaboom \\d+'", "pattern = 'kaboom ('", "unterminated"),
        ("pattern = 'kaboom \\d+'", "pattern = ''", "matches everything"),
        ("pattern = 'kaboom \\d+'", "pattern = '(?:kaboom|x*) ?\\d*'", "matches everything"),
        ("reference = 'a program'", "reference = ' '", "reference"),
        ("wrong_if = 'it is not'", "wrong_if = ''", "wrong_if"),
        ('id = "a"', 'id = ""', "id"),
    ],
)
def test_an_unsound_signature_is_refused_with_its_place(old: str, new: str, says: str) -> None:
    with pytest.raises(SignatureError) as refused:
        parse(SOUND.replace(old, new), "site.toml", CAUSES)

    assert str(refused.value).startswith("site.toml: signature ")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not toml", "site.toml"),
        ("[[other]]\nid = 1\n", "other"),
        (SOUND.replace("reference = 'a program'\n", ""), "reference"),
        (SOUND + "surprise = 1\n", "surprise"),
        (SOUND.replace('id = "a"', "id = 3"), "id"),
        ("", "signature"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_name(text: str, says: str) -> None:
    with pytest.raises(SignatureError) as refused:
        parse(text, "site.toml", CAUSES)

    assert str(refused.value).startswith("site.toml: ")
    assert says in str(refused.value)


WIDE = SOUND.replace('id = "a"', 'id = "wide"').replace("near_misses = ['kaboom x']\n", "")
WIDE = WIDE.replace("'kaboom \\d+'", "'kaboom'").replace("['kaboom 7']", "['kaboom']")


def both(narrow: str, wide: str = WIDE) -> Callable[[str], str]:
    found = ordered([*parse(narrow, "a.toml", CAUSES), *parse(wide, "b.toml", CAUSES)])
    overlaps(found)

    def name(text: str) -> str:
        match = found.narrowest(text)
        assert match
        return match.signature.id

    return name


def narrower(text: str, than: str) -> str:
    return f"{text}narrower_than = [{than!r}]\n"


def test_an_overlap_that_is_not_declared_is_refused_with_both_ids_and_the_sample() -> None:
    with pytest.raises(SignatureError) as refused:
        both(SOUND)

    assert str(refused.value).startswith("a.toml: signature 'a': narrower_than: ")
    assert "'kaboom 7'" in str(refused.value)
    assert "'wide' of b.toml" in str(refused.value)


def test_the_declared_narrower_counts_and_the_wider_where_it_alone_matches() -> None:
    name = both(narrower(SOUND, "wide"))

    assert name("kaboom 7") == "a"
    assert name("kaboom") == "wide"


def test_narrower_than_a_narrower_one_is_narrower_than_all() -> None:
    widest = WIDE.replace('"wide"', '"widest"').replace("pattern = 'kaboom'", "pattern = 'kabo+m'")
    widest = widest.replace("['kaboom']", "['kaboooom']")
    widest = widest.replace("means =", "anchors = ['kabo']\nmeans =")
    name = both(narrower(SOUND, "wide"), narrower(WIDE, "widest") + widest)

    assert name("kaboom 7") == "a"


@pytest.mark.parametrize(
    ("narrow", "wide", "says"),
    [
        (narrower(SOUND, "none"), WIDE, "'none' is no signature"),
        (narrower(SOUND, "wide"), narrower(WIDE, "a"), "leads back to itself"),
        (SOUND, SOUND, "id: it stands in a.toml, too"),
    ],
)
def test_an_order_that_is_none_is_refused(narrow: str, wide: str, says: str) -> None:
    with pytest.raises(SignatureError, match=says):
        both(narrow, wide)


def test_of_two_that_nothing_orders_the_effect_counts_and_then_the_first_in_the_text() -> None:
    bang = SOUND.replace("kaboom", "clatter").replace('id = "a"', 'id = "b"')

    assert both(SOUND, bang)("clatter 1 kaboom 2") == "b"
    assert both(SOUND, bang.replace("python.exception", "waited"))("kaboom 2 clatter 1") == "b"


def test_words_in_any_letters_are_found_where_the_pattern_reads_them_so() -> None:
    found = ordered(
        parse(
            SOUND.replace("'kaboom \\d+'", "'(?i)kaboom \\d+'").replace(
                "means =", "anchors = ['kaboom']\nmeans ="
            ),
            "a.toml",
            CAUSES,
        )
    )

    assert found.narrowest("KaBoom 7")
    assert found.narrowest("KaBoo 7") is None


def test_exceptions_mean_the_same_when_they_are_found_by_words() -> None:
    plain, by_words = (
        ordered(signatures("exception"), all_by_words=many) for many in (False, True)
    )
    texts = [
        text
        for target in TARGETS
        for each in signatures(target)
        for text in (*each.signature.samples, *each.signature.near_misses)
    ]

    for text in texts:
        assert by_words.narrowest(text) is plain.narrowest(text)


def test_half_a_character_in_a_text_hides_nothing() -> None:
    order = ordered(parse(SOUND, "x.toml", CAUSES))

    assert order.narrowest("kaboom 7 \ud800") is not None
    assert order.narrowest("kaboom \ud800") is None


def test_each_sample_of_a_line_holds_a_word_in_small_letters() -> None:
    words = words_of_lines()

    assert words is not None
    for each, sample in SAMPLES:
        if each.signature.target == "line":
            assert any(word in sample.lower() for word in words), each.signature.id


def test_what_an_exception_means_is_remembered_until_it_is_forgotten() -> None:
    known = meaning_of_exception("torch.cuda.OutOfMemoryError", "CUDA out of memory.")
    forget_exceptions()

    assert known is not None
    assert meaning_of_exception("torch.cuda.OutOfMemoryError", "CUDA out of memory.") is known
    assert meaning_of_exception("Strange", "all is well") is None
    assert meaning_of_exception("Strange", "all is well") is None
