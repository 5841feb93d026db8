"""What an exception's chain tells where its last says less."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made

LINK = "During handling of the above exception, another exception occurred:"
SHORT = "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 704 vs 598"


def of_chain(*errors: str) -> list[str]:
    lines: list[str] = []
    for error in errors:
        lines += ["", LINK, ""] if lines else []
        lines += made.raised(error)
    return lines


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("OSError: [Errno 28] No space left on device", "storage.full"),
        ("OSError: [Errno 122] Disk quota exceeded", "storage.quota"),
        ("OSError: [Errno 5] Input/output error", "storage.io-error"),
    ],
)
@pytest.mark.parametrize("labelled", [True, False])
def test_a_write_that_was_cut_short_is_told_by_the_error_before_it(
    error: str, cause: str, labelled: bool
) -> None:
    said = of_chain(error, SHORT)
    parts = [made.of_rank(0, 0, said)] if labelled else [said]
    ends = [made.noticed(0, 700, 1), made.table((0, 0, 1, 700))]
    verdict = made.judged(made.console(*parts, *ends))

    assert verdict.cause.id == cause
    assert verdict.cause.confidence != v.POSSIBLE


def test_a_write_that_was_cut_short_for_no_told_reason_is_possibly_a_full_disk() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(0, 0, of_chain("ValueError: bad shape", SHORT)),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700)),
        )
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("storage.full", v.POSSIBLE)
