"""torchelastic's lines and tables, from torch 1.9 to 2.13.

Built from the format strings of each release's torch/distributed/elastic/multiprocessing/api.py
and errors/__init__.py, with invented names, or taken from the recorded cases.
"""

from __future__ import annotations

import datetime as dt
import textwrap

import pytest

from firstfault.model.event import (
    AgentSignalled,
    ClosingSignal,
    ExitNoticed,
    GroupEnded,
    LaunchBegan,
    TableEntry,
    TaskEnd,
    Traceback,
    WorkersStarted,
)
from firstfault.model.line import Speaker
from firstfault.readers.elastic import agent_event
from tests.readers.logs import ZONE, events, line

API = "torch.distributed.elastic.multiprocessing.api"
PATH = "torch/distributed/elastic/multiprocessing/api.py"
UTC = dt.UTC

FIRST_LINE = "failed (exitcode: -9) local_rank: 4 (pid: 208585) of binary: /usr/bin/python3.10"


@pytest.mark.parametrize(
    ("head", "latest", "agent_pid"),
    [
        (f"ERROR:{API}:", None, None),
        (
            f"[2024-03-12 02:29:19,601] {API}: [ERROR] ",
            dt.datetime(2024, 3, 12, 2, 29, 19, 601000, UTC),
            None,
        ),
        (
            f"E0825 17:31:27.240000 139795859210880 {PATH}:826] ",
            dt.datetime(2026, 8, 25, 17, 31, 27, 240000, UTC),
            139795859210880,
        ),
        (
            f"E1130 16:06:59.358000 20279 {PATH}:1002] ",
            dt.datetime(2026, 11, 30, 16, 6, 59, 358000, UTC),
            20279,
        ),
        (
            "E1130 16:06:59.358000 20279 site-packages/torch/distributed/elastic/x.py:882] ",
            dt.datetime(2026, 11, 30, 16, 6, 59, 358000, UTC),
            20279,
        ),
    ],
    ids=["1.9-2.0", "2.1-2.2", "2.3", "2.5 and later", "2.9 installed"],
)
def test_the_agents_first_failure_is_read_in_every_layout(
    head: str, latest: dt.datetime | None, agent_pid: int | None
) -> None:
    event = agent_event(line(head + FIRST_LINE), ZONE)

    assert isinstance(event, ExitNoticed)
    assert (event.exit_code, event.local_rank, event.pid) == (-9, 4, 208585)
    assert event.agent_pid == agent_pid
    # The agent notices by polling: it happened then or before.
    assert (event.at.latest if event.at else None) == latest
    assert event.at is None or event.at.earliest is None


def test_a_function_that_was_spawned_is_read_like_a_binary() -> None:
    event = agent_event(
        line("failed (exitcode: 1) local_rank: 0 (pid: 77) of fn: train (start_method: spawn)"),
        ZONE,
    )

    assert isinstance(event, ExitNoticed)
    assert (event.exit_code, event.local_rank, event.pid) == (1, 0, 77)


@pytest.mark.parametrize(
    ("text", "pid", "forced"),
    [
        ("Sending process 11740 closing signal SIGTERM", 11740, False),
        ("Sending process 11740 closing signal SIGHUP", 11740, False),
        ("Unable to shutdown process 9 via 15, forcefully exiting via 9", 9, True),
        (
            "Unable to shutdown process 9 via Signals.SIGTERM, forcefully exitting via Signals.SIGKILL",
            9,
            True,
        ),
    ],
)
def test_a_process_that_the_agent_ends_is_told_from_one_that_failed(
    text: str, pid: int, forced: bool
) -> None:
    event = agent_event(line(f"W1130 15:56:25.805000 11677 {PATH}:1028] {text}"), ZONE)

    assert isinstance(event, ClosingSignal)
    assert (event.pid, event.forced) == (pid, forced)
    assert event.at is not None
    assert event.at.earliest == dt.datetime(2026, 11, 30, 15, 56, 25, 805000, UTC)


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("Received 15 death signal, shutting down workers", 15),
        ("Received Signals.SIGHUP death signal, shutting down workers", 1),
        (f"{API}.SignalException: Process 11672 got signal: 2", 2),
    ],
)
def test_an_agent_that_was_told_to_stop_says_so(text: str, signal: int) -> None:
    event = agent_event(line(text), ZONE)

    assert isinstance(event, AgentSignalled)
    assert event.signal == signal


def test_the_launcher_before_torch_1_9_says_that_it_was_told_to_stop() -> None:
    told = agent_event(line("Main process received SIGTERM, exiting"), ZONE)
    ends = agent_event(line("Killing subprocess 40875"), ZONE)

    assert isinstance(told, AgentSignalled)
    assert told.signal == 15
    assert isinstance(ends, ClosingSignal)
    assert (ends.pid, ends.forced) == (40875, False)


@pytest.mark.parametrize(
    "text",
    [
        "step 5 loss 0.1667",
        "failed (exitcode: x) local_rank: 0 (pid: 1) of binary: a",
        "worker failed (exit code 1)",
        "Sending process to background",
    ],
)
def test_other_lines_are_no_events(text: str) -> None:
    assert agent_event(line(text), ZONE) is None


def table(*, host: str = "node007.cluster", note: str = "", rank: int = 2) -> str:
    """A table of torch 1.10 to 2.9 with two failures."""
    return textwrap.dedent(
        f"""\
        ============================================================
                             train.py FAILED
        ------------------------------------------------------------
        Failures:
        [1]:
          time      : 2026-06-08_19:04:46
          host      : {host}
          rank      : {rank + 1} (local_rank: 3)
          exitcode  : 1 (pid: 102933)
          error_file: <N/A>
          traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
        ------------------------------------------------------------
        Root Cause (first observed failure):
        [0]:
          time      : 2026-06-08_19:04:45
          host      : {host}
          rank      : {rank} (local_rank: 2)
          exitcode  : -11 (pid: 102932){note}
          error_file: <N/A>
          traceback : Signal 11 (SIGSEGV) received by PID 102932
        ============================================================
        """
    )


def entries(text: str) -> list[TableEntry]:
    return [event for event in events(text) if isinstance(event, TableEntry)]


@pytest.mark.parametrize("note", ["", "  (SIGSEGV)", " "], ids=["1.10-2.9", "2.13", "trailing"])
def test_a_table_gives_each_failure(note: str) -> None:
    other, root = entries(table(note=note))

    assert (other.rank, other.local_rank, other.exit_code, other.pid) == (3, 3, 1, 102933)
    assert (root.rank, root.local_rank, root.exit_code, root.pid) == (2, 2, -11, 102932)
    assert (other.root, root.root) == (False, True)
    assert other.table == root.table
    assert root.host == "node007.cluster"
    assert root.error_file is None


def test_a_tables_time_is_when_the_failure_was_noticed_at_the_latest() -> None:
    _, root = entries(table())

    assert root.at is not None
    assert root.at.earliest is None
    assert root.at.latest == dt.datetime(2026, 6, 8, 19, 4, 46, tzinfo=UTC)


def test_an_entrys_place_is_its_exit_codes_line() -> None:
    _, root = entries(table())

    assert root.place.text.strip() == "exitcode  : -11 (pid: 102932)"
    assert root.place.line == 18


@pytest.mark.parametrize("host", ["localhost", "localhost.localdomain", "<N/A>", ""])
def test_localhost_is_no_host(host: str) -> None:
    assert {entry.host for entry in entries(table(host=host))} == {None}


def test_a_lone_failure_has_no_others() -> None:
    text = table().replace(table()[table().index("[1]:") : table().index("----", 400)], "")
    lone = text.replace("Failures:\n", "Failures:\n  <NO_OTHER_FAILURES>\n")

    assert [(entry.rank, entry.root) for entry in entries(lone)] == [(2, True)]


def test_the_tables_of_several_agents_are_told_apart() -> None:
    found = entries(table(host="n1", rank=2) + "\n" + table(host="n2", rank=10))

    assert [(entry.host, entry.rank) for entry in found] == [
        ("n1", 3),
        ("n1", 2),
        ("n2", 11),
        ("n2", 10),
    ]
    assert len({entry.table for entry in found}) == 2


def test_tables_that_labels_interleave_are_told_apart() -> None:
    one, other = table(host="n1").split("\n"), table(host="n2", rank=8).split("\n")
    mixed = "\n".join(f"0: {a}\n1: {b}" for a, b in zip(one, other, strict=True))

    found = entries(mixed)

    assert {(entry.speaker.task, entry.host, entry.rank) for entry in found} == {
        (0, "n1", 2),
        (0, "n1", 3),
        (1, "n2", 8),
        (1, "n2", 9),
    }


def test_a_recorded_exceptions_stack_belongs_to_the_table_and_gives_its_error() -> None:
    stack = (
        "  traceback : Traceback (most recent call last):\n"
        '    File "/home/u/train.py", line 3, in main\n'
        "      raise ValueError(1)\n"
        "  ValueError: bad shape\n"
        "  detail: not the error\n"
        "  \n"
    )
    cut = table().split("  traceback : Signal")[0]
    text = cut.replace("error_file: <N/A>", "error_file: /tmp/x/r_0/attempt_0/2/error.json")

    found = events(text + stack + "=" * 60 + "\nstep 7\n")

    root = next(event for event in found if isinstance(event, TableEntry) and event.root)
    assert root.error == "ValueError: bad shape"
    assert root.told_at is not None
    assert root.told_at.text.strip() == "ValueError: bad shape"
    assert root.error_file == "/tmp/x/r_0/attempt_0/2/error.json"
    assert not [event for event in found if isinstance(event, Traceback)]


def test_torch_1_9_prints_the_root_first_and_no_host() -> None:
    text = textwrap.dedent(
        """\
        **************************************************
                         train.py FAILED
        ==================================================
        Root Cause:
        [0]:
          time: 2021-07-01_08:00:00
          rank: 5 (local_rank: 1)
          exitcode: 1 (pid: 812)
          error_file: /tmp/torchelastic_a/none_b/attempt_0/1/error.json
          msg: "ValueError: boom"
        ==================================================
        Other Failures:
        [1]:
          time: 2021-07-01_08:00:01
          rank: 4 (local_rank: 0)
          exitcode: -15 (pid: 811)
          error_file: <N/A>
          msg: "Signal 15 (SIGTERM) received by PID 811"
        **************************************************
        Traceback (most recent call last):
          File "a.py", line 1, in <module>
        ValueError: after the table
        """
    )

    found = events(text)

    root, other = (event for event in found if isinstance(event, TableEntry))
    assert (root.root, root.rank, root.local_rank, root.exit_code, root.pid) == (True, 5, 1, 1, 812)
    assert (other.root, other.rank, other.exit_code) == (False, 4, -15)
    assert root.table == other.table
    assert root.host is None
    assert any(isinstance(event, Traceback) for event in found)


def test_torch_1_9_without_other_failures() -> None:
    text = (
        "*" * 40
        + "\n train.py FAILED\n"
        + "=" * 40
        + "\nRoot Cause:\n[0]:\n  time: 2021-07-01_08:00:00\n"
        "  rank: 0 (local_rank: 0)\n  exitcode: -9 (pid: 3)\n  error_file: <N/A>\n"
        '  msg: "Signal 9 (SIGKILL) received by PID 3"\n' + "=" * 40 + "\nOther Failures:\n"
        "  <NO_OTHER_FAILURES>\n" + "*" * 40 + "\n"
    )

    (entry,) = entries(text)

    assert (entry.root, entry.exit_code) == (True, -9)


def test_a_table_that_lost_its_indent_is_still_read() -> None:
    text = "\n".join(each.strip() for each in table().split("\n"))

    assert [entry.rank for entry in entries(text)] == [3, 2]


def test_what_srun_writes_between_a_tables_lines_is_not_lost() -> None:
    text = table().replace(
        "  error_file", "srun: error: n7: task 0: Exited with exit code 1\n  error_file", 1
    )

    found = events(text)

    assert [event.rank for event in found if isinstance(event, TableEntry)] == [3, 2]
    assert [event.host for event in found if isinstance(event, TaskEnd)] == ["n7"]


def test_a_table_without_its_end_swallows_nothing_of_what_follows() -> None:
    text = table().rstrip("=\n") + (
        "\nTraceback (most recent call last):\n"
        '  File "a.py", line 1, in f\n'
        "ValueError: after\n"
        "srun: error: n7: task 0: Exited with exit code 1\n"
    )

    found = events(text)

    assert [event.rank for event in found if isinstance(event, TableEntry)] == [3, 2]
    assert [event.message for event in found if isinstance(event, Traceback)] == ["after"]
    assert [event.host for event in found if isinstance(event, TaskEnd)] == ["n7"]


def test_an_entry_that_was_cut_before_its_exit_code_is_no_entry() -> None:
    assert entries(table()[: table().index("  exitcode")]) == []


@pytest.mark.parametrize("heading", ["Root Cause analysis follows", "Failures:"])
def test_words_like_a_tables_headings_hide_no_later_line(heading: str) -> None:
    found = events(
        f"{heading}\nTraceback (most recent call last):\n"
        '  File "a.py", line 1, in f\nValueError: x\n'
    )

    assert [event.message for event in found if isinstance(event, Traceback)] == ["x"]


def test_a_labelled_tee_prefix_does_not_hide_a_table() -> None:
    text = "\n".join(f"3: {each}" for each in table().split("\n"))

    assert {entry.speaker for entry in entries(text)} == {Speaker(task=3)}


def test_a_table_within_another_is_another_agents() -> None:
    one, other = table(host="n1"), table(host="n2", rank=10)
    cut = one.index("  exitcode", one.index("Root Cause"))

    found = entries(one[:cut] + other + one[cut:])

    assert [(entry.host, entry.rank) for entry in found] == [("n1", 3), ("n2", 11), ("n2", 10)]
    assert found[0].table != found[1].table == found[2].table


def test_of_two_tables_written_line_by_line_into_one_another_nothing_is_told() -> None:
    one, other = table(host="n1").split("\n"), table(host="n2", rank=8).split("\n")

    assert entries("\n".join(f"{a}\n{b}" for a, b in zip(one, other, strict=True))) == []


def test_entries_of_two_hosts_are_of_two_agents() -> None:
    one = table(host="n1")
    mixed = one.replace("host      : n1", "host      : n2", 1)

    found = entries(mixed)

    assert len({entry.table for entry in found}) == 2


def test_a_cut_table_without_indent_swallows_nothing() -> None:
    text = "\n".join(each.strip() for each in table().rstrip("=\n").split("\n"))

    found = events(text + "\nsrun: error: n7: task 0: Killed\nTraceback (most recent call last):\n"
                   '  File "a.py", line 1, in f\nValueError: after\n')  # fmt: skip

    assert [event.message for event in found if isinstance(event, Traceback)] == ["after"]


def test_a_signal_is_told_by_the_line_that_names_it() -> None:
    (root,) = [each for each in entries(table()) if each.root]

    assert root.told_at is not None
    assert root.told_at.text.strip().startswith("traceback : Signal ")


def test_torch_1_9_gives_a_recorded_errors_message() -> None:
    text = (
        "Root Cause:\n[0]:\n  time: 2021-07-01_08:00:00\n  rank: 0 (local_rank: 0)\n"
        "  exitcode: 1 (pid: 3)\n  error_file: /tmp/a/attempt_0/0/error.json\n"
        '  msg: "ValueError: boom"\n' + "=" * 40 + "\n"
    )

    found = entries(text)

    assert [entry.error for entry in found] == ["ValueError: boom"]
    assert [entry.told_at.text for entry in found if entry.told_at] == ['  msg: "ValueError: boom"']


RESULT = """\
[default] Rendezvous complete for workers. Result:
  restart_count=1
  master_addr=n1
  master_port=29500
  group_rank=1
  group_world_size=2
  local_ranks=[0, 1]
  role_ranks=[2, 3]
  global_ranks=[2, 3]
  role_world_sizes=[4, 4]
  global_world_sizes=[4, 4]
"""


def starts(text: str) -> list[WorkersStarted]:
    return [event for event in events(text) if isinstance(event, WorkersStarted)]


@pytest.mark.parametrize(
    ("head", "pid"),
    [
        ("INFO:torch.distributed.elastic.agent.server.api:", None),
        ("[2024-03-12 02:29:19,601] torch.distributed.elastic.agent.server.api: [INFO] ", None),
        ("I1130 16:06:59.358000 20279 torch/distributed/elastic/agent/server/api.py:553] ", 20279),
    ],
)
def test_an_agent_tells_the_ranks_that_it_starts(head: str, pid: int | None) -> None:
    (started,) = starts(head + RESULT)

    assert started.ranks == ((0, 2), (1, 3))
    assert (started.restarts, started.agents, started.world_size) == (1, 2, 4)
    assert started.agent_pid == pid


def test_ranks_of_two_agents_that_speak_at_once_are_told_of_neither() -> None:
    twice = "\n".join(f"{each}\n{each}" for each in RESULT.rstrip().split("\n"))

    assert starts(twice) == []


def test_since_torch_2_3_each_line_of_the_list_has_the_agents_head() -> None:
    head = "I1130 16:06:59.358000 {} torch/distributed/elastic/agent/server/api.py:553] "
    other = RESULT.replace("s=[2, 3]", "s=[0, 1]").rstrip().split("\n")
    mixed = "".join(
        f"{head.format(20279)}{a}\n{head.format(139795859210880)}{b}\n"
        for a, b in zip(RESULT.rstrip().split("\n"), other, strict=True)
    )

    assert [(each.agent_pid, each.ranks) for each in starts(mixed)] == [
        (20279, ((0, 2), (1, 3))),
        (139795859210880, ((0, 0), (1, 1))),
    ]


def test_a_list_of_ranks_that_was_cut_is_none() -> None:
    assert starts(RESULT[:-60] + "step 1\n") == []


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("[default] Worker group FAILED. 2/3 attempts left; will restart worker group", "failed"),
        (
            "Local worker group finished (FAILED). Waiting 300 seconds for other agents to finish",
            "over",
        ),
        ("[default] Detected 1 new nodes from group_rank=0; will restart worker group", "changed"),
        (
            "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.",
            "finished",
        ),
    ],
)
def test_an_agent_tells_how_its_group_ended(text: str, how: str) -> None:
    event = agent_event(line(f"INFO:{API}:{text}"), ZONE)

    assert isinstance(event, GroupEnded)
    assert event.how == how
    assert agent_event(line(text), ZONE) is None


def test_torchrun_begins_with_a_word_on_threads() -> None:
    event = agent_event(
        line(
            "W1130 16:06:59.358000 20279 torch/distributed/run.py:803] Setting OMP_NUM_THREADS "
            "environment variable for each process to be 1 in default, to avoid your system "
            "being overloaded"
        ),
        ZONE,
    )

    assert isinstance(event, LaunchBegan)


def test_a_table_whose_head_was_cut_off_is_still_read() -> None:
    text = table()

    found = entries(text[text.rindex("  rank      :") :] + "step 7\n")

    assert [(each.rank, each.exit_code, each.root) for each in found] == [(2, -11, False)]
    assert not entries("rank: 2 (local_rank: 2)\nexitcode: 1 (pid: 7)\n")
