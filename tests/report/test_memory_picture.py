import msgspec

from firstfault.model import verdict as v
from firstfault.report import html
from firstfault.report.memory_picture import NOTE, memory_picture
from tests.diagnosis.case_files import explain, files
from tests.report import verdicts as examples
from tests.report.test_forms import Reader

MEMORY = v.Memory(
    host="n3",
    limit_kib=2_048_000,
    used_kib=2_047_000,
    holders=(
        v.Holder(23452, "python3", 1_024_000, rank=5, killed=True),
        v.Holder(23440, "python3", 204_800, rank=4),
    ),
    rest=v.Sum(7, 100_000),
    others=v.Sum(1, 2_000),
)


def test_bars_are_as_long_as_what_was_held_of_the_limit():
    found = memory_picture(MEMORY)

    assert found is not None
    assert found.limit == 100
    assert [(bar.name, bar.kind, bar.width) for bar in found.bars] == [
        ("python3 (rank 5, pid 23452)", "killed", 50),
        ("python3 (rank 4, pid 23440)", "own", 10),
        ("7 smaller processes", "own", 4.88),
        ("1 process of other users", "others", 0.1),
    ]


def test_processes_may_hold_more_than_the_limit_for_shared_pages_count_for_each():
    held = (msgspec.structs.replace(MEMORY.holders[0], kib=4_096_000),)
    found = memory_picture(msgspec.structs.replace(MEMORY, holders=held))

    assert found is not None
    assert (found.bars[0].width, found.limit) == (100, 50)


def test_where_the_host_was_full_there_is_no_line_for_a_limit():
    found = memory_picture(msgspec.structs.replace(MEMORY, limit_kib=None, used_kib=None))

    assert found is not None
    assert found.limit is None
    assert found.sentence == "What processes held when the memory on n3 ran out."


def test_without_a_table_nothing_is_drawn():
    assert memory_picture(None) is None
    assert memory_picture(msgspec.structs.replace(MEMORY, holders=())) is None


def test_the_page_draws_what_the_note_says_and_leaves_the_note_out():
    verdict = explain(files("live-oom-4n"))
    seen = Reader(html.render(verdict)).seen()

    assert any(note.startswith(f"{NOTE} on n3:") for note in verdict.notes)
    assert NOTE not in seen
    assert "python3 (rank 5, pid 23452)" in seen
    assert "The limit on memory on n3: 2,000 MiB, 2,000 MiB in use." in seen


def test_a_hostile_command_is_shown_as_it_was_written():
    evil = v.Holder(1, "<b>\x1b[31mevil\u202e", 10)
    memory = msgspec.structs.replace(MEMORY, holders=(evil,))
    page = html.render(msgspec.structs.replace(examples.CGROUP_OOM, memory=memory))

    assert "&lt;b&gt;evil\\u202e (pid 1)" in page
