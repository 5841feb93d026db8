"""Documents that are packed while a large job waits to be read hold what they held."""

from __future__ import annotations

import threading
import tracemalloc

import pytest

from firstfault.model.document import Document, Excerpt, Packer, dictionary, unpacked

TEXT = b"step 1 loss 0.25\n" * 100
DOCUMENT = Document("a.log", (Excerpt(7, 2, TEXT), Excerpt(5_000, None, b"short\n")))


@pytest.mark.parametrize("like", [b"", b"x", TEXT, TEXT * 1_000], ids=len)
def test_a_packed_document_holds_what_it_held(like: bytes) -> None:
    small = Packer(like).packed(DOCUMENT)

    assert [each.data for each in small.excerpts] == [TEXT, b"short\n"]
    assert unpacked(small) == DOCUMENT
    assert len(small.excerpts[0].stored) < len(TEXT) // 10


def test_what_is_packed_is_not_packed_again() -> None:
    small = Packer(TEXT).packed(DOCUMENT)

    assert Packer(b"another").packed(small) == small


def test_what_is_not_packed_is_itself() -> None:
    assert unpacked(DOCUMENT) is DOCUMENT


def test_a_dictionary_is_no_longer_than_it_is_of_use() -> None:
    assert 0 < len(dictionary([DOCUMENT] * 1_000)) <= 32_768


def test_threads_unpack_at_once() -> None:
    texts = [b"%d says step " % number * 400 for number in range(4)]
    small = [Packer(TEXT).packed(Document("a", (Excerpt(0, 1, text),))) for text in texts]
    wrong: list[int] = []

    def work(number: int) -> None:
        if any(small[number].excerpts[0].data != texts[number] for _ in range(1_000)):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_packed_documents_take_no_more_memory_than_their_bytes() -> None:
    packer = Packer(TEXT)
    tracemalloc.start()
    try:
        small = [packer.packed(DOCUMENT) for _ in range(200)]
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert taken < len(small) * 1_000 < len(small) * len(TEXT)
