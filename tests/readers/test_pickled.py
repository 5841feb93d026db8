"""Pickles are read for their plain values alone, whole or cut; nothing in them is ever called."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.readers.pickled import NotPlain, plain

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 80), 1 << 80)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.tuples(inner, inner, inner, inner)
        | st.dictionaries(st.text(), inner)
    ),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([2, 4, 5]))
def test_plain_values_are_as_pickle_reads_them(value: object, protocol: int) -> None:
    assert plain(pickle.dumps(value, protocol)) == (value, True)


class Evil:
    """Would run a command if it were built."""

    def __reduce__(self) -> object:
        return os.system, ("touch /tmp/must-not-be",)

    def __repr__(self) -> str:
        return "Evil()"  # a test's name must be the same in each worker


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "value", [Evil(), {"entries": [Evil()]}, {1, 2}, b"bytes", os.system, range(3), 1j], ids=repr
)
def test_what_would_be_built_or_called_is_refused(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)

    with pytest.raises(NotPlain):
        plain(data)


def test_of_a_pickle_that_was_cut_what_stands_before_is_read() -> None:
    value = {"version": "2.10", "status": {"0": {"begun": 5}}, "entries": [{"n": 1}, {"n": 2}]}
    data = pickle.dumps(value, 2)
    whole = data.index(b"entries")

    assert plain(data[:whole]).value["status"] == {"0": {"begun": 5}}
    assert plain(data[:-4]).value["entries"][0] == {"n": 1}
    assert not plain(data[:-4]).whole


def test_wherever_it_is_cut_or_spoiled_only_its_own_error_is_raised() -> None:
    data = pickle.dumps({"a": [(1, 2.5, "x" * 20)], "b": {"c": [None, True]}}, 2)
    dice = random.Random(1)
    spoiled = [data[:end] for end in range(len(data))]
    for _ in range(3_000):
        changed = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        spoiled.append(bytes(changed))

    for each in spoiled:
        try:
            plain(each)
        except NotPlain:
            continue


@pytest.mark.parametrize(
    "evil",
    [
        b"\x80\x02]q\x00h\x00a.",  # a list in itself
        b"\x80\x02}X\xff\xff\xff\x7fabc",  # a text longer than the file
        b"\x80\x02h\x05.",  # what was never put
        b"\x80\x02a.",
        b"\x80\x02}]]s.",  # a key that cannot be one
        b"(" * 100_000,
        b"",
        b"\x80\x02.",
    ],
)
def test_what_is_no_sound_pickle_does_no_harm(evil: bytes) -> None:
    try:
        value, _ = plain(evil)
    except NotPlain:
        return

    assert isinstance(value, dict | list | type(None))


def test_a_dump_that_torch_wrote_is_as_pickle_reads_it() -> None:
    folder = Path(__file__).parents[1] / "cases" / "t213-recorder-desync"
    for file in folder.glob("nccl_trace_rank_*"):
        data = file.read_bytes()

        assert plain(data) == (pickle.loads(data), True)


def test_what_takes_too_long_is_read_in_part() -> None:
    begun = pickle.dumps({"status": 1}, 2)[:-1]
    deep = plain(begun + b"]" * 3_000_000)

    assert deep == ({"status": 1}, False)
    with pytest.raises(NotPlain):
        plain(begun + b"(" * 3_000_000)
