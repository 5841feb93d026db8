"""Words of trouble at a log's end that nothing knows."""

from __future__ import annotations

import pytest

from firstfault.readers.alarm import alarms
from tests.readers.logs import document


def alarmed(*lines: str) -> int:
    return len(alarms(document("\n".join(lines) + "\n")))


@pytest.mark.parametrize(
    "text",
    [
        "could not reach the file server",
        "│ ❱ 241 │   │   result = agent.run()                                           │",
        "│ stributed/elastic/metrics/api.py:129 in wrapper                              │",
        "W1130 10:00:00.000000 900 torch/distributed/elastic/multiprocessing/api.py:858] S",
    ],
)
def test_such_a_line_at_the_end_alarms(text: str) -> None:
    assert alarmed("step 1", text) == 1


@pytest.mark.parametrize(
    "text",
    [
        "│ 126 │ encoder │ 2.1 M │",
        "│   test_acc   │   0.981   │",
        "W1130 10:00:00.000000 900 torch/distributed/run.py:766] Setting OMP_NUM_THREADS",
        "errors: 0",
        "0 failed",
    ],
)
def test_a_table_or_a_count_of_nothing_alarms_nobody(text: str) -> None:
    assert alarmed("step 1", text) == 0


def test_what_is_said_before_the_work_was_done_alarms_nobody() -> None:
    assert alarmed("could not reach the file server", "training finished") == 0
