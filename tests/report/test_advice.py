from firstfault.report.advice import ON_CALL, OWNER, by_reader
from firstfault.report.outline import outline
from firstfault.report.sections import Advice, Limits, Listing
from tests.diagnosis.case_files import explain, files

DO = Listing(("Raise --mem.", "Administrators: look at n3."))
COMMANDS = Listing(("sacct -j 12", "scontrol show node n3", "ssh n3 df -h"))


def test_owner_and_administrators_read_each_their_own():
    assert by_reader(DO, COMMANDS, "user", 9) == (
        Advice(OWNER, Listing(("Raise --mem.",)), Listing(("sacct -j 12",))),
        Advice(
            ON_CALL, Listing(("Look at n3.",)), Listing(("scontrol show node n3", "ssh n3 df -h"))
        ),
    )


def test_who_acts_first_reads_first():
    assert [part.reader for part in by_reader(DO, COMMANDS, "system", 9)] == [ON_CALL, OWNER]


def test_where_one_alone_is_spoken_to_nothing_is_set_apart():
    alone = Listing(("Raise --mem.",))

    assert by_reader(alone, COMMANDS, "user", 9) == (Advice("", alone, COMMANDS),)
    assert by_reader(Listing(), Listing(), "user", 9) == ()


def test_what_was_left_out_is_still_counted():
    parts = by_reader(Listing(DO.items, 3), Listing(COMMANDS.items, 2), "user", 9)

    assert sum(part.do.left_out for part in parts) == 3
    assert sum(part.commands.left_out for part in parts) == 2


def test_whoever_is_on_call_finds_the_command_that_drains_the_node():
    said = outline(explain(files("live-node-fail")), Limits(items=25, quote=1000))

    assert said.advice[0].reader == ON_CALL
    assert any(
        "scontrol update nodename=n2 state=drain" in c for c in said.advice[0].commands.items
    )


def test_each_reader_keeps_the_first_of_their_own():
    parts = by_reader(DO, COMMANDS, "user", 1)

    assert [len(part.do.items) for part in parts] == [1, 1]
    assert [part.do.items for part in by_reader(DO, COMMANDS, "system", 1)] == [
        parts[1].do.items,
        parts[0].do.items,
    ]
    kept = sum(len(part.do.items) + part.do.left_out for part in parts)
    assert kept == len(DO.items)
