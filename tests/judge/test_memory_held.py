from pathlib import Path

from firstfault.model import verdict as v
from tests.diagnosis.case_files import explain, files


def test_the_verdict_tells_which_rank_held_how_much_of_which_limit() -> None:
    held = explain(files("live-oom-4n")).memory

    assert held is not None
    assert (held.host, held.limit_kib, held.used_kib) == ("n3", 2_048_000, 2_048_000)
    assert held.holders[0] == v.Holder(23452, "python3", 1_801_564, rank=5, killed=True)
    assert held.holders[1].rank == 4


def test_others_than_the_jobs_user_are_a_sum_without_a_name(tmp_path: Path) -> None:
    given = files("made-host-oom")
    (log,) = (file for file in given if file.endswith("dmesg.txt"))
    changed = tmp_path / "n2" / "dmesg.txt"
    changed.parent.mkdir()
    changed.write_text(Path(log).read_text().replace("[   1410]     0 ", "[   1410]  1300 "))
    verdict = explain([str(changed) if file == log else file for file in given])

    assert verdict.memory is not None
    assert verdict.memory.limit_kib is None
    assert verdict.memory.others == v.Sum(1, 2_848)
    assert b"sshd" not in v.encode(verdict)


def test_without_a_kill_there_is_no_table() -> None:
    assert explain(files("exc")).memory is None
