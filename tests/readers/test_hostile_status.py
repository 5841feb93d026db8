"""A text of 64 KiB that was made to cost time costs little, whatever of Slurm's or Kubernetes' it feigns."""

from __future__ import annotations

from functools import partial

import pytest

from firstfault.readers import scontrol, slurm_log
from firstfault.readers.kind import kind
from firstfault.readers.kubernetes import looks_like_json_status, looks_like_status, pod_ends
from firstfault.readers.launch import launch_failure
from firstfault.readers.slurm_output import slurm_events
from tests.readers.logs import ZONE, document, line
from tests.readers.steps import steps
from tests.readers.test_kubernetes import DESCRIBED, EVENTS, PODS
from tests.readers.test_scontrol import JOB, NODE, SEFF

HEAD = "[2026-11-30T22:00:58.238] "
WORDS = [
    "a", " ", ".", ":", ": ", "/", "[", "(", "0", "0-", "0-9,", "n[0-9],", "a=", " A=", "A=a ", "\n", "\n A=",
    "srun: error: ", "srun: error: Task launch for StepId=1.", "srun: error: task 1", "srun: StepId=1.0 tasks 0",
    "srun: StepId=1.0 tasks 0-9,", "srun: launch/slurm: a: ", "srun: First task exited ", "slurmstepd-a",
    "slurmstepd: error: ", "slurmstepd: error: execve(): ", "slurmstepd: error: execve(): bad interpreter(",
    "slurmstepd: error: couldn't chdir to `", "slurmstepd: error: spank: required plugin ", "bash: line 1: ",
    "bash: line 1: a: ", "sh: 1: a", "sh: a: b: bad interpreter", "slurm_script: ", " slurm_script: line 1: a: b",
    "env: a", "env: 'a", "*** JOB 1 ON a ", "*** STEP 1.0 STEPD TERMINATED ON a AT ", "*** JOB 1 ON a CANCELLED AT ",
    "StepId=1.0 exceeded memory limit (1 > ", "Job 1 ", "JobId=1", "JobId=1_", "JobId=1_[1,", "JobId=1_1(1) ",
    "preempted JobId=1 ", "due to failure of node ", "Nodes n[1-9] not responding, ", "Killing JobId=1 on failed node ",
    "[1.0] error: ", "[1.0] task 0 (1) exited. ", "prolog_slurmctld JobId=1 prolog exit status ", "slurmctld[1]: ",
    "a slurmctld[1]: ", "Name: a", "  Warning  a  a  a  ", "  a:\n", "    State: ", "      Reason: a\n", "Warning  a  pod/a  ",
    "a  a  Warning  ", "NAME READY STATUS RESTARTS AGE\n", "JobId=1 JobName=", "NodeName=a ", "Reason=a ", "Reason=a [a@", "State=A",
    "Job ID: 1\n", "State: A by 1 (exit code ", '{"kind": "Pod", ', '"apiVersion"',
]  # fmt: skip
TEXTS = [(word * (65_536 // len(word) + 1))[:65_535] + "\x01" for word in WORDS]
# Above what the readers run for a text of nothing but line ends, far below what looking at a text
# again from each of its places would run.
STEPS_A_BYTE = 40


def of_slurms_lines(text: str) -> None:
    launch_failure(line(text))
    launch_failure(line(HEAD + "error: " + text))
    slurm_events(line(text), ZONE)


def of_slurms_log(text: str) -> None:
    list(slurm_log.slurm_notes(document(HEAD + text), ZONE))
    slurm_log.looks_like_slurm_log(text)


def of_scontrol(text: str) -> None:
    for head in (JOB[:200], NODE[:120], SEFF[:120], ""):
        scontrol.parse_jobs(head + text)
        scontrol.parse_seff(head + text)
        list(scontrol.node_notes(document(head + text)))
        scontrol.looks_like_scontrol_job(head + text)
        scontrol.looks_like_scontrol_node(head + text)
        scontrol.looks_like_seff(head + text)


def of_kubernetes(text: str) -> None:
    for head in (DESCRIBED[:400], PODS[:60], EVENTS[:60], "{"):
        list(pod_ends(document(head + text)))
        looks_like_status(head + text)
        looks_like_json_status(head + text)


def of_its_kind(text: str) -> None:
    kind(document(text))


# How often each reads the text.
READERS = {
    of_slurms_lines: 3,
    of_slurms_log: 2,
    of_scontrol: 4,
    of_kubernetes: 4,
    of_its_kind: 1,
}


@pytest.mark.parametrize("text", TEXTS, ids=[repr(word[:24]) for word in WORDS])
def test_a_hostile_text_is_gone_through_a_few_times_at_most(text: str) -> None:
    for read, times in READERS.items():
        # It raises above that; `tests.bench.hostile` tells what the patterns cost.
        steps(partial(read, text), STEPS_A_BYTE * times * len(text))
