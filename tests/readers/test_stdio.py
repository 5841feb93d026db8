"""Where a job's and its steps' output went."""

from __future__ import annotations

import pytest

from firstfault.model.slurm import JobFacts, StepFacts
from firstfault.readers.stdio import asked_for, with_paths


@pytest.mark.parametrize(
    ("line", "stdout", "stderr"),
    [
        ("srun -o s-%j-%t.out sh -c kill -9 $$", "s-%j-%t.out", None),
        ("/usr/bin/srun --label -K1 -n 4 -oout -eerr torchrun", "out", "err"),
        ("srun --output=a --error b --mem 10 ./x", "a", "b"),
        ("srun -N2 --overlap --ntasks 4 -u -o %x/%j ./x", "%x/%j", None),
        ("srun python train.py -o model.pt", None, None),
        ("srun -l -- python -o x", None, None),
        ("sbatch -o x.out job.sh", None, None),
        ("srun -o", None, None),
        ("", None, None),
    ],
)
def test_the_output_is_what_srun_was_told(
    line: str, stdout: str | None, stderr: str | None
) -> None:
    assert asked_for(line) == (stdout, stderr)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("slurm-%A_%a.out", "/home/a/slurm-7_3.out"),
        ("%j", "/home/a/12"),
        ("/scratch/%u/%x-%5j.log", "/scratch/alice/train-00012.log"),
        ("%b%%", "/home/a/3%"),
        ("%J", "/home/a/12"),
        ("none", None),
        ("/dev/null", None),
        ("0", None),
        (r"\%j", None),
        ("%q", "/home/a/%q"),
    ],
)
def test_a_jobs_pattern_becomes_a_path(pattern: str, path: str | None) -> None:
    job = JobFacts(
        id="7_3", raw_id="12", name="train", user="alice", work_dir="/home/a", stdout=pattern
    )

    assert with_paths(job).stdout == path


def test_a_steps_pattern_keeps_what_differs_from_task_to_task() -> None:
    step = StepFacts(id="2", stdout="%J/%s-%t.out", stderr="%N/err")
    found = with_paths(JobFacts(id="12", work_dir="/home/a", steps=(step,))).steps[0]

    assert (found.stdout, found.stderr) == ("/home/a/12.2/2-%t.out", "/home/a/%N/err")


def test_without_a_working_directory_a_relative_path_is_not_known() -> None:
    assert with_paths(JobFacts(id="12", stdout="a.out")).stdout is None
