"""Prefixes name the speaker, and only prefixes do."""

from __future__ import annotations

import pytest

from firstfault.model.line import Speaker
from firstfault.streams.prefixes import ANSI, Peeled, Peeler
from firstfault.streams.wrappers import TASK, Layout, Wrapper, has_task_labels

LABELLED = Layout((Wrapper(TASK),))


def peel(text: str, *, labelled: bool = False) -> Peeled:
    return Peeler(LABELLED if labelled else Layout()).peel(text)


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
        ("[default1|17]:step 0", Speaker(local_rank=1, rank=17), "step 0"),
        ("[1,3]<stderr>:step 0", Speaker(rank=3), "step 0"),
        ("[1,mpirank:3,algo-1]<stderr>:step", Speaker(host="algo-1", rank=3), "step"),
        ("[prterun-n1-77@1,3]<stdout>: step 0", Speaker(rank=3), " step 0"),
        ("[1,3]<stderr>:[rank3]: step 0", Speaker(rank=3), "step 0"),
        ("[pod/job-worker-1/main] step 0", Speaker(host="job-worker-1"), "step 0"),
        ("[pod/w-1/main] [rank9]:   File", Speaker(host="w-1", rank=9), "  File"),
        ("(RayTrainWorker pid=41, ip=10.0.0.2) step", Speaker(host="10.0.0.2", pid=41), "step"),
        ("(Worker(train-1) pid=41, ip=10.0.0.2) step", Speaker(host="10.0.0.2", pid=41), "step"),
        ("(pool.Worker pid=41)   File", Speaker(pid=41), "  File"),
        ("[localhost:2]:step 0", Speaker(local_rank=2), "step 0"),
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
        "[1,0] hello",
        "[epoch3]: loss 0.5",
        "[step_100]: loss 0.5",
        "[n1:04321] *** Process received signal ***",
        "(pid 41) hello",
        "(see pid=41)hello",
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


RAISED = [
    "Traceback (most recent call last):",
    '  File "a.py", line 3, in f',
    "    g()",
    "KeyError: 3",
]
HOOKED = [f"1: [rank1]: {line}" for line in RAISED]
PREPARED = [f"Collecting package-{n}" for n in range(60)]
WORKED = [f"step {n} loss 0.5" for n in range(60)]


@pytest.mark.parametrize("raised", [RAISED, [f"[rank7]: {line}" for line in RAISED]])
@pytest.mark.parametrize(
    "behind", [[], ["srun: error: n1: task 0: Exited with exit code 1", "job done"]]
)
def test_labels_may_begin_behind_whatever_a_batch_script_wrote(
    raised: list[str], behind: list[str]
) -> None:
    tasks = [f"{n % 2}: step {n}" for n in range(8)]

    assert has_task_labels([*PREPARED, *tasks, *(f"1: {line}" for line in raised), *behind])


def test_a_traceback_of_the_batch_script_before_all_labels_changes_nothing() -> None:
    assert has_task_labels([*PREPARED, *RAISED, "1 failed, 13 passed", *HOOKED])


@pytest.mark.parametrize(
    "lines",
    [
        # Some numbers and colons.
        [*WORKED, "0: foo", "1: bar", "0: foo"],
        [*WORKED, *(f"{n % 3}: {n / 9:.3f}" for n in range(30))],
        [*WORKED, "workers:", "  0: [n1, n2]", "  1: [n3]", '{"0": 3}', "12: 3.4", "7: {}"],
        [*WORKED, *(f"{n % 3}: {n / 9:.3f}" for n in range(30)), *RAISED],
        # A program that says which of its workers raised; a logger's head before the first line.
        [*WORKED, f"3: {RAISED[0]}", *RAISED[1:], f"1: {RAISED[0]}", *RAISED[1:]],
        [*WORKED, *(f"{n}: {RAISED[0]}" for n in (3, 1, 2)), "KeyError: 3"],
        # Lines' numbers, of one file and of two.
        [*WORKED, *(f"{n}: {line}" for n, line in enumerate(RAISED * 3, 1))],
        [
            *WORKED,
            *(f"{n}: {line}" for n, line in enumerate(RAISED, 1)),
            *(f"{n}: {line}" for n, line in enumerate(RAISED, 1)),
        ],
        # Another job's labels, quoted before and after this one's own words.
        [*HOOKED, *WORKED],
        [*HOOKED, *WORKED, *(f"{n % 3}: {n / 9:.3f}" for n in range(30))],
        [*WORKED[:4], *HOOKED, *WORKED],
        [*WORKED, *RAISED, "srun: error: n1: task 0: Exited with exit code 1", *HOOKED],
        [*WORKED, *(f"[rank0]: {line}" for line in RAISED), *HOOKED],
        [*WORKED, *(f"[default0]:{line}" for line in RAISED), *HOOKED],
        [*WORKED, "W1130 14:20:07.000000 51 torch/distributed/run.py:793] ", *HOOKED],
        # torch's own prefixes are no labels.
        [*WORKED, *(f"[rank0]: {line}" for line in RAISED)],
    ],
)
def test_numbers_before_some_lines_are_no_labels(lines: list[str]) -> None:
    assert not has_task_labels(lines)


@pytest.mark.parametrize(
    "code",
    ["\x1b[31m", "\x1b[0;1;31m", "\x1b[K", "\x1b[?25l", "\x1b]0;title\x07", "\x1b]8;;x\x1b\\"],
)
def test_terminal_codes_are_taken_off(code: str) -> None:
    assert ANSI.sub("", f"a{code}b") == "ab"


def test_mpis_numbers_are_tasks_where_it_starts_launchers() -> None:
    peeled = Peeler(Layout(launchers=True)).peel("[1,3]<stderr>:[default0]:[rank24]: boom")

    assert peeled.speaker == Speaker(task=3, local_rank=0, rank=24)


def test_what_is_glued_behind_speaks_for_the_lines_own_process_unless_it_names_another() -> None:
    peeler = Peeler(LABELLED)
    outer = peeler.peel("3: [default1]: 5%|#").outer

    assert peeler.peel("boom", outer).speaker == Speaker(task=3, local_rank=1)
    assert peeler.peel("[rank9]: boom", outer).speaker == Speaker(task=3, local_rank=1, rank=9)
    assert peeler.peel("4: boom", outer).speaker == Speaker(task=4)


def test_a_speaker_is_one_value_for_all_its_lines() -> None:
    peeler = Peeler()

    assert peeler.peel("[rank3]: a").speaker is peeler.peel("[rank3]: b").speaker


@pytest.mark.parametrize(
    "text",
    [
        "{'loss': 0.5}[rank1]: Traceback (most recent call last):",
        "step 3[default1]:[rank1]: Traceback (most recent call last):",
        "step 3[default1]:Traceback (most recent call last):",
        ' 5%|#    | 5/100 [00:01<00:02, 3.1it/s][rank1]:   File "a.py", line 1, in f',
        " 5%|#    | 5/100 [00:01<00:02, 3.1it/s][default1]:anything",
        " 5%|#    | 5/100 [00:01<00:02, 3.1s/it][rank1]:[E1229 20:29:13.09 ProcessGroupNCCL.cpp:1] x",
        "x[rank1]:[E ProcessGroupNCCL.cpp:563] x",
        "step 3[default1]:[rank1]:[F1229 20:29:13.09 ProcessGroupNCCL.cpp:1] x",
    ],
)
def test_a_workers_first_words_in_the_midst_of_a_line_begin_a_new_one(text: str) -> None:
    at = Peeler().seam(text)

    assert at is not None
    assert text[at:].startswith(("[rank1]:", "[default1]:"))


def test_a_label_before_glued_words_belongs_to_them() -> None:
    text = " 5%|#| 5/9 [00:01<00:02, 3.1it/s]2: [default1]:boom"

    assert Peeler(LABELLED).seam(text) == text.index("2: [default1]")


@pytest.mark.parametrize(
    "text",
    [
        "the loader said [rank1]: ValueError: bad",
        "see [rank1]: and so on",
        "shapes [a1]: [b2]:",
        "[default1]:Traceback (most recent call last):",
        " 5%|#    | 5/100 [00:01<00:02, 3.1it/s]",
        "plain",
    ],
)
def test_what_a_program_quotes_begins_no_new_line(text: str) -> None:
    assert Peeler().seam(text) is None
