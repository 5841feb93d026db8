"""Each row of the table of effects, with a real run or a made one that shows it."""

from __future__ import annotations

import re

import pytest

from firstfault.diagnosis import diagnose
from firstfault.faults import effects
from firstfault.faults.effects import WORDING, is_agents, is_launchers
from firstfault.model import verdict as v
from firstfault.model.event import Frame, Traceback
from firstfault.model.line import Place, Speaker
from firstfault.model.run import Happened
from tests.diagnosis import made
from tests.diagnosis.case_files import case

REAL = {
    "peer-lost": "exc",
    "waited": "hang",
    "ended-by-agent": "segv",
    "agent-stopped": "scancel",
    "step-ended": "scancel",
    "task-ended": "oom-4n",
    "launcher": "oom-4n",
}


def told_of(kind: str, verdict: v.Verdict) -> bool:
    return WORDING[kind].many in {each.what for each in verdict.consequences}


@pytest.mark.parametrize("kind", sorted(REAL))
def test_a_real_run_shows_the_effect(kind: str) -> None:
    assert told_of(kind, diagnose(case(REAL[kind])))


def test_sigterm_from_nobody_known_is_a_termination() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.table((0, 0, -11, 700), (1, 1, -15, 701))),
            made.task_ended("c1", 0),
        )
    )

    assert told_of("terminated", verdict)


def test_an_interrupted_program_was_told_to_stop() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised("KeyboardInterrupt"))),
            made.cancelled("JOB 500", "c1"),
        ),
        made.accounting("CANCELLED by 1001", "0:0"),
    )

    assert told_of("stopped", verdict)


def test_a_kill_after_the_time_limit_is_part_of_the_jobs_end() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.cancelled("STEP 500.0", "c1", made.LIMIT),
                made.agent_stopped(),
                made.noticed(0, 700, -9),
                made.table((0, 0, -9, 700)),
            )
        ),
        made.accounting("TIMEOUT", "0:0"),
    )

    assert verdict.cause.id == "slurm.time-limit"
    assert told_of("teardown", verdict)


def test_a_rank_without_words_beside_one_with_a_reason_is_said() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised("KeyError: 'mask'")),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700), (1, 1, 4, 701), errors={0: "KeyError: 'mask'"}),
            )
        )
    )

    assert told_of("unlogged", verdict)


def test_the_written_table_has_the_rows_that_have_words() -> None:
    rows = re.findall(r"^\| ([a-z-]+) \|", effects.__doc__ or "", re.MULTILINE)

    assert {row for row in rows if row != "kind"} == set(WORDING)


def traceback(kind: str, message: str, *files: str) -> Happened:
    frames = tuple(Frame(file, 1, "f") for file in files)
    event = Traceback(Place("slurm.out", 0, 1, ""), Speaker(), None, kind, message, frames)
    return Happened(event, None, "job output")


AGENT = "/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/agent/server/api.py"
RECORD = "/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py"


def test_an_agents_traceback_is_told_by_frames_that_only_an_agent_has() -> None:
    agent = traceback("ValueError", "x", "/opt/venv/bin/torchrun", AGENT).event
    rank = traceback("ValueError", "x", "/home/eve/run/loop.py", RECORD).event

    assert isinstance(agent, Traceback)
    assert isinstance(rank, Traceback)
    assert is_agents(agent)
    assert not is_agents(rank)


@pytest.mark.parametrize(
    ("kind", "message", "file", "report"),
    [
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "", AGENT, True),
        ("torch.distributed.DistNetworkError", "Broken pipe", AGENT, True),
        ("torch.distributed.DistNetworkError", "Broken pipe", "/home/eve/run/loop.py", False),
        ("ValueError", "bad backend", AGENT, False),
    ],
)
def test_a_launchers_report_is_told_from_its_own_failure(
    kind: str, message: str, file: str, report: bool
) -> None:
    assert is_launchers(traceback(kind, message, file)) is report
