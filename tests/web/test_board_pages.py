"""Pages of nodes, causes, fingerprints, incidents, deliveries, health and explain, by HTTP."""

from __future__ import annotations

import datetime as dt
import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import requests

from firstfault.config import Explain
from firstfault.model import board as b
from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.web.board import health as health_page
from firstfault.web.board import nodes as nodes_page
from tests.report.test_valid_html import errors
from tests.web import boards
from tests.web.board_served import PAGES, places, served
from tests.web.boards import ENDS, HOSTILE, NOW, Remembered, ends

CASE = Path(__file__).parents[1] / "cases" / "exc"
DRAIN = "scontrol update nodename=n07 state=drain reason='gpu.bus-lost, job 7001 (firstfault)'"


class Changeable(Remembered):
    """A board that remembers what it was asked to change."""

    def __init__(self) -> None:
        super().__init__(ENDS)
        self.asked: list[tuple[object, ...]] = []

    def acknowledge(self, reader: b.Reader, key: int) -> bool:
        self.asked.append(("acknowledge", key))
        return super().acknowledge(reader, key)

    def close(self, reader: b.Reader, key: int) -> bool:
        self.asked.append(("close", key))
        return super().close(reader, key)

    def silence(self, reader: b.Reader, key: int, until: dt.datetime) -> bool:
        self.asked.append(("silence", key, until))
        return super().silence(reader, key, until)

    def retry(self, reader: b.Reader, delivery_id: str) -> bool:
        self.asked.append(("retry", delivery_id))
        return super().retry(reader, delivery_id)


@pytest.fixture(scope="module")
def board() -> Changeable:
    return Changeable()


@pytest.fixture(scope="module")
def address(board: Changeable) -> Iterator[str]:
    with served(places(board)) as url:
        yield url


def get(address: str, path: str) -> requests.Response:
    return requests.get(address + path, timeout=20)


def posted(address: str, page: str, path: str, **fields: str) -> requests.Response:
    """What is answered to a form of ``page``."""
    token = re.search(r'name="form_token" value="([^"]+)"', get(address, page).text)
    assert token is not None
    headers = {"origin": address, "sec-fetch-site": "same-origin"}
    return requests.post(
        address + path,
        {"form_token": token[1], **fields},
        headers=headers,
        timeout=20,
        allow_redirects=True,
    )


def explained(address: str, files: dict[str, bytes], **fields: str) -> requests.Response:
    token = re.search(r'name="form_token" value="([^"]+)"', get(address, "/explain").text)
    assert token is not None
    return requests.post(
        address + "/explain",
        data={"form_token": token[1], "log": "", "hosts": "", **fields},
        files=[("files", (name, data)) for name, data in files.items()] or {"files": ("", b"")},
        headers={"origin": address, "sec-fetch-site": "same-origin"},
        timeout=60,
    )


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_valid_html_and_holds_nothing_inline(address: str, path: str) -> None:
    answer = get(address, path)

    assert answer.status_code == 200
    assert errors(answer.text) == []
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src)", answer.text)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_whole_where_nothing_ever_failed(path: str) -> None:
    with served(places(Remembered([]))) as url:
        status = get(url, path).status_code

    assert status == (404 if path == "/nodes/main/n07" else 200)


ODD = [
    path + odd
    for path in ("/nodes/main/", "/nodes/%00/", "/causes/", "/fingerprints/", "/fingerprints?page=")
    for odd in ("%00", "%ff", "%ed%a0%80", "'%22%3C--", "x" * 5000, "%E2%80%AE")
] + ["/nodes?name=%00", "/nodes?from=999999999999999999", "/deliveries?state=%00"]


@pytest.mark.slow
def test_every_page_is_whole_over_a_real_store(tmp_path: Path) -> None:
    stored = boards.stored(f"sqlite:///{tmp_path}/ff.db")
    fingerprint = stored.fingerprints(boards.ADMINISTRATOR).fingerprints[0].fingerprint
    more = (f"/fingerprints/{fingerprint}", "/nodes?all=1", "/deliveries?state=dead")
    try:
        with served(places(stored)) as url:
            found = {path: get(url, path).status_code for path in (*PAGES, *more)}
            page = f"/fingerprints/{fingerprint}"
            odd = {path: get(url, path).status_code for path in ODD}
            noted = posted(url, page, f"{page}/note", note="the cable")
    finally:
        stored.close_store()

    assert found == dict.fromkeys(found, 200)
    assert set(odd.values()) <= {200, 400, 404}
    assert "The note is kept." in noted.text


@pytest.mark.parametrize(
    "path",
    ["/nodes/main/none", "/nodes/-/n07", "/causes/gpu", "/causes/%2e%2e", "/fingerprints/1:none"],
)
def test_what_is_not_known_is_404(address: str, path: str) -> None:
    assert get(address, path).status_code == 404


@pytest.mark.parametrize("query", ["days=0", "days=-1", "days=9999999999", "days=²", "from=7e9"])
def test_an_address_that_asks_for_nonsense_gets_the_usual_page(address: str, query: str) -> None:
    assert get(address, f"/nodes?{query}").status_code == 200


def test_a_node_that_stands_out_is_named_first(address: str) -> None:
    text = get(address, "/nodes?days=365").text

    assert "stand out" in text
    assert "far more than chance" in text
    assert text.index("/nodes/main/n07") < text.index("/nodes/main/n25")


def test_nodes_that_were_only_there_are_shown_where_they_are_asked_for(address: str) -> None:
    usual, every = (get(address, f"/nodes?days=365{more}").text for more in ("", "&all=1"))
    by_name = get(address, "/nodes?days=365&name=N1").text

    assert "none that counts began on them" in usual
    assert every.count("<tr>") > usual.count("<tr>")
    assert "/nodes/main/n12" in by_name
    assert "/nodes/main/n25" not in by_name


def standing(**changed: object) -> b.NodeStanding:
    usual = b.NodeStanding("n1", "main", 2, 20, 1.5, 0.02, 0.3, 0.9, False)
    return msgspec.structs.replace(usual, **changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"suspect": True, "adjusted": 0.0001}, "far more than chance"),
        ({"suspect": True, "adjusted": 0.008}, "more than chance"),
        ({"adjusted": 0.1}, "more than expected, too little to blame it"),
        ({"adjusted": 0.9}, "as chance would have it"),
        ({"took_part": 2, "adjusted": 0.1}, "too few to tell"),
    ],
)
def test_a_standing_is_told_in_words(changed: dict[str, object], words: str) -> None:
    assert nodes_page.said(standing(**changed))[0] == words


def test_a_picture_stays_in_its_frame_whatever_the_numbers() -> None:
    bar = nodes_page.row(standing(initiated=9, took_part=3, expected=99.0, high=1.0), 0.25).bar

    assert max(bar.low, bar.high, bar.at, bar.expected) <= 160


def drained(**changed: object) -> str:
    """The page of n07, of which a report of yesterday says what ``changed`` says."""
    end = ends(1)[-1]
    facts = msgspec.structs.replace(end.facts, id="7001", cluster="main")
    usual = {"confidence": v.CONFIRMED, "commands": (DRAIN,), "at": NOW - dt.timedelta(days=1)}
    said = {**usual, **changed}
    verdict = msgspec.structs.replace(
        end.verdict,
        cause=v.Cause(
            "gpu.bus-lost", "A GPU of n07 fell off the bus", "system", said["confidence"]
        ),
        initiator=v.Initiator(rank=1, host="n07"),
        remedy=v.Remedy(commands=said["commands"]),
    )
    board = Remembered([end._replace(facts=facts, nodes=("n07",), verdict=verdict, at=said["at"])])
    with served(places(board)) as url:
        return get(url, "/nodes/main/n07").text


def test_the_drain_command_is_that_of_a_report_which_is_sure() -> None:
    text = drained()

    assert DRAIN.replace("'", "&#39;") in text
    assert "/jobs/main/7001" in text


@pytest.mark.parametrize(
    "changed",
    [
        {"confidence": v.LIKELY},
        {"commands": ()},
        {"commands": (DRAIN.replace("n07", "n08"),)},
        {"at": NOW - dt.timedelta(days=8)},
    ],
    ids=["likely", "none in the report", "of another node", "older than a week"],
)
def test_there_is_no_drain_command_where_no_report_is_sure(changed: dict[str, object]) -> None:
    text = drained(**changed)

    assert "state=drain" not in text
    assert "scontrol show node n07" in text


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN*", "MIXED+DRAIN", "DOWN+NOT_RESPONDING"])
def test_a_node_that_is_out_of_service_is_known(state: str) -> None:
    assert nodes_page.is_out(state)


@pytest.mark.parametrize(
    "state", ["ALLOCATED", "IDLE+POWERED_DOWN", "IDLE+POWERING_DOWN", "", None]
)
def test_a_node_that_only_saves_power_is_not_out_of_service(state: str | None) -> None:
    assert not nodes_page.is_out(state)


def test_a_node_that_is_out_of_service_is_not_to_be_drained_again() -> None:
    class Out(Remembered):
        def node(self, *asked: object) -> b.NodeDetail | None:
            found = super().node(*asked)  # type: ignore[arg-type]
            assert found is not None
            out = msgspec.structs.replace(found.standing, state="IDLE+DRAIN", reason="bad fan")
            return msgspec.structs.replace(found, standing=out)

    with served(places(Out(ENDS))) as url:
        text = get(url, "/nodes/main/n07").text

    assert "Slurm gives this node no new jobs already" in text
    assert "state=drain" not in text
    assert "bad fan" in text
    assert "scontrol show node n07" in text


def test_a_node_with_a_name_that_is_none_is_in_no_command() -> None:
    class Odd(Remembered):
        def node(self, *_: object) -> b.NodeDetail:
            return b.NodeDetail(standing(node="n1;reboot"), (), ())

    with served(places(Odd(ENDS))) as url:
        text = get(url, "/nodes/main/n1%3Breboot").text

    assert "n1;reboot" in text
    assert 'class="command"' not in text


def test_a_cause_is_shown_with_this_clusters_counts(address: str) -> None:
    listing, one = get(address, "/causes").text, get(address, "/causes/gpu.ecc").text

    assert 'href="/causes/gpu.ecc"' in listing
    assert "What would prove this reading wrong" in one
    assert "Drain the node?" in one
    assert "A GPU of n" in one


def test_a_cause_that_this_version_does_not_know_is_counted_all_the_same() -> None:
    class Newer(Remembered):
        def causes(self, *_: object) -> dict[str, b.Count]:
            return {"gpu.of-tomorrow": b.Count(3, 7200.0)}

    with served(places(Newer(ENDS))) as url:
        text = get(url, "/causes").text

    assert "gpu.of-tomorrow" in text
    assert "not known to this version" in text


def test_a_note_is_kept_shown_and_removed(address: str, board: Changeable) -> None:
    fingerprint = next(end.verdict.fingerprint for end in ENDS if end.verdict.fingerprint)
    page = f"/fingerprints/{fingerprint}"
    kept = posted(address, page, f"{page}/note", note=f"  bad cable {HOSTILE}  ")
    known = board.fingerprint(b.Reader(administrator=True), fingerprint)
    removed = posted(address, page, f"{page}/note", note=" ")

    assert known is not None
    assert known.note == f"bad cable {HOSTILE}"
    assert "The note is kept." in kept.text
    assert "bad cable &lt;script&gt;" in kept.text
    assert "The note is removed." in removed.text
    assert "bad cable" not in removed.text


def test_a_note_that_is_too_long_is_refused(address: str) -> None:
    fingerprint = next(end.verdict.fingerprint for end in ENDS if end.verdict.fingerprint)
    page = f"/fingerprints/{fingerprint}"

    assert posted(address, page, f"{page}/note", note="x" * 2001).status_code == 413


@pytest.mark.parametrize(
    ("path", "fields", "asked", "said"),
    [
        ("acknowledge", {}, ("acknowledge", 1), "You take care of incident 1."),
        ("close", {}, ("close", 1), "Incident 1 is over."),
        (
            "silence",
            {"hours": "8"},
            ("silence", 1, NOW + dt.timedelta(hours=8)),
            "The administrators hear no more",
        ),
        ("silence", {"hours": "0"}, ("silence", 1, NOW), "is not silent any more"),
    ],
)
def test_an_incident_is_handled_and_the_page_says_so(
    address: str, board: Changeable, path: str, fields: dict[str, str], asked: object, said: str
) -> None:
    answer = posted(address, "/incidents", f"/incidents/1/{path}", **fields)

    assert answer.status_code == 200
    assert answer.history[0].status_code == 303
    assert board.asked[-1] == asked
    assert said in answer.text


def test_an_incident_that_is_over_meanwhile_is_said_to_be(address: str) -> None:
    answer = posted(address, "/incidents", "/incidents/99/acknowledge")

    assert "Nothing was done: no incident 99 goes on." in answer.text


@pytest.mark.parametrize("key", ["x", "-1", "1.5", "9" * 30, "9" * 6000, "%00", "²"])
def test_what_is_no_number_of_an_incident_does_not_exist(address: str, key: str) -> None:
    assert posted(address, "/incidents", f"/incidents/{key}/close").status_code == 404


@pytest.mark.parametrize("hours", ["", "5", "99999999", "-1", "8.0"])
def test_a_silence_lasts_one_of_the_times_that_are_offered(address: str, hours: str) -> None:
    assert posted(address, "/incidents", "/incidents/1/silence", hours=hours).status_code == 400


def test_a_reservation_for_maintenance_is_one_line_however_many_nodes_it_has() -> None:
    class Upgraded(Remembered):
        def silences(self, reader: b.Reader) -> tuple[j.Silence, ...]:
            names = [f"n{n:04d}" for n in range(3000)]
            return tuple(
                j.Silence("main", j.NODE, name, NOW, "slurm", "upgrade" if name < "n2990" else "x")
                for name in names
            )

    with served(places(Upgraded(ENDS))) as url:
        page = get(url, "/incidents").text

    assert "<td>2,990 nodes: n[0000-2989]</td>" in page
    assert "<td>10 nodes: n[2990-2999]</td>" in page


def test_an_address_that_somebody_made_up_says_nothing(address: str) -> None:
    for query in ("done=gone&incident=<b>1", "done=free+money&incident=1", "done=gone"):
        assert 'role="status"' not in get(address, f"/incidents?{query}").text


def test_deliveries_that_were_given_up_come_first_and_are_tried_again(
    address: str, board: Changeable
) -> None:
    page = get(address, "/deliveries").text
    answer = posted(address, "/deliveries", "/deliveries/delivery3/retry")

    assert page.index("given up</span>") < page.index("<td>sent")
    assert board.asked[-1] == ("retry", "delivery3")
    assert "It is due again" in answer.text


def test_deliveries_are_shown_by_state(address: str) -> None:
    text = get(address, "/deliveries?state=sent").text

    assert "Try again" not in text
    assert text.count("<td>sent") == 2


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/incidents/1/close", {}),
        ("/incidents/1/silence", {"hours": "8"}),
        ("/deliveries/delivery0/retry", {}),
        ("/fingerprints/1:x/note", {"note": "x"}),
        ("/explain", {"log": "x"}),
    ],
)
def test_nothing_is_changed_without_the_token_of_a_form(
    address: str, path: str, fields: dict[str, str]
) -> None:
    answer = requests.post(
        address + path, {**fields, "form_token": "x"}, headers={"origin": address}, timeout=10
    )

    assert answer.status_code == 403


HEALTHY = b.Health(
    working=True,
    version="1.2.3",
    started_at=NOW - dt.timedelta(hours=5),
    store="sqlite:///ff.db",
    store_bytes=1_000_000,
    states={},
    deliveries={},
    quarantined=0,
    last_record_at=NOW,
    last_answer_at=NOW,
    silent=(),
)


def test_what_is_well_asks_for_nothing() -> None:
    found = health_page.points(HEALTHY, NOW)

    assert {each.tone for each in found} == {"good", "plain"}
    assert not any(each.remedy for each in found)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"working": False}, "Work"),
        ({"last_record_at": None}, "Last record of a node"),
        ({"last_record_at": NOW - dt.timedelta(days=3)}, "Last record of a node"),
        (
            {"last_answer_at": NOW - dt.timedelta(hours=3), "states": {j.SETTLED: 2}},
            "Last answer of Slurm",
        ),
        ({"deliveries": {j.DEAD: 1}}, "Messages"),
        (
            {"waiting_since": NOW - dt.timedelta(hours=3), "states": {j.COLLECTING: 7}},
            "Jobs that wait for their verdict",
        ),
        ({"quarantined": 3}, "Records that could not be read"),
    ],
)
def test_what_is_not_well_comes_first_with_its_remedy(
    changed: dict[str, object], name: str
) -> None:
    found = health_page.points(msgspec.structs.replace(HEALTHY, **changed), NOW)

    assert [each.name for each in found if each.tone == "bad"] == [name]
    assert found[0].name == name
    assert found[0].remedy


def test_silent_nodes_are_listed_with_how_to_look_at_them(address: str) -> None:
    text = get(address, "/health").text

    assert "n33" in text
    assert "ssh n33 systemctl status firstfault-collector.path" in text


def test_a_pasted_log_is_explained(address: str) -> None:
    answer = explained(address, {}, log=(CASE / "slurm.out").read_text())

    assert answer.status_code == 200
    assert errors(answer.text) == []
    assert "Rank 4 on n3 raised ValueError" in answer.text
    assert "pasted.log line" in answer.text


def test_files_are_explained_together_by_their_names_and_hosts(address: str) -> None:
    raised = b"Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 'x'\n"
    files = {"logs/<b>0.err": gzip.compress(raised)}
    answer = explained(address, files, hosts="node7 = logs/<b>0.err\n")

    assert "on node7" in answer.text
    assert "logs/_b_0.err line" in answer.text


def test_files_of_the_same_name_stay_apart(address: str) -> None:
    token = re.search(r'name="form_token" value="([^"]+)"', get(address, "/explain").text)
    assert token is not None
    answer = requests.post(
        address + "/explain",
        data={"form_token": token[1]},
        files=[("files", ("a.gz", b"\x1f\x8bnot")), ("files", ("../../a.gz", b"\x1f\x8bnor"))],
        headers={"origin": address},
        timeout=60,
    )

    assert "<li>2-a.gz: " in answer.text
    assert "<li>a.gz: " in answer.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Nothing was sent"),
        ({"log": "x", "hosts": "n1 = other.log"}, "No file that was sent is called"),
        ({"log": "x", "hosts": "-oProxyCommand=x"}, "is no name of a host"),
        ({"log": "x", "hosts": "localhost"}, "is no name of a host"),
        ({"log": "x", "hosts": "n1\nn2"}, "Of which file is n1?"),
    ],
)
def test_what_cannot_be_explained_is_said_on_the_form(
    address: str, fields: dict[str, str], said: str
) -> None:
    answer = explained(address, {}, **fields)

    assert answer.status_code == 422
    assert said in answer.text
    assert 'name="log"' in answer.text


def test_more_than_may_be_sent_is_refused_before_it_is_read() -> None:
    with served(places(Remembered(ENDS), Explain(max_bytes=1000))) as url:
        answer = explained(url, {"a.log": b"x" * 3_000_000})

    assert answer.status_code == 413


def test_a_pasted_log_may_be_as_large_as_a_file(address: str) -> None:
    answer = explained(address, {}, log="step 1 loss 2.0\n" * 150_000)

    assert answer.status_code == 200
    assert "This is the verdict on the logs that you sent" in answer.text


def test_what_takes_too_long_is_said_on_the_form() -> None:
    bomb = gzip.compress(bytes(16 << 20)) * 400
    with served(places(Remembered(ENDS), Explain(limit_s=1))) as url:
        answer = explained(url, {"bomb.gz": bomb})

    assert answer.status_code == 503
    assert "longer than 1 s here" in answer.text


def test_there_is_no_page_where_explaining_is_turned_off() -> None:
    from firstfault.web.board import explain

    assert explain.places(None) == []
