"""Slurm's filename patterns and the configuration's globs."""

from __future__ import annotations

import pytest

from firstfault_epilog import patterns

KNOWN = {"j": "12", "J": "12", "N": "n1", "u": "alice", "t": "0", "n": "0"}


def expand(pattern: str, work_dir: str | None = "/home/alice") -> str:
    path = patterns.slurm_output(pattern, work_dir, KNOWN)
    assert path is not None
    return "/" + "/".join(
        part if isinstance(part, str) else f"<{part.pattern}>" for part in path.parts
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("slurm-%j.out", "/home/alice/slurm-12.out"),
        ("/logs/%u/%N/%J", "/logs/alice/n1/12"),
        ("/logs/%4j-%10j-%99j", "/logs/0012-0000000012-0000000012"),
        ("/logs/100%%-%t-%n", "/logs/100%-0-0"),
        ("/logs/%q", "/logs/%q"),
        ("/logs/%4u", "/logs/alice"),
        ("/logs/%5%", "/logs/%"),
        ("/logs/\\%j.out", "/logs/%j.out"),
        ("//logs//./x", "/logs/./x"),
    ],
)
def test_a_pattern_is_expanded_as_slurm_does(pattern: str, expected: str) -> None:
    assert expand(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("%x-%j.out", ["a-12.out", "-12.out", "[x]*\n-12.out"], ["a-13.out", "a-12.out.bak"]),
        ("slurm-%A_%a.out", ["slurm-10_3.out"], ["slurm-10.out", "slurm-a_b.out"]),
        ("[%x](1).log", ["[a](1).log"], ["a1.log", "x(1).log"]),
    ],
)
def test_what_the_node_cannot_know_fits_any_value(
    pattern: str, fits: list[str], does_not: list[str]
) -> None:
    path = patterns.slurm_output(pattern, "/w", KNOWN)

    assert path is not None and not path.exact
    last = path.parts[-1]
    assert not isinstance(last, str)
    assert all(last.match(name) for name in fits)
    assert not any(last.match(name) for name in does_not)


@pytest.mark.parametrize("work_dir", [None, "", "relative"])
def test_a_relative_pattern_without_a_folder_cannot_be_told(work_dir: str | None) -> None:
    assert patterns.slurm_output("x.out", work_dir, KNOWN) is None


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n[1-4]", "n1"),
        ("n[01-04,7],m3", "n01"),
        ("gpu-a-03,gpu-b-01", "gpu-a-03"),
        ("rack[2,4]-n", "rack2-n"),
        ("n7", "n7"),
        ("n[1-2]x[3-4]", None),
        ("", None),
        (None, None),
        ("$(id)", None),
    ],
)
def test_the_batch_host_is_the_first_of_the_list(nodes: str | None, first: str | None) -> None:
    assert patterns.first_node(nodes) == first


def test_a_sites_glob_takes_values_literally() -> None:
    path = patterns.site_glob("/scratch/%u/*/%j_*", {"u": "a[b]*", "j": "12"})

    scratch, user, any_name, run = path.parts
    assert scratch == "scratch"
    assert not isinstance(user, str) and user.match("a[b]*") and not user.match("ab")
    assert not isinstance(any_name, str) and any_name.match("x")
    assert not isinstance(run, str) and run.match("12_x") and not run.match("112_x")
