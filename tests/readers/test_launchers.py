"""What launchers other than torchrun say of their processes' ends.

Built from the format strings of the programs that the module's table names.
"""

from __future__ import annotations

import textwrap

import pytest

from firstfault.model.event import ClosingSignal, LaunchBegan, LauncherEnd
from tests.readers.logs import events


def ends(text: str) -> list[LauncherEnd]:
    return [event for event in events(text) if isinstance(event, LauncherEnd)]


def only(text: str) -> LauncherEnd:
    (end,) = ends(textwrap.dedent(text))
    return end


@pytest.mark.parametrize("who", ["mpirun", "mpiexec", "prterun"])
def test_open_mpi_names_the_rank_that_a_signal_ended_and_its_node(who: str) -> None:
    end = only(
        f"{who} noticed that process rank 3 with PID 4711 on node n2 exited on signal 9 (Killed).\n"
    )

    assert (end.launcher, end.rank, end.host, end.pid) == (who, 3, "n2", 4711)
    assert (end.exit_code, end.first) == (-9, True)


def test_a_pid_of_zero_and_localhost_name_nothing() -> None:
    end = only(
        "mpirun noticed that process rank 1 with PID 0 on node localhost exited on signal 11 "
        "(Segmentation fault).\n"
    )

    assert (end.rank, end.host, end.pid, end.exit_code) == (1, None, None, -11)


@pytest.mark.parametrize(
    "name", ["[[42821,1],5]", "[prterun-n1-4711@1,5]"], ids=["Open MPI 4", "PRRTE"]
)
def test_open_mpi_names_the_first_rank_that_exited_with_an_error(name: str) -> None:
    end = only(
        f"""\
        --------------------------------------------------------------------------
        mpirun detected that one or more processes exited with non-zero status, thus causing
        the job to be terminated. The first process to do so was:

          Process name: {name}
          Exit code:    2
        --------------------------------------------------------------------------
        """
    )

    assert (end.rank, end.exit_code, end.first) == (5, 2, True)
    assert "Process name" in end.place.text


def test_mpi_abort_names_the_rank_that_called_it() -> None:
    end = only(
        """\
        MPI_ABORT was invoked on rank 6 in communicator MPI_COMM_WORLD
        with errorcode 3.
        """
    )

    assert (end.launcher, end.rank, end.exit_code, end.first) == ("MPI_Abort", 6, 3, False)


def test_an_abort_in_another_communicator_names_no_global_rank() -> None:
    assert not ends(
        "MPI_ABORT was invoked on rank 6 in communicator MPI COMMUNICATOR 3 SPLIT FROM 0\n"
        "with errorcode 3.\n"
    )


@pytest.mark.parametrize(
    ("who", "how", "rank", "code"),
    [
        ("RANK 4 PID 912", "KILLED BY SIGNAL: 9 (Killed)", 4, -9),
        ("RANK 4 PID 912", "EXIT STATUS: 1", 4, 1),
        ("PID 912", "EXIT CODE: 42", None, 42),
        ("PID 912", "EXIT CODE: 9", None, None),
    ],
)
def test_hydras_box_names_host_and_pid(who: str, how: str, rank: int | None, code: int) -> None:
    end = only(
        "=" * 40
        + "\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
        + f"=   {who} RUNNING AT n3\n=   {how}\n"
        + "=" * 40
        + "\n"
    )

    assert (end.rank, end.host, end.pid, end.exit_code) == (rank, "n3", 912, code)


def test_an_old_hydras_box_names_nobody() -> None:
    end = only(
        "=" * 40
        + "\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
        + "=   EXIT CODE: 135\n=   CLEANING UP REMAINING PROCESSES\n"
        + "=" * 40
        + "\n"
    )

    assert (end.rank, end.host, end.pid, end.exit_code) == (None, None, None, 135)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL", -9),
        ("Exception: process 1 terminated with exit code 3", 3),
        ("-- Process 1 terminated with the following error:", 1),
    ],
)  # fmt: skip
def test_spawn_names_the_local_index(text: str, code: int) -> None:
    end = only(text + "\n")

    assert (end.launcher, end.local_rank, end.rank, end.exit_code) == ("spawn", 1, None, code)


def test_horovodrun_names_the_rank() -> None:
    end = only("Process 3 exit with status code 1.\n")
    first = only(
        """\
        RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be terminated. The first process to do so was:
        Process name: 2
        Exit code:    1
        """
    )

    assert (end.rank, end.exit_code, end.first) == (3, 1, False)
    assert (first.launcher, first.rank, first.exit_code, first.first) == ("horovod", 2, 1, True)


def test_deepspeeds_command_names_no_rank() -> None:
    head = "[2026-03-02 10:00:01,123] [ERROR] [launch.py:325:sigkill_handler] "
    end = only(head + "['/usr/bin/python3', '-u', 't.py', '--local_rank=3'] exits with return code = -9\n")  # fmt: skip

    assert (end.launcher, end.rank, end.local_rank, end.exit_code) == ("deepspeed", None, None, -9)


def test_deepspeed_tells_which_process_ended_well_and_when_it_begins() -> None:
    head = "[2026-03-02 10:00:01,123] [INFO] [launch.py:351:main] "

    fine, began = events(head + "Process 77 exits successfully.\n" + head + "dist_world_size=8\n")[
        :2
    ]

    assert isinstance(fine, LauncherEnd)
    assert (fine.pid, fine.exit_code) == (77, 0)
    assert isinstance(began, LaunchBegan)


def test_lightning_names_a_pid() -> None:
    end = only(
        "Child process with PID 5150 terminated with code -11. Forcefully terminating all other "
        "processes to avoid zombies\n"
    )

    assert (end.launcher, end.pid, end.exit_code, end.rank) == ("lightning", 5150, -11, None)


def test_ray_names_a_workers_host_and_pid_but_not_why_it_died() -> None:
    end = only(
        "A worker died or was killed while executing a task by an unexpected system error. "
        "To troubleshoot the problem, check the logs for the dead worker. Worker ID: 0a Node ID: "
        "0b Worker IP address: 10.0.0.7 Worker port: 10003 Worker PID: 881 Worker exit type: X\n"
    )

    assert (end.launcher, end.host, end.pid, end.exit_code) == ("ray", "10.0.0.7", 881, None)


@pytest.mark.parametrize(
    "text",
    [
        "process 1 terminated with signal SIGKILL",
        "Process name: 3\nExit code:    1",
        "with errorcode 3.",
        "=   PID 912 RUNNING AT n3\n=   EXIT CODE: 1",
        "['t.py'] exits with return code = 1",
        "[rank1]: mpirun noticed that process rank 3 with PID 1 on node n2 exited on signal 9 (x).",
    ],
)
def test_words_alone_or_a_ranks_own_are_no_launchers(text: str) -> None:
    assert not ends(text + "\n")


@pytest.mark.parametrize(
    ("how", "code"),
    [("returned non-zero exit status 3.", 3), ("died with <Signals.SIGKILL: 9>.", -9)],
)
def test_the_command_of_torchs_old_launcher_names_no_rank(how: str, code: int) -> None:
    end = only(f"subprocess.CalledProcessError: Command '['python3', 't.py', '--local_rank=3']' {how}\n")  # fmt: skip

    assert (end.launcher, end.rank, end.local_rank) == ("torch.distributed.launch", None, None)
    assert end.exit_code == code


def test_another_programs_failed_command_is_no_launchers() -> None:
    assert not ends("subprocess.CalledProcessError: Command '['make']' returned non-zero exit status 2.\n")  # fmt: skip


def test_deepspeed_kills_what_it_started() -> None:
    (event,) = events(
        "[2026-03-02 10:00:05,001] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 501\n"
    )

    assert isinstance(event, ClosingSignal)
    assert event.pid == 501


@pytest.mark.parametrize(
    ("text", "rank", "pid", "code", "first"),
    [
        ("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.", 2, None, -7, True),
        ("Global rank 2 (PID 912) exited with code -11", 2, 912, -11, False),
        (
            "ERROR:composer.cli.launcher:Global rank 2 (PID 912) exited with code 1",
            2,
            912,
            1,
            False,
        ),
    ],
)
def test_composer_names_the_rank(
    text: str, rank: int, pid: int | None, code: int, first: bool
) -> None:
    end = only(f"{text}\n")

    assert (end.launcher, end.rank, end.pid, end.exit_code) == ("composer", rank, pid, code)
    assert end.first == first


def test_what_composer_killed_itself_is_no_end_of_its_own() -> None:
    told = events(
        "INFO:composer.cli.launcher:Killing global rank 1 (PID 913) with SIGTERM\n"
        "WARNING:composer.cli.launcher:Failed to kill global rank 1 (PID 913) with SIGTERM; "
        "terminating with SIGKILL instead\n"
        "ERROR:composer.cli.launcher:Global rank 0 (PID 911) exited with code -15\n"
    )

    assert [each for each in told if isinstance(each, LauncherEnd)] == []
    assert [e.forced for e in told if isinstance(e, ClosingSignal)] == [False, True]
