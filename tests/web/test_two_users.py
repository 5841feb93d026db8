"""Two users on one node: what the kernel did to the one is not shown to the other, by any door."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import msgspec
import pytest
from starlette.requests import Request

from firstfault.app import listeners
from firstfault.app.accounting import NoSlurm
from firstfault.app.board import StoredBoard
from firstfault.app.explained import KeptReports
from firstfault.app.links import Links
from firstfault.app.workers import Bells, Parts
from firstfault.config import Config, Explain
from firstfault.model import verdict as v
from firstfault.model.board import NOBODY, Reader
from firstfault.model.slurm import JobFacts
from firstfault.slurm.facts import SlurmFacts
from firstfault.store import listing
from firstfault.store.database import Database, open_store
from firstfault.web.access import Identity
from firstfault.web.application import Sources, application, places
from firstfault.web.guard import Entrance
from tests.diagnosis.case_files import explain, files
from tests.store import fill
from tests.web import kept
from tests.web.asking import Client, asked

AT = dt.datetime(2026, 11, 30, 14, 20, tzinfo=dt.UTC)
READERS = {
    "owner": Reader("ada", "ada"),
    "coordinator": Reader("bob", "bob", accounts=("vision",)),
    "administrator": Reader("ops", "ops", administrator=True),
}
# The kernel killed a process of another user while the job ran.
SECRET = ("mariadbd", "UID:27", "3120")


class Named:
    note = ""

    async def identify(self, request: Request) -> Identity:
        return Identity(READERS.get(request.headers.get("x-test", ""), NOBODY))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    verdict = explain(files("made-host-oom-of-others"))
    assert all(word in v.encode(verdict).decode() for word in SECRET)
    job = msgspec.structs.replace(verdict.job, cluster="main", id="7133", user="ada")
    facts = JobFacts(
        id="7133",
        cluster="main",
        name="train",
        user="ada",
        account="vision",
        partition="gpu",
        state="FAILED",
        nodes="n[1-2]",
        started_at=AT - dt.timedelta(hours=1),
        ended_at=AT,
    )
    database = open_store(f"sqlite:///{tmp_path_factory.mktemp('store')}/ff.db")
    fill.failed(database, [(facts, 2, msgspec.structs.replace(verdict, job=job))])
    yield database
    database.close()


@pytest.fixture(scope="module")
def client(database: Database) -> Iterator[Client]:
    links = Links("https://faults.example.org/", "k" * 32, 1)
    slurm: SlurmFacts = NoSlurm()
    parts = Parts(Config(), database, slurm, {}, Bells(), links)
    sources = Sources(
        StoredBoard(database, clock=lambda: AT),
        lambda: True,
        None,
        lambda token: listeners.shared_report(parts, token),
    )
    with asked(application(places(sources), lambda: Entrance(Named()))) as client:
        yield client


DOORS = (
    "/jobs/main/7133",
    "/jobs/main/7133.json",
    "/failures",
    "/api/v1/failures",
    "/api/v1/failures.csv",
    "/api/v1/failures/main/7133",
    "/api/v1/failures/main/7133/verdict",
    "/api/v1/jobs/7133",
)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("who", ["owner", "coordinator"])
def test_who_is_no_administrator_is_shown_no_process_of_another_user(
    client: Client, who: str, door: str
) -> None:
    answer = client.get(door, headers={"x-test": who})

    assert answer.status_code == 200 and "7133" in answer.text
    assert [word for word in SECRET if word in answer.text] == []


def test_an_administrator_is_shown_the_line_as_it_is(client: Client) -> None:
    for door in ("/jobs/main/7133", "/jobs/main/7133.json", "/api/v1/failures/main/7133"):
        assert "mariadbd" in client.get(door, headers={"x-test": "administrator"}).text


def test_a_link_shows_what_the_owner_is_shown(client: Client, database: Database) -> None:
    links = Links("https://faults.example.org/", "k" * 32, 1)
    (stored,) = listing.current_verdicts(database, "7133", "main")
    link = links.signed(stored)
    assert link is not None

    answer = client.get(link.removeprefix("https://faults.example.org"))

    assert answer.status_code == 200 and "7133" in answer.text
    assert [word for word in SECRET if word in answer.text] == []


def test_a_link_to_a_kept_report_shows_no_process_of_another_user(database: Database) -> None:
    verdict = explain(files("made-host-oom-of-others"))
    name = "c0" * 16
    kept.put(database, name, "user ada", verdict)
    keeper = KeptReports(database, Explain(), lambda: kept.LINKS, kept.Clock())
    own = keeper.report(READERS["owner"], name)
    token = str(kept.LINKS.signed_explained(name)).rpartition("/")[2]
    parts = Parts(Config(), database, NoSlurm(), {}, Bells(), kept.LINKS)

    shown = listeners.shared_report(parts, token, keeper)

    # Who sent the log has it.
    assert own is not None and "mariadbd" in v.encode(own.explained.verdict).decode()
    assert shown is not None and verdict.cause.id in shown
    assert [word for word in SECRET if word in shown] == []
