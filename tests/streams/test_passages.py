"""Plain lines are found many at once, and nothing else is taken for them."""

from __future__ import annotations

import random
import tracemalloc
from collections import deque

import pytest

from firstfault.model.document import Document, Excerpt
from firstfault.model.line import Line
from firstfault.streams.lines import LONGEST_QUOTE, lines, passages
from firstfault.streams.passages import Plain, Tail, Telling

TELLING = Telling(["Error: ", "Killed"])
PLAIN = b"step 1 loss 0.5\n\n   \nstep 2 loss 0.25\n"


def one_by_one(document: Document) -> list[Line]:
    found: list[Line] = []
    for passage in passages(document, TELLING):
        found += passage.lines() if isinstance(passage, Plain) else [passage]
    return found


def plain_texts(data: bytes) -> list[bytes]:
    found = passages(Document("a", (Excerpt(0, 1, data),)), TELLING)
    return [text for each in found if isinstance(each, Plain) for text in each.texts]


def test_plain_lines_come_as_one_with_how_many_say_something() -> None:
    (found,) = passages(Document("a", (Excerpt(100, 7, PLAIN),), host="n1"), TELLING)

    assert isinstance(found, Plain)
    assert (found.offset, found.number, len(found.texts), found.said) == (100, 7, 4, 2)
    assert found.speaker.host == "n1"
    assert found.last_text() == "step 2 loss 0.25"
    assert [(e.place.offset, e.place.line, e.text) for e in found.last_said(1)] == [
        (121, 10, "step 2 loss 0.25")
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"RuntimeError: boom",
        b"runtimeerror: boom",
        b"KILLED",
        b"[rank3]: hello",
        b"(RayTrainWorker pid=12) hello",
        b"12%|#[default0]:Traceback",
        b"bar\rbar",
        b"a\x00b",
        b"\x1b[31mred",
        b"\x1c",
        "grüße".encode(),
        b"\xff",
        b"x" * (LONGEST_QUOTE + 1),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_a_reader_may_know_is_never_among_them(line: bytes, end: bytes) -> None:
    assert line not in plain_texts(PLAIN + line + b"\n" + PLAIN)
    assert line not in plain_texts(line + b"\n" + PLAIN)
    assert line not in plain_texts(PLAIN + line + end)


def test_lines_with_a_launchers_prefix_are_never_plain() -> None:
    labelled = b"".join(b"%d: step %d\n" % (n % 4, n // 4) for n in range(100))

    assert plain_texts(labelled) == []


@pytest.mark.parametrize("seed", range(60))
def test_one_by_one_they_are_the_documents_lines(seed: int) -> None:
    chance = random.Random(seed)
    some = (b"step 1", b"", b"  ", b"[rank1]: x", b"Error: y", b"a\rb", b"\xc3\xbc", b"z" * 3_000)
    data = b"\n".join(
        chance.choice(some[:3] if chance.random() < 0.9 else some)
        for _ in range(chance.randrange(400))
    )
    data *= chance.choice((1, 1, 60))
    cut = chance.randrange(len(data) + 1)
    excerpts = (Excerpt(0, 1, data[:cut]), Excerpt(cut + seed % 2, None, data[cut:]))
    document = Document(chance.choice(("a", "b_c/attempt_0/1/stdout.log")), excerpts)

    assert one_by_one(document) == list(lines(document))


def test_the_tail_holds_the_last_lines_however_they_came() -> None:
    chance = random.Random(5)
    document = Document("a", (Excerpt(0, 1, b"\n".join([b"a", b"", b"b", b"Error: "] * 40)),))
    every = list(lines(document))
    for blank in (True, False):
        for most in (1, 3, 50, 500):
            tail, expected = Tail(most, blank=blank), deque[Line](maxlen=most)
            for _ in range(20):
                low = chance.randrange(len(every))
                some = every[low : low + chance.randrange(12)]
                if some and chance.random() < 0.5:
                    texts = tuple(each.text.encode() for each in some)
                    said = sum(1 for text in texts if text.strip())
                    first = some[0].place
                    tail.add(Plain("a", first.offset, first.line, texts, said))
                    expected.extend(e for e in some if blank or e.text.strip())
                else:
                    for each in some:
                        if blank or each.text.strip():
                            tail.add(each)
                            expected.append(each)

            assert tail.lines() == list(expected)


@pytest.mark.parametrize("line", [b"\r" * 20_000_000, b"Error: " * 3_000_000], ids=["bar", "words"])
def test_a_huge_line_of_telling_words_is_not_searched_for_them_all(line: bytes) -> None:
    data = PLAIN + line + b"\n" + PLAIN
    tracemalloc.start()
    try:
        parts = list(TELLING.parts(data, LONGEST_QUOTE))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert [bool(texts) for _, _, texts in parts] == [True, False, True]
    assert peak < len(data) // 10
