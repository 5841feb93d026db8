"""Which ends are wanted: from the store, from Slurm, from the configuration."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from firstfault.app.inquiry import Inquiry
from firstfault.app.wanted import LATE_S, Decisions
from firstfault.config import Ends
from firstfault.intake.batch import StoreAway
from firstfault.intake.questions import LATER, NO, YES, Asked, Question, Wanted
from firstfault.model.slurm import ExitCode, JobFacts, StepFacts
from firstfault.slurm.facts import FactsError
from firstfault.store import evidence
from firstfault.store.database import Database, open_store
from tests.intake.records import ENDED_AT
from tests.slurm.fake import FakeSlurm
from tests.store.incoming import incoming

FACTS = JobFacts(
    id="12",
    cluster="testcluster",
    uid=1001,
    state="COMPLETED",
    exit_code=ExitCode(0, 0),
    started_at=ENDED_AT - dt.timedelta(hours=1),
    ended_at=ENDED_AT - dt.timedelta(seconds=2),
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    own = open_store(f"sqlite:///{tmp_path}/ff.db")
    yield own
    own.close()


class Asking:
    """A daemon's answers at a time that the test sets; a worker asks ``slurm``."""

    def __init__(self, database: Database, *, asked: bool = True) -> None:
        self.slurm = FakeSlurm()
        self.at = ENDED_AT + dt.timedelta(seconds=5)
        self.ends = Ends()
        self.stop = threading.Event()
        inquiry = Inquiry(self.slurm.facts, lambda: None, 2) if asked else None
        self.decisions = Decisions(database, inquiry, lambda: self.ends, lambda: self.at)
        self.worker = threading.Thread(target=self._work, args=(inquiry,))
        self.worker.start()

    def _work(self, inquiry: Inquiry | None) -> None:
        while inquiry is not None and not self.stop.wait(0.01):
            with suppress(FactsError):
                inquiry.ask()

    def __call__(self, node: str = "n3", **more: object) -> Wanted:
        fields: dict[str, object] = {"id": f"12-{node}-x", "job": "12", "ended_at": ENDED_AT,
                                     "nodes": "n[1-4]"}  # fmt: skip
        asked = Asked(**(fields | more))  # type: ignore[arg-type]
        question = Question("firstfault.wanted/1", node, (asked,), "testcluster")
        return self.decisions.answer(question).answers[asked.id]


@pytest.fixture
def ask(database: Database) -> Iterator[Asking]:
    own = Asking(database)
    yield own
    own.stop.set()
    own.worker.join()


def known(ask: Asking, **changes: object) -> None:
    fields = {name: getattr(FACTS, name) for name in FACTS.__struct_fields__}
    ask.slurm.known["12"] = [JobFacts(**(fields | changes))]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, NO),
        ({"state": "TIMEOUT"}, YES),
        ({"state": "PREEMPTED"}, YES),
        ({"state": "NODE_FAIL"}, YES),
        ({"state": "CANCELLED", "by_uid": 1001}, YES),
        ({"state": "RUNNING", "ended_at": None}, LATER),
        ({"ended_at": ENDED_AT - dt.timedelta(hours=2)}, LATER),
        ({"cluster": "another"}, LATER),
        ({"derived_exit_code": ExitCode(1, 0)}, YES),
        ({"steps": (StepFacts("0", state="RUNNING"),)}, LATER),
    ],
)
def test_slurm_tells_what_the_node_cannot_see(
    ask: Asking, changes: dict[str, object], wanted: str
) -> None:
    known(ask, **changes)

    assert ask().wanted == wanted


def test_an_end_that_is_never_reported_is_not_wanted(ask: Asking) -> None:
    ask.ends = Ends(timeout="never")
    known(ask, state="TIMEOUT")

    assert ask().wanted == NO


def test_where_slurm_is_not_asked_every_end_is_wanted(database: Database) -> None:
    ask = Asking(database, asked=False)

    assert ask().wanted == YES
    ask.worker.join()


def test_another_nodes_failure_tells_before_slurm_does(ask: Asking, database: Database) -> None:
    evidence.keep(database, [incoming("n1")], ask.at)

    assert ask().wanted == YES
    assert ask(ended_at=ENDED_AT + dt.timedelta(hours=1)).wanted == LATER
    assert ask(job="13").wanted == LATER


def test_another_nodes_clean_record_tells_nothing(ask: Asking, database: Database) -> None:
    evidence.keep(database, [incoming("n1", suspicious=False)], ask.at)

    assert ask().wanted == LATER


def test_what_is_stored_is_not_wanted_again(ask: Asking, database: Database) -> None:
    stored = incoming("n3")
    evidence.keep(database, [stored], ask.at)

    assert ask(id=stored.record_id).wanted == NO


def test_while_slurm_does_not_answer_it_is_later_and_soon_told(ask: Asking) -> None:
    ask.slurm.down = True
    begun = time.monotonic()

    assert ask().wanted == LATER
    assert time.monotonic() - begun < 10


def test_many_questions_are_one_to_slurm(ask: Asking) -> None:
    known(ask)
    asked = tuple(
        Asked(id=f"{job}", job=f"{job}", ended_at=ENDED_AT, nodes=None) for job in range(1, 401)
    )

    answers = ask.decisions.answer(Question("firstfault.wanted/1", "n3", asked, "testcluster"))
    again = ask.decisions.answer(Question("firstfault.wanted/1", "n4", asked, "testcluster"))

    assert len(ask.slurm.asked) == 1
    assert answers.answers["12"].wanted == NO
    assert {wanted.wanted for id_, wanted in answers.answers.items() if id_ != "12"} == {LATER}
    assert again.answers == answers.answers
    assert answers.ask_again_s == 10


def test_more_askers_than_may_wait_are_told_at_once(ask: Asking) -> None:
    ask.slurm.down = True
    took: list[float] = []

    def one(number: int) -> None:
        begun = time.monotonic()
        ask(job=f"{100 + number}")
        took.append(time.monotonic() - begun)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(seconds >= 3 for seconds in took) == 2


def test_paths_that_slurm_alone_knows_are_given(ask: Asking) -> None:
    steps = (StepFacts("0", state="TIMEOUT", stdout="/home/u/step-%N.out", stderr="relative"),
             StepFacts("1", state="TIMEOUT", stdout="/dev/null", stderr="/home/u/job.out"),
             StepFacts("2", state="TIMEOUT", stdout="/home/u/%t.out"))  # fmt: skip
    known(ask, state="TIMEOUT", stdout="/home/u/job.out", steps=steps)

    assert ask().paths == ("/home/u/job.out", "/home/u/step-n3.out")


def test_two_others_read_what_all_see_where_the_first_two_are_late(ask: Asking) -> None:
    known(ask, state="TIMEOUT")
    first = ask("n3")
    ask.at += dt.timedelta(seconds=LATE_S)

    shared = {node: ask(node).reads_shared for node in ("n2", "n4", "n3", "n1", "n4")}

    assert not first.reads_shared
    assert shared == {"n2": False, "n4": False, "n3": True, "n1": False}


def test_nobody_stands_in_where_one_of_the_first_two_has_reported(
    ask: Asking, database: Database
) -> None:
    known(ask, state="TIMEOUT")
    evidence.keep(database, [incoming("n2")], ask.at)
    ask.at += dt.timedelta(seconds=LATE_S)

    assert ask("n4") == Wanted(YES)


def test_a_store_that_is_away_is_said(ask: Asking, database: Database, tmp_path: Path) -> None:
    database.close()
    (tmp_path / "ff.db").unlink()
    for rest in tmp_path.glob("ff.db-*"):
        rest.unlink()

    with pytest.raises(StoreAway, match="the store is away"):
        ask()
