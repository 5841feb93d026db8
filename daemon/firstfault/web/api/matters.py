"""What people take care of, by the API: fingerprints, incidents, deliveries, firstfault itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from firstfault.model import board as b
from firstfault.model import jobs as j
from firstfault.web.api import values
from firstfault.web.api.failures import LIMIT, ONWARD, address, lost_page
from firstfault.web.api.operations import Operation
from firstfault.web.api.parameters import LARGEST_NUMBER, Asked, choice, number, segment

_STATES = (j.PENDING, j.SENT, j.DEAD, j.SUPERSEDED, j.SHADOW)
_FINGERPRINT = segment("fingerprint", "A failure's fingerprint.")
_KEY = number("key", "An incident's number.", 1, LARGEST_NUMBER, place="path")
_NO_FINGERPRINT = {404: "No failure of this fingerprint is stored"}
_NO_INCIDENT = {404: "No incident of this number goes on"}


def operations(board: b.Board) -> list[Operation]:
    """What is answered of them, and what can be done."""
    return [*_fingerprints(board), *_incidents(board), *_outbox(board)]


def _fingerprints(board: b.Board) -> list[Operation]:
    return [
        Operation(
            "fingerprints",
            "/fingerprints",
            "Failures that came again and again, those last seen first.",
            partial(_listed, board),
            parameters=(ONWARD, LIMIT),
            answers=values.Fingerprints,
            statuses={404: "There is no such page of this list"},
        ),
        Operation(
            "fingerprint",
            "/fingerprints/{fingerprint}",
            "One of them.",
            lambda asked, _body: board.fingerprint(asked.reader, asked["fingerprint"]),
            parameters=(_FINGERPRINT,),
            answers=b.Fingerprint,
            statuses=_NO_FINGERPRINT,
        ),
        Operation(
            "note_fingerprint",
            "/fingerprints/{fingerprint}/note",
            "Marks a fingerprint as known, with what is known of it; null takes that back.",
            lambda asked, body: done(
                asked, board.note(asked.reader, asked["fingerprint"], body.note)
            ),
            method="POST",
            needs="administrator",
            parameters=(_FINGERPRINT,),
            takes=values.Note,
            answers=values.Done,
            statuses=_NO_FINGERPRINT,
        ),
    ]


def _incidents(board: b.Board) -> list[Operation]:
    def change(
        verb: str,
        said: str,
        work: Callable[[Asked, values.Until], bool],
        takes: type[values.Until | values.Nothing] = values.Nothing,
    ) -> Operation:
        return Operation(
            f"{verb}_incident",
            f"/incidents/{{key}}/{verb}",
            said,
            lambda asked, body: done(asked, work(asked, body)),
            method="POST",
            needs="administrator",
            parameters=(_KEY,),
            takes=takes,
            answers=values.Done,
            statuses=_NO_INCIDENT,
        )

    def show(asked: Asked, _body: None) -> values.Incidents:
        found = board.incidents(asked.reader, asked["state"] == "open")
        return values.Incidents(tuple(map(values.incident, found)))

    return [
        Operation(
            "incidents",
            "/incidents",
            "The newest failures of several jobs by one node, file system or cause.",
            show,
            needs="administrator",
            parameters=(choice("state", "Those that go on, or all.", ("open", "all"), "all"),),
            answers=values.Incidents,
        ),
        change(
            "acknowledge",
            "Says that you take care of it.",
            lambda asked, _: board.acknowledge(asked.reader, asked["key"]),
        ),
        change(
            "close",
            "Says that it is over; further failures open another.",
            lambda asked, _: board.close(asked.reader, asked["key"]),
        ),
        change(
            "silence",
            "Tells the administrators nothing of what it is about until then.",
            lambda asked, body: board.silence(asked.reader, asked["key"], body.until),
            values.Until,
        ),
        Operation(
            "silences",
            "/silences",
            "What the administrators are told nothing of, and until when.",
            lambda asked, _: values.Silences(board.silences(asked.reader)),
            needs="administrator",
            answers=values.Silences,
        ),
    ]


def _outbox(board: b.Board) -> list[Operation]:
    return [
        Operation(
            "deliveries",
            "/deliveries",
            "Messages that were sent, wait, or were given up, the newest first.",
            lambda asked, _: values.Deliveries(board.deliveries(asked.reader, asked["state"])),
            needs="administrator",
            parameters=(choice("state", "Those in this state.", _STATES),),
            answers=values.Deliveries,
        ),
        Operation(
            "retry_delivery",
            "/deliveries/{delivery}/retry",
            "Sends a message again that was given up.",
            lambda asked, _: done(asked, board.retry(asked.reader, asked["delivery"])),
            method="POST",
            needs="administrator",
            parameters=(segment("delivery", "The delivery's id."),),
            takes=values.Nothing,
            answers=values.Done,
            statuses={404: "No delivery of this id was given up"},
        ),
        Operation(
            "health",
            "/health",
            "How firstfault itself does, and which nodes have not reported for long.",
            lambda asked, _: board.health(asked.reader),
            needs="administrator",
            answers=b.Health,
            statuses={404: "Nothing is known of it"},
        ),
    ]


def _listed(board: b.Board, asked: Asked, _body: None) -> values.Fingerprints:
    try:
        found = board.fingerprints(asked.reader, asked["page"], asked["limit"])
    except ValueError as error:
        raise lost_page() from error
    following = None if found.next is None else address(asked, "/fingerprints", page=found.next)
    return values.Fingerprints(found.fingerprints, following)


def done(asked: Asked, worked: bool) -> values.Done | None:
    """The answer to what was to be done; None where there was nothing to do it to."""
    return values.Done(worked, asked.reader.name) if worked else None
