"""Node lists as Slurm prints them."""

from __future__ import annotations

import pytest

from firstfault.readers import nodelist


def test_a_list_expands_in_natural_order() -> None:
    assert nodelist.expand("n[2-3,10],gpu07") == ("gpu07", "n2", "n3", "n10")


def test_leading_zeros_are_kept() -> None:
    assert nodelist.expand("n[008-010]") == ("n008", "n009", "n010")


def test_nodes_fold_as_slurm_prints_them() -> None:
    assert nodelist.fold(["n3", "n1", "n2"]) == "n[1-3]"


@pytest.mark.parametrize("text", ["", "@all", "n*", "a b", "n[1", "n[1-900000]", "n1!n2"])
def test_what_slurm_does_not_print_is_refused(text: str) -> None:
    with pytest.raises(nodelist.NodeListError):
        nodelist.expand(text)
