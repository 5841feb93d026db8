"""sacct and pyslurm, on the same jobs of the same real cluster, give the same facts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec

from firstfault.model.slurm import ExitCode, JobFacts
from firstfault.readers.pyslurm_job import job_facts
from firstfault.readers.sacct import parse_records, parse_text
from firstfault.readers.stdio import with_paths
from firstfault.slurm import pyslurm_worker
from firstfault.slurm.facts import with_all_gpus

RECORDED = Path(__file__).parent / "recorded"
DELIMITER = "\x1f0123456789abcdef\x1f"


def of_sacct(name: str = "jobs") -> list[JobFacts]:
    text = (RECORDED / f"sacct-26.05.5-{name}.txt").read_text("utf-8")
    return [with_paths(facts) for facts in parse_records(text, DELIMITER)]


def of_pyslurm(name: str = "answer") -> list[JobFacts]:
    answer = json.loads((RECORDED / f"pyslurm-26.05.5-{name}.json").read_text("utf-8"))
    return [with_paths(job_facts(job)) for job in answer["jobs"]]


def less_128(code: ExitCode | None) -> ExitCode | None:
    """As pyslurm tells it."""
    return None if code is None else ExitCode(code.code % 128, code.signal)


def comparable(facts: JobFacts) -> JobFacts:
    steps = tuple(
        msgspec.structs.replace(step, exit_code=less_128(step.exit_code)) for step in facts.steps
    )
    return msgspec.structs.replace(
        facts,
        exit_code=less_128(facts.exit_code),
        steps=tuple(sorted(steps, key=lambda step: step.id)),
    )


def test_both_tell_the_same_of_every_job_that_both_tell_of() -> None:
    # sacct tells of a requeued job's earlier ends first.
    last = {facts.raw_id: comparable(facts) for facts in of_sacct()}
    bound = {facts.raw_id: comparable(facts) for facts in of_pyslurm()}

    assert len(bound) == 8
    assert {job: last[job] for job in bound} == bound


def test_sacct_tells_of_a_requeued_jobs_earlier_end_and_pyslurm_does_not() -> None:
    ends = [facts.state for facts in of_sacct() if facts.raw_id == "14385006"]

    assert ends == ["REQUEUED", "CANCELLED"]
    assert sum(facts.raw_id == "14385006" for facts in of_pyslurm()) == 1


def test_a_name_with_a_newline_and_delimiters_is_read_whole() -> None:
    named = {facts.name for facts in of_sacct() if facts.raw_id == "14385000"}

    assert named == {"new\nline|x"}


def test_tasks_and_components_have_the_names_that_people_know() -> None:
    ids = {facts.raw_id: facts.id for facts in of_sacct()}

    assert ids["14385008"] == "14385001_0"
    assert ids["14385001"] == "14385001_2"
    assert (ids["14385002"], ids["14385003"]) == ("14385002+0", "14385002+1")


def test_the_output_of_a_job_and_of_a_step_are_told_with_what_differs_by_task() -> None:
    (job,) = (facts for facts in of_sacct() if facts.raw_id == "14385004")
    paths = {step.id: step.stdout for step in job.steps}

    assert job.stdout == "/tmp/w/a-14385004.txt"
    assert paths["0"] == "/tmp/w/s-14385004-%t.out"


def test_both_tell_the_same_of_jobs_on_gpus() -> None:
    """The heterogeneous job's leader has none; as pyslurm tells it, not even an offset."""
    told, bound = with_all_gpus(of_sacct("gpus")), with_all_gpus(of_pyslurm("gpus"))
    by_sacct = {facts.raw_id: comparable(facts) for facts in told}
    by_pyslurm = {facts.raw_id: comparable(facts) for facts in bound}
    gpus = {facts.id: facts.gpus for facts in told}

    # sacct was asked for an array's number, and gave its tasks.
    assert by_pyslurm == {job: by_sacct[job] for job in by_sacct if job != "21957009"}
    assert [gpus[f"2195700{number}"] for number in range(6)] == [None, 2, 1, 2, 3, 1]
    assert (gpus["21957006_0"], gpus["21957006_1"]) == (1, 1)
    assert (gpus["21957007+0"], gpus["21957007+1"]) == (2, 2)


def test_both_tell_the_same_of_gpus() -> None:
    """As pyslurm's types have it: by name, a number or a thing with a count."""
    text = "JobID|AllocTRES\n7|cpu=8,gres/gpu:a100=4,gres/gpu=4,node=2\n"
    (of_text,) = parse_text(text)

    def told(gres: dict[str, object]) -> int | None:
        job = SimpleNamespace(id=7, allocated_tres=SimpleNamespace(gres=gres))
        return job_facts({"id": 7, "gpus": pyslurm_worker._gpus(job)}).gpus

    thing = SimpleNamespace(count=4)
    assert of_text.gpus == told({"gpu": thing, "gpu:a100": thing}) == told({"gpu": 4}) == 4
    assert told({"gpu:a100": 2, "gpu:h100": 2, "shard": 8}) == 4
    assert told({}) is None
    assert job_facts({"id": 7, "gpus": pyslurm_worker._gpus(SimpleNamespace(id=7))}).gpus is None
