"""torch's flight recorder: real dumps of torch 2.13, older forms, cut ones and hostile ones."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firstfault.diagnosis import diagnose
from firstfault.intake.files import gather
from firstfault.model.case import Case
from firstfault.model.document import Document, Excerpt
from firstfault.model.event import RecordedWork, WorkStatus
from firstfault.model.slurm import JobFacts
from firstfault.readers.flight_recorder import looks_like_dump, recorded
from firstfault.readers.kind import Kind, kind
from firstfault.readers.times import epoch

CASES = Path(__file__).parents[1] / "cases"
BEHIND = CASES / "t213-recorder-behind"
REAL = {rank: (BEHIND / f"nccl_trace_rank_{rank}").read_bytes() for rank in range(4)}


def document(data: bytes, name: str = "/tmp/nccl_trace_rank_3", **changes: Any) -> Document:
    found = Document(name, (Excerpt(0, 1, data),), what="flight-recorder", size=len(data))
    return msgspec.structs.replace(found, **changes)


def statuses(found: Document) -> list[tuple[str, int, int]]:
    return [
        (e.group, e.enqueued, e.completed) for e in recorded(found) if isinstance(e, WorkStatus)
    ]


def works(found: Document) -> list[RecordedWork]:
    return [e for e in recorded(found) if isinstance(e, RecordedWork)]


def entry(sequence: int, **changes: Any) -> dict[str, Any]:
    return {
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[4, 4]],
        "state": "scheduled",
        "time_created_ns": 1_796_088_570_865_922_557,
        "is_p2p": False,
        **changes,
    }


def dump(*entries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    ranks = {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}
    status = {"last_enqueued_collective": 7, "last_completed_collective": 6}
    return {
        "version": "2.4",
        "pg_config": {"0": ranks},
        "pg_status": {"0": status},
        "entries": list(entries),
        **changes,
    }


def pickled(*entries: dict[str, Any], **changes: Any) -> bytes:
    return pickle.dumps(dump(*entries, **changes), 2)


def test_a_real_dump_tells_how_far_its_rank_had_come() -> None:
    assert statuses(document(REAL[2])) == [("default_pg", 5, 5)]
    assert statuses(document(REAL[0])) == [("default_pg", 6, 5)]


def test_the_programs_own_line_that_called_the_last_collective_is_told() -> None:
    (status,) = (e for e in recorded(document(REAL[0])) if isinstance(e, WorkStatus))

    assert (
        "gloo:all_reduce, called by step at /scratch/alice/train/train.py:30" in status.place.text
    )


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("/tmp/nccl_trace_rank_12", 12),
        ("n3/comm_lib_trace_rank_0", 0),
        ("comm_traces/iteration_40/rank_7", 7),
        ("rank7.pickle", 7),
        ("rank-7.json.gz", 7),
        ("/tmp/nccl_trace", None),
        ("trace_rank_x", None),
        ("trace_rank_123456789", None),
    ],
)
def test_whose_dump_it_is_stands_in_its_name(name: str, rank: int | None) -> None:
    found = recorded(document(REAL[0], name))

    assert {e.speaker.rank for e in found} == (set() if rank is None else {rank})


def test_json_says_the_same_as_a_pickle() -> None:
    text = json.dumps(dump(entry(7))).replace(": 7,", ': "7",').replace(": 6}", ': "6"}')
    as_json = document(text.encode(), what=None)

    assert kind(as_json) is Kind.FLIGHT_RECORDER
    assert statuses(as_json) == statuses(document(pickled(entry(7)))) == [("default_pg", 7, 6)]


def test_a_dump_without_a_status_is_read_by_its_entries() -> None:
    data = pickled(entry(3, state="completed"), entry(4), pg_status=None)

    assert statuses(document(data)) == [("default_pg", 4, 3)]


def test_another_group_is_named_with_its_members() -> None:
    other = {"pg_id": 3, "process_group": ("17", "mesh_tp")}
    status = {"3": {"last_enqueued_collective": 2, "last_completed_collective": 1}}
    config = {"17": {"name": "17", "desc": "mesh_tp", "ranks": "[2, 3]"}}
    data = pickled(entry(2, **other), pg_status=status, pg_config=config)

    assert statuses(document(data)) == [("17(mesh_tp) of ranks [2, 3]", 2, 1)]


def test_a_number_alone_names_no_group() -> None:
    status = {"3": {"last_enqueued_collective": 2, "last_completed_collective": 1}}

    assert statuses(document(pickled(pg_status=status))) == []


def test_what_only_two_ranks_exchange_is_no_collective() -> None:
    assert works(document(pickled(entry(7, is_p2p=True, profiling_name="nccl:send 0->1")))) == []


@pytest.mark.parametrize("kept", [300, 500, 900])
def test_a_cut_dump_still_tells_how_far_its_rank_had_come(kept: int) -> None:
    data = pickled(*(entry(n, thread_name="x" * n) for n in range(300)))
    cut = document(data[:kept], complete=False, size=len(data))

    assert statuses(cut) == [("default_pg", 7, 6)]
    assert works(cut) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"pg_status": 5},
        {"pg_status": {"0": 5}},
        {"pg_status": {"0": {"last_enqueued_collective": 1 << 70}}},
        {"pg_status": {"0": {"last_enqueued_collective": True}}},
        {"pg_config": [1], "entries": 5},
        {"entries": [5, {}, {"pg_id": "x"}, {"process_group": "00"}]},
        {"entries": [entry(7, process_group=(["0"], {}))]},
        {"entries": [entry(7, frames=[{"filename": 1, "line": {}, "name": []}])]},
        {"entries": [entry(7, input_sizes=[[[1]], 5], time_created_ns=-5)]},
    ],
)
def test_values_of_the_wrong_kind_are_passed_over(changes: dict[str, Any]) -> None:
    recorded(document(pickle.dumps({**dump(entry(7)), **changes}, 2)))


def test_a_value_that_stands_in_it_a_billion_times_costs_nothing() -> None:
    bomb: Any = ["x"]
    for _ in range(40):
        bomb = [bomb, bomb]
    data = pickled(entry(7, input_sizes=bomb, process_group=(bomb, bomb), frames=bomb))

    assert works(document(data)) == []


def test_nothing_but_a_dump_looks_like_one() -> None:
    assert looks_like_dump(REAL[1])
    assert not looks_like_dump(pickle.dumps({"model": [1, 2], "version": 3}, 2))
    assert not looks_like_dump(b'{"message": {"message": "x"}}')
    assert kind(document(pickle.dumps({"a": 1}, 2))) is Kind.OTHER
    assert kind(document(b"ValueError: x\n")) is Kind.OTHER


def test_without_the_dumps_of_all_ranks_the_silent_rank_is_only_likely() -> None:
    names = [BEHIND / "console.log", *(BEHIND / f"nccl_trace_rank_{rank}" for rank in (0, 1, 3))]
    verdict = diagnose(gather([str(name) for name in names], {}, None).case)

    assert verdict.initiator.rank == 2
    assert verdict.cause.confidence == "likely"


def test_dumps_of_an_earlier_job_are_left_out() -> None:
    case = gather([str(BEHIND)], {}, None).case
    begun = max(e.begun_at for e in recorded(document(REAL[0])) if isinstance(e, WorkStatus))
    later = JobFacts(id="12", state="FAILED", started_at=epoch(begun.timestamp() + 3_600))

    verdict = diagnose(msgspec.structs.replace(case, facts=later))

    assert any("older than the job" in note for note in verdict.notes)
    assert not any(each.source == "flight recorder" for each in verdict.evidence)
    assert verdict.cause.confidence != "confirmed"


def test_a_record_holds_dumps_as_a_node_sends_them() -> None:
    case = gather([str(BEHIND / "console.log")], {}, None).case
    dumps = tuple(
        document(data, f"/tmp/nccl_trace_rank_{rank}", host="n1") for rank, data in REAL.items()
    )
    verdict = diagnose(Case(documents=(*case.documents, *dumps)))

    assert verdict.initiator.rank == 2
    assert verdict.cause.confidence == "confirmed"


def test_where_all_ranks_say_that_they_waited_the_dumps_tell_who_was_behind() -> None:
    words = (
        "[rank{0}]:[E1130 12:00:00.000000000 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=16, "
        "NumelOut=16, Timeout(ms)=60000) ran for 60052 milliseconds before timing out.\n"
    )
    console = "".join(words.format(rank) for rank in range(4)).encode()
    log = Document("console.log", (Excerpt(0, 1, console),), size=len(console))
    dumps = tuple(document(data, f"/tmp/nccl_trace_rank_{rank}") for rank, data in REAL.items())

    without = diagnose(Case(documents=(log,)))
    verdict = diagnose(Case(documents=(log, *dumps)))

    assert without.initiator.rank is None
    assert verdict.initiator.rank == 2
    assert verdict.cause.confidence == "likely"
    assert verdict.evidence[0].source == "flight recorder"
