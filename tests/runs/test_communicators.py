"""Ranks that NCCL's own words give to its lines."""

from __future__ import annotations

from firstfault.model import verdict as v
from tests.diagnosis import made

LOST = "NET/IB : Got completion from peer 10.0.0.7<52960> with status=12 opcode=1 len=0 vendor err 129 (Send)"


def joined(host: str, pid: int, rank: int, size: int) -> str:
    return (
        f"{host}:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0xaa2f160 rank {rank} nranks {size} "
        "cudaDev 0 nvmlDev 0 busId 8000 commId 0x551d06754c6bacf2 - Init START"
    )


def warned(host: str, pid: int) -> str:
    return f"{host}:{pid}:{pid + 9} [0] transport/net_ib.cc:1295 NCCL WARN {LOST}"


def judged(*lines: str) -> v.Verdict:
    return made.judged(made.console(list(lines)))


def test_nccls_line_is_the_ranks_that_its_process_is() -> None:
    verdict = judged(joined("n1", 100, 0, 2), joined("n2", 100, 1, 2), warned("n2", 100))

    assert verdict.cause.id == "collective.network"
    assert (verdict.initiator.rank, verdict.initiator.host) == (1, "n2")


def test_a_communicator_of_a_part_of_the_ranks_names_none() -> None:
    groups = [joined("n1", 100, 0, 2), joined("n1", 101, 1, 2)]
    groups += [joined("n2", 200, 0, 2), joined("n2", 201, 1, 2)]
    verdict = judged(*groups, warned("n2", 201))

    assert verdict.initiator.rank is None
    assert verdict.initiator.host == "n2"


def test_ranks_of_which_not_all_speak_are_none_unless_their_number_is_told() -> None:
    lines = (joined("n2", 200, 1, 8), warned("n2", 200))

    assert judged(*lines).initiator.rank is None
    assert judged("rank=0 world_size=8", *lines).initiator.rank == 1
    assert judged("rank=0 world_size=16", *lines).initiator.rank is None


def test_a_rank_that_bears_another_ones_prefix_belies_them_all() -> None:
    verdict = judged(
        f"[rank3]: {joined('n1', 100, 0, 2)}", joined("n2", 100, 1, 2), warned("n2", 100)
    )

    assert verdict.initiator.rank is None


def test_lines_of_nccl_on_several_hosts_name_no_host() -> None:
    verdict = judged(warned("n1", 100), warned("n2", 100))

    assert verdict.cause.id == "collective.network"
    assert verdict.initiator.host is None
