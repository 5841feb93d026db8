"""Of each speaker's each kind of alarming line the first and the last are not lost."""

from __future__ import annotations

from firstfault.intake.hits import MOST_KINDS, Hits

OPENING = b"Traceback (most recent call last):"


def noted(*lines: bytes) -> list[list[tuple[int, int]]]:
    """The tiers, each line at its number as offset."""
    hits = Hits()
    for offset, line in enumerate(lines):
        hits.add(offset, line)
    return [[(hit.offset, hit.end) for hit in tier] for tier in hits.ranked()]


def test_a_speakers_first_and_last_traceback_come_before_all_other_lines() -> None:
    tiers = noted(b"Error: x", *[b"1: " + OPENING, b"0: " + OPENING] * 100)

    assert tiers[0] == [(1, 3), (2, 4)]
    assert tiers[1] == [(199, 199), (200, 200)]


def test_a_traceback_ends_with_the_next_alarming_line_of_its_speaker() -> None:
    tiers = noted(
        b"[rank1]: " + OPENING, b"[rank0]: " + OPENING, b"[rank1]: ValueError: a", b"Error: b"
    )

    assert tiers[0] == [(0, 2), (1, 1)]


def test_the_first_line_of_a_kind_is_kept_among_thousands_of_another() -> None:
    tiers = noted(*[b"Error: retry %d" % n for n in range(5_000)], b"ValueError: bad shape")

    assert (5_000, 5_000) in tiers[2]
    assert len([hit for tier in tiers for hit in tier]) < 20


def test_kinds_without_end_take_bounded_memory_and_lose_no_strong_line() -> None:
    noise = [b"Error: %s" % f"{n:020x}".translate(LETTERS).encode() for n in range(MOST_KINDS * 3)]

    tiers = noted(*noise, OPENING)

    assert len(tiers[3]) <= MOST_KINDS + 2
    assert (len(noise), len(noise)) in [hit for tier in tiers for hit in tier]


LETTERS = str.maketrans("0123456789", "ghijklmnop")
