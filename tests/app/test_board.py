"""The board over a real store answers as the board of a list does, on both databases."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator

import msgspec
import pytest
from msgspec.structs import replace

from firstfault.app.board import StoredBoard
from firstfault.model import board as b
from firstfault.model import jobs as j
from firstfault.slurm.nodes import NodeState
from firstfault.store import failure_ways, fingerprint_list
from tests.web import boards
from tests.web.boards import ADMINISTRATOR, ALICE, BOB, NOW, STRANGER

READERS = (ADMINISTRATOR, ALICE, BOB, STRANGER, b.NOBODY)
DAY = dt.timedelta(days=1)
LIST = boards.Remembered(boards.ENDS)
SORTS: tuple[b.Sort, ...] = ("-ended", "ended", "-lost", "-nodes")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def board(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoredBoard]:
    """Filled once: these tests leave it as it is, but for notes."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('store')}/ff.db"
    else:
        server = request.getfixturevalue("postgresql")
        url = server.create()
    made = boards.stored(url)
    yield made
    made.close_store()
    if request.param == "postgresql":
        server.drop(url)


def plain(failures: tuple[b.Failure, ...]) -> list[b.Failure]:
    """What both boards know alike; a job is not delivered here."""
    return [msgspec.structs.replace(one, state="") for one in failures]


FILTERS = [
    b.FailureFilter(),
    b.FailureFilter(cause="memory.cgroup-oom"),
    b.FailureFilter(cause="memory."),
    b.FailureFilter(cause="nothing."),
    b.FailureFilter(domain="system", confidence="confirmed"),
    b.FailureFilter(domain="user", confidence="unknown"),
    b.FailureFilter(domain="nobody"),
    b.FailureFilter(user="alice", partition="long"),
    b.FailureFilter(user="nobody-of-that-name"),
    b.FailureFilter(text="'%_*("),
    b.FailureFilter(account="language", cluster="small"),
    b.FailureFilter(node="n07"),
    b.FailureFilter(node="n07", cluster="small", cause="gpu."),
    b.FailureFilter(node="n99"),
    b.FailureFilter(name=boards.HOSTILE),
    b.FailureFilter(name="sweep_lr", domain="user"),
    b.FailureFilter(fingerprint="1:gpu.ecc:0001"),
    b.FailureFilter(text="Killed LIMIT"),
    b.FailureFilter(text="alice memory n07"),
    b.FailureFilter(text="sweep_lr"),
    b.FailureFilter(text="' OR 1=1; -- %"),
    b.FailureFilter(text="the", user="carol"),
    b.FailureFilter(since=NOW - 3 * DAY, until=NOW - DAY),
    b.FailureFilter(since=NOW - 30 * DAY, cause="gpu.", text="gpu", node="n07"),
]


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("which", FILTERS, ids=lambda f: msgspec.json.encode(f).decode()[:60])
def test_a_filter_gives_each_reader_what_meets_it_page_by_page(
    board: StoredBoard, which: b.FailureFilter, sort: b.Sort
) -> None:
    which = msgspec.structs.replace(which, sort=sort)
    for reader in READERS:
        wanted = plain(LIST.failures(reader, which, limit=1000).failures)

        forth, back = both_ways(board, reader, which)

        assert forth == back
        assert sorted(forth, key=by_job) == sorted(wanted, key=by_job)
        field = {"-lost": "node_s", "-nodes": "nodes"}.get(sort, "ended_at")
        values = [getattr(one, field) for one in forth]
        assert values == sorted(values, reverse=sort != "ended")


def both_ways(
    board: StoredBoard, reader: b.Reader, which: b.FailureFilter
) -> tuple[list[b.Failure], list[b.Failure]]:
    """All pages of 50, forth and back."""
    forth: list[b.Failure] = []
    page = board.failures(reader, which)
    pages = [page]
    assert page.previous is None
    while page.next is not None:
        page = board.failures(reader, which, page.next)
        pages.append(page)
    for each in pages:
        forth += plain(each.failures)
    back = plain(page.failures)
    for before in reversed(pages[:-1]):
        assert page.previous is not None
        page = board.failures(reader, which, page.previous)
        assert page.failures == before.failures
        assert page.next is not None
        back = plain(page.failures) + back
    assert page.previous is None
    return forth, back


def by_job(failure: b.Failure) -> tuple[str, str]:
    return failure.cluster or "", failure.job


def test_a_place_of_another_filter_or_of_nobody_is_refused(board: StoredBoard) -> None:
    place = board.failures(ADMINISTRATOR, b.FailureFilter(), limit=2).next
    assert place is not None

    for filter_, page in (
        (b.FailureFilter(user="alice"), place),
        (b.FailureFilter(), place[:-2]),
        (b.FailureFilter(), "1"),
        (b.FailureFilter(), "\u00e4"),
        (b.FailureFilter(), "W10"),
        (b.FailureFilter(), ""),
    ):
        with pytest.raises(ValueError, match="page"):
            board.failures(ADMINISTRATOR, filter_, page)


@pytest.mark.parametrize("far", [1, 7, 60])
def test_a_page_is_the_same_however_far_conditions_are_counted(
    board: StoredBoard, monkeypatch: pytest.MonkeyPatch, far: int
) -> None:
    asked = [
        (reader, replace(which, sort=sort))
        for reader in (ADMINISTRATOR, BOB)
        for which in (*FILTERS, b.FailureFilter(text="rank killed memory", node="n07"))
        for sort in SORTS
    ]
    counted = [board.failures(*each, limit=7) for each in asked]
    monkeypatch.setattr(failure_ways, "_FAR", far)

    guessed = [board.failures(*each, limit=7) for each in asked]
    assert sum(len(page.failures) > 0 for page in counted) > 20
    assert guessed == counted


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name or "nobody")
@pytest.mark.parametrize("days", [1, 7, 30, 200])
@pytest.mark.parametrize("cluster", [None, "small", "none-such"])
def test_an_overview_counts_what_the_reader_sees(
    board: StoredBoard, reader: b.Reader, days: int, cluster: str | None
) -> None:
    since, until = NOW - days * DAY, NOW + dt.timedelta(seconds=1)

    shown, wanted = (of.overview(reader, since, until, cluster) for of in (board, LIST))

    assert shown.total == wanted.total
    assert shown.before == wanted.before
    assert shown.domains == wanted.domains
    assert {one.cause: one.count for one in shown.causes} == {
        one.cause: one.count for one in wanted.causes
    }
    counts = [one.count.failures for one in shown.causes]
    assert counts == sorted(counts, reverse=True)
    assert plain(shown.newest) == plain(wanted.newest)
    assert sum(sum(slot.domains.values()) for slot in shown.slots) == shown.total.failures
    assert sum(sum(slot.causes.values()) for slot in shown.slots) == shown.total.failures
    steps = {later.at - slot.at for slot, later in itertools.pairwise(shown.slots)}
    assert steps <= {dt.timedelta(seconds=shown.step_s)}
    assert shown.slots[0].at <= since < shown.slots[0].at + dt.timedelta(seconds=shown.step_s)
    assert shown.slots[-1].at < until <= shown.slots[-1].at + dt.timedelta(seconds=shown.step_s)
    assert board.causes(reader, since, until) == LIST.causes(reader, since, until)


def test_the_node_that_fails_is_suspect_and_no_other_is(board: StoredBoard) -> None:
    since = NOW - 60 * DAY
    found = board.nodes(ADMINISTRATOR, since, NOW + DAY)

    assert {one.node for one in found if one.suspect} <= {"n07"}
    wanted = {(one.cluster, one.node): one for one in LIST.nodes(ADMINISTRATOR, since, NOW + DAY)}
    assert {(one.cluster, one.node) for one in found} >= wanted.keys()
    for one in found:
        same = wanted.get((one.cluster, one.node))
        if same is not None:
            assert (one.took_part, one.initiated) == (same.took_part, same.initiated)
            assert one.low <= one.initiated / one.took_part <= one.high
    assert board.nodes(ALICE, since, NOW) == ()


def test_a_node_is_shown_as_slurm_has_it_now(board: StoredBoard) -> None:
    states = {
        ("main", "n07"): NodeState("MIXED+DRAIN", "bad fan"),
        (None, "n08"): NodeState("IDLE"),
    }
    told = StoredBoard(board._database, clock=lambda: NOW, states=lambda: states)
    since = NOW - 60 * DAY
    listed = {(one.cluster, one.node): one for one in told.nodes(ADMINISTRATOR, since, NOW)}
    shown = told.node(ADMINISTRATOR, "main", "n07", since, NOW)

    assert shown is not None
    assert (shown.standing.state, shown.standing.reason) == ("MIXED+DRAIN", "bad fan")
    assert listed["main", "n07"].state == "MIXED+DRAIN"
    assert listed["main", "n08"].state is None


def test_a_node_is_shown_with_its_failures_to_administrators(board: StoredBoard) -> None:
    since = NOW - 60 * DAY
    shown = board.node(ADMINISTRATOR, "main", "n07", since, NOW)
    wanted = LIST.node(ADMINISTRATOR, "main", "n07", since, NOW)

    assert shown is not None
    assert wanted is not None
    assert {one.job for one in shown.failures} <= {
        end.facts.id for end in boards.ENDS if "n07" in end.nodes
    }
    assert {one.job for one in shown.incidents if one.role == j.INITIATOR} >= {
        one.job for one in wanted.incidents if one.cause not in ("none", "unknown")
    }
    assert sum(count for _, count in shown.standing.causes) == shown.standing.initiated
    assert board.node(ADMINISTRATOR, "main", "n99", since, NOW) is None
    assert board.node(BOB, "main", "n07", since, NOW) is None


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name or "nobody")
def test_fingerprints_count_what_the_reader_sees(board: StoredBoard, reader: b.Reader) -> None:
    found: list[b.Fingerprint] = []
    page = board.fingerprints(reader, limit=7)
    while True:
        found += page.fingerprints
        if page.next is None:
            break
        page = board.fingerprints(reader, page.next, limit=7)
    wanted = LIST.fingerprints(reader, limit=1000).fingerprints

    def told(one: b.Fingerprint) -> tuple[object, ...]:
        return (
            one.fingerprint,
            one.cause,
            one.first_at,
            one.last_at,
            one.failures,
            one.users,
            one.fresh,
        )

    assert sorted(map(told, found)) == sorted(map(told, wanted))
    assert [one.last_at for one in found] == sorted((one.last_at for one in found), reverse=True)
    for one in found[:5]:
        assert board.fingerprint(reader, one.fingerprint) == one
    with pytest.raises(ValueError, match="page"):
        board.fingerprints(reader, "x")


@pytest.mark.parametrize("looked_at", [1, 10, 40])
@pytest.mark.parametrize("reader", [ALICE, BOB], ids=lambda r: r.name)
def test_the_first_fingerprints_are_the_same_however_many_failures_are_looked_at(
    board: StoredBoard, monkeypatch: pytest.MonkeyPatch, reader: b.Reader, looked_at: int
) -> None:
    limits = range(1, 20)
    pages = [board.fingerprints(reader, limit=limit) for limit in limits]
    monkeypatch.setattr(fingerprint_list, "_NEWEST", looked_at)

    assert len(pages[-1].fingerprints) == limits[-1]
    assert [board.fingerprints(reader, limit=limit) for limit in limits] == pages


def test_a_fingerprint_is_marked_as_known_by_administrators_alone(board: StoredBoard) -> None:
    (one,) = board.fingerprints(ADMINISTRATOR, limit=1).fingerprints
    mark = one.fingerprint

    assert not board.note(ALICE, mark, "mine")
    assert not board.note(ADMINISTRATOR, "1:no-such", "x")
    assert board.note(ADMINISTRATOR, mark, boards.HOSTILE)
    noted = board.fingerprint(ADMINISTRATOR, mark)
    assert noted is not None
    assert (noted.note, noted.noted_by, noted.noted_at) == (boards.HOSTILE, "root", NOW)
    assert board.note(ADMINISTRATOR, mark, None)
    assert board.fingerprint(ADMINISTRATOR, mark) == one


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name or "nobody")
def test_a_failure_is_shown_to_those_who_may_see_it(board: StoredBoard, reader: b.Reader) -> None:
    for end in boards.ENDS[:60]:
        cluster, job = end.facts.cluster, end.facts.id
        shown = board.failure(reader, cluster, job)

        assert (shown is not None) == reader.sees(end.facts.user, end.facts.account)
        assert {one.cluster for one in board.ends(reader, job)} == (
            {cluster} if shown is not None else set()
        )
        if shown is not None:
            wanted = LIST.failure(reader, cluster, job)
            assert wanted is not None
            assert plain((shown.failure,)) == plain((wanted.failure,))
            # Who is no administrator reads no other user's process in it.
            assert shown.stored.verdict.cause == end.verdict.cause
            assert not reader.administrator or shown.stored.verdict == end.verdict
            assert [each[0] for each in shown.history] == [1]
            assert {one.job for one in shown.same} <= {
                other.facts.id
                for other in boards.ENDS
                if other.verdict.fingerprint == end.verdict.fingerprint
                and reader.sees(other.facts.user, other.facts.account)
            }
    assert board.failure(reader, "main", "0") is None
    assert board.failure(ADMINISTRATOR, "main", "1", 2) is None


def test_who_is_no_administrator_changes_and_learns_nothing_of_the_cluster(
    board: StoredBoard,
) -> None:
    for reader in READERS[1:]:
        assert board.incidents(reader) == ()
        assert board.silences(reader) == ()
        assert board.deliveries(reader) == ()
        assert board.health(reader) is None
        assert board.node(reader, "main", "n07", NOW - DAY, NOW) is None
        assert board.evidence(reader, "main", "1", 1, "n1") is None
        assert not board.acknowledge(reader, 1)
        assert not board.close(reader, 1)
        assert not board.silence(reader, 1, NOW)
        assert not board.retry(reader, "x")
        assert board.overview(reader, NOW - DAY, NOW).nodes == ()


def test_the_newest_number_grows_with_what_a_reader_sees_alone(board: StoredBoard) -> None:
    everything, alices = board.newest_at(ADMINISTRATOR), board.newest_at(ALICE)

    assert everything[0] >= alices[0] > 0
    assert alices[1] is not None
    assert board.newest_at(STRANGER) == (0, None)


def test_health_tells_which_nodes_send_nothing(board: StoredBoard) -> None:
    shown = board.health(ADMINISTRATOR)

    assert shown is not None
    assert shown.states == {"judged": len(boards.ENDS)}
    assert shown.store_bytes
    assert shown.waiting_since is None
    # Slurm told of all these jobs, and no node did.
    ended = {one.node: one.ended for one in shown.silent if one.cluster == "main"}
    late = NOW - dt.timedelta(minutes=30)
    assert ended["n07"] == sum(
        "n07" in end.nodes and end.facts.cluster == "main" and NOW - 30 * DAY <= end.at < late
        for end in boards.ENDS
    )


@pytest.mark.parametrize("reader", READERS)
def test_names_are_offered_to_administrators_alone(board: StoredBoard, reader: b.Reader) -> None:
    assert board.names(reader) == LIST.names(reader)


WRONG = ("\x00", "\ud800", "x" * 5000, "", "%", "'; DROP TABLE jobs; --", "\u0661")


@pytest.mark.parametrize("text", WRONG, ids=lambda t: ascii(t[:12]))
def test_whatever_is_asked_for_is_an_answer(board: StoredBoard, text: str) -> None:
    since, until = NOW - DAY, NOW
    for reader in (ADMINISTRATOR, b.Reader(text, user=text, accounts=(text,))):
        fields = ("cluster", "cause", "domain", "confidence", "user", "account", "partition")
        for name in (*fields, "node", "name", "fingerprint"):
            which = replace(b.FailureFilter(), **{name: text})
            assert board.failures(reader, which).failures == ()
        board.failures(reader, b.FailureFilter(text=text))
        board.failures(reader, b.FailureFilter(cause=f"{text}."))
        assert board.failure(reader, text, text) is None
        assert board.ends(reader, text) == ()
        assert board.overview(reader, since, until, text).total == b.Count()
        assert board.nodes(reader, since, until, text) == ()
        assert board.node(reader, text, text, since, until) is None
        assert board.evidence(reader, text, text, 1, text) is None
        assert board.fingerprint(reader, text) is None
        assert not board.note(reader, text, text)
        assert not board.retry(reader, text)
        assert board.deliveries(reader, text) == ()


@pytest.mark.parametrize("number", [-1, 0, 1 << 31, 1 << 63, 1 << 80])
def test_numbers_beyond_all_there_are_name_nothing(board: StoredBoard, number: int) -> None:
    assert board.failure(ADMINISTRATOR, "main", "1", number) is None
    assert not board.acknowledge(ADMINISTRATOR, number)
    assert not board.close(ADMINISTRATOR, number)
    assert not board.silence(ADMINISTRATOR, number, NOW)


def test_a_time_may_be_as_long_as_there_is_time(board: StoredBoard) -> None:
    first = dt.datetime.min.replace(tzinfo=dt.UTC)
    last = dt.datetime.max.replace(tzinfo=dt.UTC)

    shown = board.overview(ADMINISTRATOR, first, last)

    assert shown.total.failures == len(boards.ENDS)
    assert shown.before == b.Count()
    assert len(shown.slots) < 12_000
    which = b.FailureFilter(since=first, until=last)
    assert len(board.failures(ADMINISTRATOR, which, limit=1000).failures) == len(boards.ENDS)
    assert board.overview(ADMINISTRATOR, last, last).total == b.Count()
    assert board.overview(ADMINISTRATOR, NOW, NOW - DAY).total == b.Count()
