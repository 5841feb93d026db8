"""What could not be started, in the words of Slurm 20.11 to 26.05 and of the shells.

Recorded from a real Slurm 22.05.8 with other names, or built from the programs' format strings
(src/srun, src/api/step_launch.c, src/sbatch, src/slurmd/slurmstepd/task.c; bash, dash; pyxis).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.model.event import LaunchFailure
from firstfault.model.line import Speaker
from firstfault.readers.launch import WORDS, launch_failure
from tests.readers.logs import line


def failure(text: str, speaker: Speaker | None = None) -> LaunchFailure:
    found = launch_failure(line(text, speaker))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "what", "host", "program"),
    [
        ("slurmstepd: error: execve(): torchrunn: No such file or directory", "execve", None, "torchrunn"),
        ("slurmstepd-n2: error: execve(): /home/eve/./nox: Permission denied", "execve", "n2", "/home/eve/./nox"),
        ("[2026-03-25T10:34:07.530] error: execve(): nox: Exec format error", "execve", None, "nox"),
        ("slurmstepd-n3: error: execve(): bad interpreter(/bin/bashh): No such file or directory", "interpreter", "n3", "/bin/bashh"),
        ("slurmstepd: error: Could not open stdout file /logs/x.out: No such file or directory", "output", None, "/logs/x.out"),
        ("slurmstepd: error: TaskProlog failed status=256", "prolog", None, None),
        ("slurmstepd: error: pyxis: couldn't start container", "container", None, None),
        ("slurmstepd-n1: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1", "container", "n1", None),
        ("slurmstepd: error: spank: required plugin spank_pyxis.so: init_post_opt() failed with rc=-1", "container", None, None),
        ("srun: error: Task launch for StepId=12.0 failed on node n7: Invalid job credential", "task", "n7", None),
        ("srun: error: Task launch for 12.0 failed on node n7: Communication connection failure", "task", "n7", None),
        ("srun: error: Application launch failed: Invalid job credential", "task", None, None),
        ("srun: error: launch/slurm: launch_p_step_launch: Application launch failed: Socket timed out", "task", None, None),
        ("srun: error: task 3 launch failed: Unspecified error", "task", None, None),
        ("srun: error: timeout waiting for task launch, started 0 of 2 tasks", "task", None, None),
        ("srun: error: Unable to create step for job 12: More processors requested than permitted", "step", None, None),
        ("srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.", "step", None, None),
        ("srun: unrecognized option '--gpus-each=4'", "step", None, None),
        ("srun: invalid option -- 'y'", "step", None, None),
        ("srun: option '--gpus' requires an argument", "step", None, None),
        ("srun: error: Only allocated 1 nodes asked for 3", "step", None, None),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", "submission", None, None),
        ("sbatch: fatal: Could not establish a configuration source", "submission", None, None),
        ("srun: error: Unable to allocate resources: Requested node configuration is not available", "submission", None, None),
        ("salloc: error: Job submit/allocate failed: Invalid account", "submission", None, None),
    ],
)  # fmt: skip
def test_slurm_says_what_it_could_not_start(
    text: str, what: str, host: str | None, program: str | None
) -> None:
    found = failure(text)

    assert (found.what, found.host, found.program) == (what, host, program)
    assert found.fatal


def test_the_step_and_the_task_are_named() -> None:
    launch = failure("srun: error: Task launch for StepId=4242.1 failed on node n7: Timed out")
    task = failure("srun: error: task 3 launch failed: Unspecified error")

    assert (launch.job, launch.step) == ("4242", "1")
    assert task.tasks == (3,)


@pytest.mark.parametrize(
    ("text", "what", "program", "code"),
    [
        ("/var/spool/slurmd/job00012/slurm_script: line 5: conda: command not found", "command", "conda", 127),
        ("/var/spool/slurm/d/job12/slurm_script: line 5: exec: torchrun: not found", "command", "torchrun", 127),
        ("bash: line 1: torchrun: command not found", "command", "torchrun", 127),
        ("bash: torchrun: command not found", "command", "torchrun", 127),
        ("sh: 1: torchrun: not found", "command", "torchrun", 127),
        ("/bin/sh: 1: torchrun: not found", "command", "torchrun", 127),
        ("run.sh: line 3: ./go: Permission denied", "not-executable", "./go", 126),
        ("slurm_script: line 3: ./go: cannot execute binary file: Exec format error", "not-executable", "./go", 126),
        ("slurm_script: line 3: ./go: cannot execute: required file not found", "execve", "./go", 127),
        ("slurm_script: line 3: ./go: /opt/py: bad interpreter: No such file or directory", "interpreter", "/opt/py", 126),
        ("/usr/bin/env: ‘python3.9’: No such file or directory", "command", "python3.9", 127),
    ],
)  # fmt: skip
def test_a_shell_says_what_it_did_not_find_and_goes_on(
    text: str, what: str, program: str, code: int
) -> None:
    found = failure(text)

    assert (found.what, found.program, found.code, found.fatal) == (what, program, code, False)


def test_a_missing_working_directory_is_gone_around() -> None:
    found = failure(
        "slurmstepd: error: couldn't chdir to `/scratch/eve': No such file or directory: going to "
        "/tmp instead"
    )

    assert (found.what, found.program, found.fatal) == ("directory", "/scratch/eve", False)


def test_a_labelled_line_is_never_sruns() -> None:
    text = "srun: error: Unable to create step for job 12: Invalid account"

    assert launch_failure(line(text, Speaker(task=0))) is None
    assert failure("slurmstepd: error: execve(): nox: x", Speaker(task=0)).what == "execve"


@pytest.mark.parametrize(
    "text",
    [
        "srun: Job 12 step creation temporarily disabled, retrying (Requested nodes are busy)",
        "FileNotFoundError: [Errno 2] No such file or directory: 'x.json'",
        "INFO page not found",
        "cache key model: not found",
        "PermissionError: [Errno 13] Permission denied: '/x'",
        "execve(): said the program",
        "launching 8 workers failed on none",
        "slurm_script: line 5: out/x.log: No such file or directory, said rank 3",
        "slurmstepd: error: pyxis: importing docker image",
    ],
)
def test_other_lines_are_no_failures_to_start(text: str) -> None:
    assert launch_failure(line(text)) is None


@given(
    st.lists(
        st.sampled_from(
            [*WORDS, "srun: error: ", "slurmstepd: error: ", "sh: ", ": ", "x", "[", "1"]
        ),
        max_size=30,
    )
)
def test_any_line_is_read_without_an_error(parts: list[str]) -> None:
    launch_failure(line("".join(parts)))
