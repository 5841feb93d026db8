"""Prefixes name the speaker, and only prefixes do."""

from __future__ import annotations

import pytest

from firstfault.model.line import Speaker
from firstfault.streams.prefixes import ANSI, has_task_labels, peel


@pytest.mark.parametrize(
    ("text", "speaker", "rest"),
    [
        ("[default1]:step 0", Speaker(local_rank=1), "step 0"),
        ("[trainer12]: step 0", Speaker(local_rank=12), " step 0"),
        ("[gpu-a100.x3]:step 0", Speaker(local_rank=3), "step 0"),
        ("[node07:5]:step 0", Speaker(host="node07", local_rank=5), "step 0"),
        ("[node07.cluster:5] step 0", Speaker(host="node07.cluster", local_rank=5), " step 0"),
        ("[rank31]: Traceback", Speaker(rank=31), "Traceback"),
        ("[rank31]:   File", Speaker(rank=31), "  File"),
        ("[rank: 2] Global seed set", Speaker(rank=2), "Global seed set"),
        ("step 0", Speaker(), "step 0"),
        ("", Speaker(), ""),
    ],
)
def test_each_launchers_prefix_names_its_speaker(text: str, speaker: Speaker, rest: str) -> None:
    peeled = peel(text, labelled=False)

    assert (peeled.speaker, peeled.text) == (speaker, rest)


@pytest.mark.parametrize(
    "text",
    [
        "2: [default1]:[rank17]: boom",
        " 2: [default1]:[rank17]: boom",
        "2: [rank17]: [default1]:boom",
    ],
)
def test_prefixes_may_be_nested_in_any_order(text: str) -> None:
    peeled = peel(text, labelled=True)

    assert peeled.speaker == Speaker(task=2, rank=17, local_rank=1)
    assert peeled.text == "boom"
    assert peeled.hooked


def test_rank_and_host_prefixes_nest() -> None:
    assert peel("3: [n4:1]:[rank7]: boom", labelled=True).speaker == Speaker(
        host="n4", task=3, rank=7, local_rank=1
    )


def test_a_rank_prefix_without_a_blank_is_the_local_rank_of_a_role_called_rank() -> None:
    peeled = peel("[rank0]:Traceback (most recent call last):", labelled=False)

    assert peeled.speaker == Speaker(local_rank=0)
    assert not peeled.hooked


@pytest.mark.parametrize(
    "rest",
    [
        "[E1229 20:29:13.091296956 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0 Rank 2] x",
        "[E703 20:29:13.091296956 ProcessGroupNCCL.cpp:1484] x",
        "[E ProcessGroupNCCL.cpp:563] [Rank 0] Watchdog caught collective operation timeout",
        "[W reducer.cpp:1389] Warning: find_unused_parameters",
        "[2024-03-12 02:29:19,601] torch.distributed.run: [WARNING] x",
        "W0825 17:31:27.240000 139795859210880 torch/_logging/_internal.py:1034] x",
    ],
)
def test_torchs_own_log_lines_carry_the_global_rank_without_a_blank(rest: str) -> None:
    peeled = peel(f"[rank2]:{rest}", labelled=False)

    assert peeled.speaker == Speaker(rank=2)
    assert peeled.text == rest


@pytest.mark.parametrize(
    "text",
    [
        "[12]: not a rank",
        "[2026-11-30 15:56:25,805] INFO",
        "[1,0]<stdout>:hello",
        "[15:56] a clock, not a host",
        "[gpu] x",
        "12: epoch twelve",
    ],
)
def test_what_only_looks_like_a_prefix_stays_text(text: str) -> None:
    peeled = peel(text, labelled=False)

    assert peeled.speaker == Speaker()
    assert peeled.text == text


def test_nccls_bracket_is_a_device_and_no_rank() -> None:
    peeled = peel("node-1:178:828 [0] NCCL WARN NET/IB : Got completion", labelled=False)

    assert peeled.speaker == Speaker()


def test_a_label_needs_a_blank_so_that_grep_numbers_are_none() -> None:
    assert peel("1078:[default0]:x", labelled=True).speaker.task is None


def test_a_file_of_sruns_labels_is_told_by_most_of_its_lines() -> None:
    assert has_task_labels(["0: a", "1: b", "srun: error: n1: task 0: Killed", "0: ", "1: c"])
    assert has_task_labels([" 0: a", "10: b", " 0: c", "loading modules"])


def test_numbers_among_many_other_lines_are_no_labels() -> None:
    assert not has_task_labels(["12: foo", "starting", "epoch", "13: bar", "x", "y"])
    assert not has_task_labels([])
    assert not has_task_labels(["", "  ", "srun: error: n1: task 0: Killed"])


def test_a_counter_at_each_lines_head_is_no_label() -> None:
    assert not has_task_labels([f"{step}: loss 0.5" for step in range(100)])
    assert not has_task_labels(["7: a", "19: b", "1078: c"])


@pytest.mark.parametrize(
    "code",
    ["\x1b[31m", "\x1b[0;1;31m", "\x1b[K", "\x1b[?25l", "\x1b]0;title\x07", "\x1b]8;;x\x1b\\"],
)
def test_terminal_codes_are_taken_off(code: str) -> None:
    assert ANSI.sub("", f"a{code}b") == "ab"
