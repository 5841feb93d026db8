"""Reports that are kept: whose they are, for how long, how many, and what stands in the store."""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from firstfault.app.explained import MOST_BYTES, KeptReports
from firstfault.app.links import Links
from firstfault.app.retention import Retention
from firstfault.config import Config, Explain, Report
from firstfault.model import verdict as v
from firstfault.model.board import Reader
from firstfault.model.explained import Explained, NotKept
from firstfault.report.masking import use_site
from firstfault.store.database import open_store
from firstfault.store.schema import explained
from tests.web import boards
from tests.web.boards import ADMINISTRATOR, ALICE, BOB, STRANGER
from tests.web.kept import LINKS, VERDICT, Clock, keeping

DAY = dt.timedelta(days=1)
FOUND = Explained(VERDICT, ("cut.gz: the compressed data ends too early; left out",))

Kept = tuple[KeptReports, Clock]


@pytest.fixture
def kept(store_url: str) -> Iterator[Kept]:
    with keeping(store_url, Explain(keep_reports=3)) as made:
        yield made


def rows(url: str) -> int:
    with closing(open_store(url)) as database, database.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(explained)).scalar_one()


def test_what_is_kept_is_read_again_by_its_maker(kept: Kept) -> None:
    keeper, _ = kept
    made = keeper.keep(ALICE, FOUND, "train-7b")

    found = keeper.report(ALICE, made.id)

    assert found is not None
    assert (found.kept, found.explained) == (made, FOUND)
    assert re.fullmatch("[0-9a-f]{32}", made.id)
    assert (made.title, made.kept_by, made.cause) == ("train-7b", "alice", "gpu.ecc")
    assert (made.kept_at, made.kept_until) == (boards.NOW, boards.NOW + 30 * DAY)


def test_it_is_its_makers_and_the_administrators(kept: Kept) -> None:
    keeper, _ = kept
    made = keeper.keep(ALICE, FOUND, "a")
    machine = Reader("token ci", "alice")

    # Bob coordinates the account that her jobs are in.
    assert [keeper.report(each, made.id) is not None for each in (BOB, STRANGER)] == [False, False]
    assert [keeper.forget(each, made.id) for each in (BOB, STRANGER)] == [False, False]
    assert keeper.report(machine, made.id) is not None
    assert keeper.report(ADMINISTRATOR, made.id) is not None
    assert keeper.listed(ADMINISTRATOR).reports == ()
    assert keeper.forget(ADMINISTRATOR, made.id)
    assert keeper.report(ALICE, made.id) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Reader("token a", None, accounts=("x",)), Reader("token b", None, accounts=("x",))),
        (Reader("token alice", None, accounts=("x",)), ALICE),
        (Reader("mallory", "mallory"), Reader("mallory", None)),
    ],
)
def test_who_is_no_user_has_reports_of_their_own(kept: Kept, one: Reader, other: Reader) -> None:
    keeper, _ = kept
    made = keeper.keep(one, FOUND, "a")

    assert keeper.listed(one).reports == (made,)
    assert keeper.listed(other).reports == ()
    assert keeper.report(other, made.id) is None


@pytest.mark.parametrize("name", ["", "x", "0" * 32, "0" * 31 + "\x00", "%", "0" * 100_000])
def test_an_id_that_is_none_is_nobodys(kept: Kept, name: str) -> None:
    keeper, _ = kept
    keeper.keep(ALICE, FOUND, "a")

    assert keeper.report(ADMINISTRATOR, name) is None
    assert not keeper.forget(ADMINISTRATOR, name)


def test_lists_are_read_page_by_page_whatever_goes_meanwhile(store_url: str) -> None:
    with keeping(store_url) as (keeper, clock):
        made = []
        for number in range(7):
            clock.at = boards.NOW + (number // 3) * DAY  # several at one time
            made.append(keeper.keep(ALICE, FOUND, str(number)).id)
        first = keeper.listed(ALICE, limit=3)
        assert keeper.forget(ALICE, first.reports[-1].id)
        seen = [each.id for each in first.reports]
        page = first.next
        while page is not None:
            found = keeper.listed(ALICE, page, limit=2)
            seen += [each.id for each in found.reports]
            page = found.next

    assert sorted(seen) == sorted(made)
    assert seen[0] == made[-1]


@pytest.mark.parametrize(
    "page", ["", "1", "x-" + "0" * 32, "9" * 17 + "-" + "0" * 31, "9" * 18 + "-" + "0" * 32]
)
def test_a_page_that_is_none_is_refused(kept: Kept, page: str) -> None:
    with pytest.raises(ValueError, match="not a page"):
        kept[0].listed(ALICE, page)


def test_a_page_beyond_all_time_is_no_fault(kept: Kept) -> None:
    assert kept[0].listed(ALICE, "9" * 17 + "-" + "f" * 32).reports == ()


def test_who_keeps_as_many_as_they_may_is_told_what_to_do(kept: Kept) -> None:
    keeper, clock = kept
    made = [keeper.keep(ALICE, FOUND, str(number)) for number in range(3)]
    keeper.check_room(BOB)

    for ask in (lambda: keeper.check_room(ALICE), lambda: keeper.keep(ALICE, FOUND, "x")):
        with pytest.raises(NotKept, match=r"You keep 3 reports already.*Forget one"):
            ask()

    assert keeper.forget(ALICE, made[0].id)
    keeper.check_room(ALICE)
    keeper.keep(ALICE, FOUND, "x")
    clock.at += 31 * DAY  # what is past its time takes no room
    keeper.check_room(ALICE)


def test_two_who_keep_at_once_keep_no_more_than_they_may(store_url: str) -> None:
    settings = Explain(keep_reports=5)
    refused = []

    def some(keeper: KeptReports) -> None:
        for number in range(4):
            try:
                keeper.keep(ALICE, FOUND, str(number))
            except NotKept:
                refused.append(number)

    with keeping(store_url, settings) as (one, _), keeping(store_url, settings) as (other, _):
        threads = [threading.Thread(target=some, args=(each,)) for each in (one, other)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(one.listed(ALICE).reports) == 5

    assert len(refused) == 3


def test_a_verdict_that_is_too_large_is_not_kept(kept: Kept) -> None:
    large = msgspec.structs.replace(VERDICT, notes=("x" * 1000,) * (MOST_BYTES // 1000))
    with pytest.raises(NotKept, match=r"larger than 1 MiB, .*print the page"):
        kept[0].keep(ALICE, Explained(large), "a")

    assert kept[0].listed(ALICE).reports == ()


def test_what_no_database_holds_is_spelled_out(kept: Kept) -> None:
    cause = v.Cause("unknown", "a\x00b\ud83d", "either", "unknown")
    made = kept[0].keep(ALICE, Explained(v.Verdict(v.Job(), cause), ("\x00",)), "t\x00\ud83d")

    found = kept[0].report(ALICE, made.id)

    assert found is not None
    assert found.explained.verdict.cause.title == "a\\0b\\ud83d"
    assert made.title == "t\\0\\ud83d"


def test_secrets_are_masked_as_it_is_kept_and_by_todays_patterns_as_it_is_read(
    store_url: str,
) -> None:
    token = "ghp_" + "a1B2" * 9
    cause = v.Cause("unknown", f"{token} and SITE-12345", "either", "unknown")
    with keeping(store_url) as (keeper, _):
        told = Explained(v.Verdict(v.Job(), cause), (f"{token}.log: left out",))
        made = keeper.keep(ALICE, told, f"{token} SITE-12345")
        with closing(open_store(store_url)) as database, database.reading() as connection:
            assert token not in str(connection.execute(sa.select(explained)).one())
        use_site([re.compile("SITE-[0-9]+")])
        try:
            found = keeper.report(ALICE, made.id)
            (listed,) = keeper.listed(ALICE).reports
        finally:
            use_site([])

    assert found is not None
    for text in (found.explained.verdict.cause.title, found.kept.title, listed.title):
        assert "SITE" not in text
        assert token not in text
    assert token not in found.explained.warnings[0]


def test_a_report_is_gone_at_its_time_and_retention_removes_it(
    store_url: str, tmp_path: Path
) -> None:
    with keeping(store_url) as (keeper, clock), closing(open_store(store_url)) as database:
        old = keeper.keep(ALICE, FOUND, "old")
        clock.at += 10 * DAY
        young = keeper.keep(ALICE, FOUND, "young")
        config = Config(report=Report(dir=str(tmp_path)))
        retention = Retention(config, database, threading.Event())

        assert retention.once(old.kept_until - dt.timedelta(seconds=1)) == 0
        clock.at = old.kept_until
        assert keeper.report(ALICE, old.id) is None
        assert keeper.shared(str(LINKS.signed_explained(old.id)).rpartition("/")[2]) is None
        assert keeper.listed(ALICE).reports == (young,)
        assert retention.once(old.kept_until) == 1
        assert rows(store_url) == 1

        off = msgspec.structs.replace(config, explain=Explain(keep_days=0))
        assert Retention(off, database, threading.Event()).once(clock.at) == 1
        assert rows(store_url) == 0


def test_many_reports_go_in_steps(store_url: str, tmp_path: Path) -> None:
    with keeping(store_url, Explain(keep_reports=1000)) as (keeper, clock):
        for number in range(250):
            keeper.keep(ALICE, FOUND, str(number))
        with closing(open_store(store_url)) as database:
            config = Config(report=Report(dir=str(tmp_path)))
            stop = threading.Event()

            assert Retention(config, database, stop).once(clock.at + 31 * DAY) == 250
            stop.set()
            keeper.keep(ALICE, FOUND, "x")
            assert Retention(config, database, stop).once(clock.at + 31 * DAY) == 0


def token_of(keeper: KeptReports, name: str) -> str:
    found = keeper.report(ALICE, name)
    assert found is not None
    link = keeper.link(found.kept)
    assert link is not None
    assert link.href.startswith("https://faults.example.org/shared/")
    return link.href.rpartition("/")[2]


def test_a_signed_link_shows_the_report_until_it_is_forgotten(kept: Kept) -> None:
    keeper, _ = kept
    made = keeper.keep(ALICE, FOUND, "a")
    token = token_of(keeper, made.id)

    page = keeper.shared(token)

    assert page is not None
    assert "A GPU of n3 lost memory" in page
    assert keeper.forget(ALICE, made.id)
    assert keeper.shared(token) is None


def test_a_link_is_good_no_longer_than_the_report(kept: Kept) -> None:
    keeper, clock = kept
    made = keeper.keep(ALICE, FOUND, "a")
    first, clock.at = keeper.link(made), boards.NOW + 20 * DAY
    second = keeper.link(made)

    assert first is not None and first.until == boards.NOW + 14 * DAY
    assert second is not None and second.until == made.kept_until


def test_a_link_to_a_job_is_none_to_a_report_and_the_reverse(kept: Kept) -> None:
    keeper, _ = kept
    token = token_of(keeper, keeper.keep(ALICE, FOUND, "a").id)
    of_another_key = Links("", "o" * 32, 14).signed_explained("0" * 32)

    assert LINKS.target(token) is None
    assert LINKS.explained(token) is not None
    assert keeper.shared(token[:-1]) is None
    assert keeper.shared(str(of_another_key).rpartition("/")[2]) is None


def test_without_a_key_there_is_the_pages_own_address_alone(store_url: str) -> None:
    with keeping(store_url, links=Links("https://faults.example.org")) as (keeper, _):
        made = keeper.keep(ALICE, FOUND, "a")

        assert keeper.link(made) is None
        assert keeper.address(made) == f"https://faults.example.org/explained/{made.id}"
