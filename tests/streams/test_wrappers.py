"""Prefixes that only many lines of a file together tell."""

from __future__ import annotations

import pytest

from firstfault.model.line import Speaker
from firstfault.streams.lines import lines
from tests.readers.logs import document

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/home/u/train.py", line 59, in main',
    "    loss.backward()",
    "ValueError: bad",
]
WORDS = [*(f"step {n} loss 0.5" for n in range(6)), *TRACEBACK]


def heard(text: list[str]) -> list[tuple[Speaker, str]]:
    return [(each.speaker, each.text) for each in lines(document("\n".join(text) + "\n"))]


@pytest.mark.parametrize(
    ("prefix", "speaker"),
    [
        ("2026-11-30T12:00:01.123456789Z ", Speaker()),
        ("2026-11-30T12:00:01+01:00 ", Speaker()),
        ("2026-11-30 12:00:01,123 ", Speaker()),
        ("[2026-11-30 12:00:01] ", Speaker()),
        ("Nov 30 12:00:01 ", Speaker()),
        ("Nov  3 12:00:01 node3 python[99]: ", Speaker(host="node3", pid=99)),
        ("2026-11-30T12:00:01+0000 node3 train.sh[99]: ", Speaker(host="node3", pid=99)),
        ("node3 python3[99]: ", Speaker(host="node3", pid=99)),
        ("stderr: ", Speaker()),
        ("2026-11-30T12:00:01.123456789Z stderr F ", Speaker()),
        ("> ", Speaker()),
        ("# ", Speaker()),
        ("(VllmWorkerProcess pid=99) ERROR 11-30 12:00:01 worker_utils.py:226] ", Speaker(pid=99)),
        ("(Worker rank=1 pid=99) ERROR 11-30 12:00:01 [core.py:515] ", Speaker(pid=99)),
        ("node3: ", Speaker(host="node3")),
        ("10.0.0.7: ", Speaker(host="10.0.0.7")),
        ("localhost: ", Speaker()),
        ("worker-0  | ", Speaker(host="worker-0")),
        ("x3004c0s7b0n0 12: ", Speaker(host="x3004c0s7b0n0", task=12)),
        ("[pod/job-worker-1/main] 2026-11-30T12:00:01.123456789Z ", Speaker(host="job-worker-1")),
        ("2026-11-30T12:00:01Z node3: ", Speaker(host="node3")),
        ("  3: 2026-11-30T12:00:01Z ", Speaker(task=3)),
    ],
)
def test_a_prefix_before_every_line_is_taken_off(prefix: str, speaker: Speaker) -> None:
    text = [prefix + each for each in WORDS]

    assert heard(text) == [(speaker, each) for each in WORDS]


def test_sterns_columns_are_a_pod_and_a_container() -> None:
    text = [f"job-worker-{n % 2} main {each}" for n, each in enumerate(WORDS * 2)]

    assert heard(text)[1] == (Speaker(host="job-worker-1"), WORDS[1])


def test_numbers_in_brackets_are_ranks_where_they_speak_in_turns() -> None:
    text = [f"[{rank}] {each}" for each in WORDS for rank in (0, 1)]

    assert heard(text)[-2:] == [(Speaker(rank=0), WORDS[-1]), (Speaker(rank=1), WORDS[-1])]


def test_torchs_prefixes_stand_behind_any_wrapper() -> None:
    text = [f"2026-11-30T12:00:01.5Z 3: [default1]:[rank7]: {each}" for each in WORDS]

    assert heard(text)[-1] == (Speaker(task=3, local_rank=1, rank=7), "ValueError: bad")


def test_mpis_tag_is_a_rank_unless_it_started_launchers() -> None:
    alone = [f"[1,3]<stderr>:{each}" for each in WORDS]
    failed = "[1,3]<stderr>:torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "

    assert heard(alone)[0][0] == Speaker(rank=3)
    assert heard([*alone, failed])[0][0] == Speaker(task=3)


@pytest.mark.parametrize(
    "text",
    [
        # A program's logger stamps its own lines, not those of a traceback.
        [*(f"2026-11-30 12:00:0{n},123 INFO step" for n in range(9)), *TRACEBACK],
        ["INFO: step", "INFO: step", "ERROR: bad"],
        [f"epoch{n % 3}: loss 0.5" for n in range(9)],
        [f"gpt-2 training step {n}" for n in range(9)],
        [f"[{n}] loss 0.5" for n in range(9)],
        [f"[{n % 3}] loss 0.5" for n in range(9)],
        [f"val1 | {n} | 0.5" for n in range(9)],
        ["[2024-03-12 02:29:19,601] torch.distributed.run: [WARNING] x"] * 9,
        ["[2026-11-30 12:00:01,123] [INFO] [launch.py:316:main] x"] * 9,
    ],
)
def test_what_a_program_prints_is_no_prefix(text: list[str]) -> None:
    assert [(who, each) for who, each in heard(text)] == [(Speaker(), each) for each in text]


def test_labels_that_begin_behind_a_long_preparation_are_seen_at_the_files_end() -> None:
    text = [f"Collecting package-{n}" for n in range(5_000)]
    text += [f"{n % 4}: step {n}" for n in range(9_000)]

    assert heard(text)[-1] == (Speaker(task=3), "step 8999")


def test_hosts_may_begin_behind_whatever_a_batch_script_wrote() -> None:
    text = [f"Collecting package-{n}" for n in range(60)]
    text += [f"node{n % 2}: {each}" for each in WORDS for n in range(2)]

    assert heard(text)[0] == (Speaker(), "Collecting package-0")
    assert heard(text)[-1] == (Speaker(host="node1"), "ValueError: bad")


@pytest.mark.parametrize(
    "text",
    [
        [f"node1: {TRACEBACK[0]}", *TRACEBACK[1:]],
        [*(f"node1: {each}" for each in TRACEBACK), *WORDS[:6] * 9],
        [*TRACEBACK, *(f"node1: {each}" for each in TRACEBACK)],
        [f"worker1: step {n}" for n in range(9)],
        [f"rank1: {each}" for each in TRACEBACK],
    ],
)
def test_hosts_before_some_lines_are_no_prefixes(text: list[str]) -> None:
    text = [*(f"epoch {n}" for n in range(60)), *text]

    assert heard(text) == [(Speaker(), each) for each in text]


@pytest.mark.parametrize("place", [0, 3, 9])
def test_a_progress_bars_states_are_no_lines_without_labels(place: int) -> None:
    text = [f"{n % 2}: step {n}" for n in range(9)]
    bar = "\r".join(f"{n:6d}/9999 [00:01<00:02, 3.1it/s]" for n in range(9_999))

    found = heard([*text[:place], bar, *text[place:]])

    assert (Speaker(task=0), "step 8") in found


@pytest.mark.parametrize("place", [0, 5_000, 14_000])
def test_labels_beside_a_long_bar_are_seen_at_a_long_files_end(place: int) -> None:
    text = [f"Collecting package-{n}" for n in range(5_000)]
    text += [f"{n % 4}: step {n}" for n in range(9_000)]
    bar = "\r 10%|####" * 200_000

    found = heard([*text[:place], bar, *text[place:]])

    assert (Speaker(task=3), "step 8999") in found


def test_a_line_of_another_writer_among_prefixed_ones_stays_whole() -> None:
    text = [f"node{n % 2}: {each}" for each in WORDS for n in range(2)]

    assert heard([*text, "pdsh9: done"])[-1] == (Speaker(), "pdsh9: done")
