"""What lines name together is one process; nothing else is joined."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.model.case import Case
from firstfault.model.document import Document
from firstfault.model.event import TaskEnd
from firstfault.model.run import Process, Told
from firstfault.runs.reading import read_documents, with_slurms_names
from firstfault.runs.told import told
from tests.diagnosis import made
from tests.readers.logs import document
from tests.readers.test_elastic import RESULT, table

CONSOLE = "3: [default1]:[rank7]: step\n2: [default0]:[rank4]: step\n3: [default1]:[rank7]: step\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x\n'


def read(*documents: Document) -> Told:
    return told(Case(documents=documents))


def process(found: Told, rank: int) -> Process:
    (each,) = (each for each in found.runs[-1].roster if each.rank == rank)
    return each


def test_srun_places_a_task_and_with_it_its_ranks() -> None:
    found = read(document(CONSOLE + "srun: error: n4: task 3: Out Of Memory\n"))

    rank = process(found, 7)
    assert (rank.task, rank.local_rank, rank.host) == (3, 1, "n4")
    assert process(found, 4).host is None


def test_a_stepd_line_places_its_task() -> None:
    found = read(document(CONSOLE + "3: slurmstepd-n4: error: x\n"))

    assert process(found, 7).host == "n4"


def test_a_task_on_two_hosts_is_on_none_and_that_is_said() -> None:
    found = read(
        document(
            CONSOLE
            + "srun: error: n4: task 3: Killed\nsrun: error: n5: task 3: Exited with exit code 1\n"
        )
    )

    assert process(found, 7).host is None
    assert any("different hosts" in note for note in found.notes)


def test_a_tables_error_file_joins_a_rank_with_its_run_folder() -> None:
    text = table(host="n7").replace(
        "error_file: <N/A>\n  traceback : Signal",
        "error_file: /tmp/x/r_0/attempt_0/2/error.json\n  traceback : Signal",
    )

    found = read(document(text), document(TRACEBACK, "x/r_0/attempt_0/2/stderr.log"))

    rank = process(found, 2)
    assert (rank.run, rank.local_rank, rank.host, rank.pids) == ("r_0", 2, "n7", (102932,))


def test_a_tables_host_that_is_none_of_the_jobs_nodes_names_none() -> None:
    console = document(
        "".join(f"3: {line}\n" for line in table(host="bigbox").splitlines())
        + "3: slurmstepd-n4: error: x\n"
    )
    environment = document(
        "SLURM_SCRIPT_CONTEXT=epilog_slurmd\nSLURM_JOB_ID=7\nSLURM_NODELIST=n[1-4]\n", "epilog.txt"
    )

    assert process(read(console, environment), 2).host == "n4"


def test_a_hosts_short_and_full_name_are_one_and_the_short_one_is_shown() -> None:
    full = "".join(f"3: {each}\n" for each in table(host="n4.cluster").split("\n"))

    found = read(document(full + "srun: error: n4: tasks 3: Killed\n"))

    assert process(found, 2).host == "n4"


def test_local_ranks_of_two_agents_stay_apart() -> None:
    found = read(
        document(TRACEBACK, "logs/a/attempt_0/0/stderr.log"),
        document(TRACEBACK.replace("x", "y"), "logs/b/attempt_0/0/stderr.log"),
    )

    assert {(each.run, each.local_rank) for each in found.runs[0].roster} == {("a", 0), ("b", 0)}


def test_run_folders_tell_the_attempts() -> None:
    found = read(
        document(TRACEBACK, "logs/a/attempt_0/0/stderr.log"),
        document("step 7\n", "logs/a/attempt_1/0/stdout.log"),
    )

    assert [(run.attempt, run.progressed) for run in found.runs] == [(0, False), (1, True)]


def test_the_documents_order_changes_nothing() -> None:
    documents = (
        document(CONSOLE + "srun: error: n4: task 3: Killed\n"),
        document(TRACEBACK, "logs/a/attempt_0/0/stderr.log"),
        document(table(host="n7"), "n7.out"),
    )

    assert read(*documents) == read(*reversed(documents))


def test_no_evidence_tells_nothing() -> None:
    found = read()

    assert (found.jobs, found.hosts, found.outputs) == (frozenset(), frozenset(), 0)


KILLED = "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n"  # fmt: skip


def test_on_one_node_spawns_index_is_the_rank() -> None:
    assert process(read(document(KILLED)), 1).local_rank == 1


def test_on_several_nodes_spawns_index_is_no_rank() -> None:
    epilog = document(
        "SLURM_SCRIPT_CONTEXT=epilog_slurmd\nSLURM_JOB_ID=7\nSLURM_NODELIST=n[1-2]\n", "epilog.txt"
    )

    assert all(each.rank is None for each in read(document(KILLED), epilog).runs[0].roster)


def test_mpirun_places_the_rank_that_it_names() -> None:
    found = read(
        document(
            "mpirun noticed that process rank 3 with PID 4711 on node n2 exited on signal 9 (Killed).\n"
        )
    )

    assert (process(found, 3).host, process(found, 3).pids) == ("n2", (4711,))


def test_agents_that_neither_label_nor_pid_tells_apart_are_not_made_one() -> None:
    failed = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 2 (pid: {pid}) of binary: python\n"  # fmt: skip
    other = table(host="n2", rank=10).replace("102932", "102942").replace("102933", "102943")

    found = read(
        document(failed.format(pid=102932) + table(host="n1") + failed.format(pid=102942) + other)
    )

    assert [(process(found, rank).host, process(found, rank).pids) for rank in (2, 10)] == [
        ("n1", (102932,)),
        ("n2", (102942,)),
    ]


def test_an_only_agent_without_a_pid_gives_its_ranks_to_their_prefixes() -> None:
    console = (
        "INFO:torch.distributed.elastic.agent.server.api:" + RESULT.replace("count=1", "count=0")
        + "[default1]:step 1\n"
    )  # fmt: skip

    assert process(read(document(console)), 3).lines == 1


def labelled(text: str, task: int) -> str:
    return "".join(f"{task}: {each}\n" for each in text.splitlines())


def test_an_agents_ranks_are_consecutive_so_one_tells_the_others() -> None:
    console = labelled(table(host="n2", rank=6), 1) + "1: [default0]:step 1\n"

    assert (process(read(document(console)), 4).local_rank, process(read(document(console)), 4).host) == (0, "n2")  # fmt: skip


def test_ranks_that_are_not_consecutive_tell_nothing_of_others() -> None:
    console = "1: [default0]:[rank4]: a\n1: [default1]:[rank9]: a\n1: [default2]: step 1\n"

    assert {each.local_rank: each.rank for each in read(document(console)).runs[0].roster} == {
        0: 4,
        1: 9,
        2: None,
    }


def named_folder(run: str) -> str:
    return table(host="n1").replace(
        "error_file: <N/A>\n  traceback : Signal",
        f"error_file: /tmp/x/{run}/attempt_0/2/error.json\n  traceback : Signal",
    )


def test_the_last_run_folder_is_the_last_agents() -> None:
    console = labelled(named_folder("r_a"), 0) + "1: [default0]:step 1\n"
    epilog = document(
        "SLURM_SCRIPT_CONTEXT=epilog_slurmd\nSLURM_JOB_ID=7\nSLURM_NODELIST=n[1-2]\n", "epilog.txt"
    )
    files = [
        document(TRACEBACK, "x/r_a/attempt_0/2/stderr.log"),
        document(TRACEBACK, "x/r_b/attempt_0/0/stderr.log"),
    ]

    joined = read(document(console), epilog, *files)
    unknown = read(document(console), *files)

    assert {each.task for each in joined.runs[0].roster if each.run == "r_b"} == {1}
    assert {each.task for each in unknown.runs[0].roster if each.run == "r_b"} == {None}


def test_a_rank_that_says_who_it_is_takes_part() -> None:
    text = "".join(
        f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/2\n" for rank in (0, 1)
    )

    (run,) = read(document(text)).runs

    assert [each.rank for each in run.roster] == [0, 1]
    assert run.expected_ranks == 2


def test_srun_on_a_node_that_is_not_the_jobs_speaks_of_a_quoted_job_where_work_follows() -> None:
    quoted = made.task_ended("c9", 2, "Out Of Memory")
    accounting = made.accounting("FAILED")

    for after, kept in ((made.WORK, 1), ([], 2)):
        console = made.console(quoted, after, made.task_ended("c1", 0))
        (run,) = told(Case((console, accounting))).runs

        assert sum(isinstance(each.event, TaskEnd) for each in run.happened) == kept


class Counted(tuple[str, ...]):
    """Nodes that count how often all of them are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[str]:
        Counted.looks += 1
        return super().__iter__()


def test_the_jobs_nodes_are_not_looked_through_for_each_document() -> None:
    documents = [document(f"step {number}\n", name=f"{number}.out") for number in range(50)]
    with_slurms_names(read_documents(documents), Counted(["n1", "n2"]))

    assert Counted.looks == 1
