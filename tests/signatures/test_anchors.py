"""One list of anchors, made from the signatures, for the collector and for explain."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from firstfault.signatures import TARGETS, known_anchors, parse, signatures
from firstfault.signatures.anchors import as_text, compiled, derived, escaped, unescaped
from firstfault.signatures.signature import Signature
from tests.signatures.test_signatures import SOUND

ROOT = Path(__file__).parents[2]
ANCHORS = [anchor for each in known_anchors().values() for anchor in each]


def test_the_collectors_list_is_the_generated_one() -> None:
    text = (ROOT / "epilog/firstfault_epilog/anchors.txt").read_text()

    assert text == as_text(known_anchors()), "run epilog/build-pyz --anchors"


@pytest.mark.parametrize("anchor", ANCHORS)
def test_an_anchor_is_read_by_grep_as_by_python(anchor: str) -> None:
    samples = [
        s for target in TARGETS for each in signatures(target) for s in each.signature.samples
    ]
    lines = [line for sample in samples for line in sample.split("\n")]
    lines += (ROOT / "tests/epilog/anchor-lines.txt").read_text().split("\n")
    lines.append(unescaped(anchor) or "")
    expected = [line for line in lines if re.search(anchor, line)]

    found = subprocess.run(
        ["/bin/grep", "-aE", "-e", anchor],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env={"LC_ALL": "C"},
        check=False,
    )

    assert found.stdout.split("\n")[:-1] == expected
    assert expected, "each anchor has a sample line"


@pytest.mark.parametrize(
    "line",
    [
        "[rank0]: step 1234 loss 0.5 throughput 1234.5",
        "Epoch 3:  42%|####      | 420/1000 [00:12<00:17, 33.1it/s, loss=0.53]",
        "node-1:178:828 [0] NCCL INFO Channel 00/02 : 0 1 2 3",
        "2026-11-30 15:56:27 INFO trainer.py:12 saved checkpoint to /scratch/x",
    ],
)
def test_an_ordinary_line_holds_no_anchor(line: str) -> None:
    assert not compiled(ANCHORS).search(line)


def test_an_anchor_is_read_from_each_way_through_a_pattern() -> None:
    assert derived(sign("(?:lost the way|went \\(astray\\)) at \\d+")) == (
        "lost the way at ",
        "went \\(astray\\) at ",
    )


def test_the_anchors_that_a_signature_names_count() -> None:
    named = SOUND.replace("means =", "anchors = ['kab[o0]om']\nmeans =")

    assert derived(parse(named, "a.toml", frozenset({"python.exception"}))[0].signature) == (
        "kab[o0]om",
    )


@pytest.mark.parametrize("word", ["a.b", "x (y) [z] {1}", "a*b+c?", "^$|\\", "plain"])
def test_an_escaped_word_matches_itself_alone(word: str) -> None:
    assert re.fullmatch(escaped(word), word)
    assert unescaped(escaped(word)) == word


def test_a_pattern_is_no_word() -> None:
    assert unescaped("a[bc]") is None


def sign(pattern: str) -> Signature:
    return Signature("a", "line", pattern, "waited", ("x",), "a program", "never")


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):",
        "failed (exitcode: -9) local_rank: 1 (pid: 7)",
        "Root Cause (first observed failure):",
        "W1130 api.py:1028] Sending process 7 closing signal SIGTERM",
        "Fatal Python error: Segmentation fault",
        "slurmstepd-n4: error: Detected 1 oom_kill event in StepId=12.0.",
        "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-30T15:56:27 ***",
        "srun: error: Node failure on n4",
        "pt_main_thread[7]: segfault at 8 ip 0 sp 0",
        "Memory cgroup out of memory: Killed process 7 (python3)",
        "NVRM: Xid (PCI:0000:9b:00): 79",
        "[rank3]: ValueError: bad",
    ],
)
def test_what_names_a_failure_holds_an_anchor(text: str) -> None:
    assert compiled(ANCHORS).search(text)
