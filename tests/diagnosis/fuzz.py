"""Feeds damaged and invented logs to every reader: none may raise, none may take longer than
its size explains.

    python -m tests.diagnosis.fuzz [--count 1000000] [--seed 1]

Inputs are made from lines of the recorded cases and from what the readers look for: cut, joined,
repeated, mixed with bytes of any value. A failing input is printed with its seed and number.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import msgspec

from firstfault.diagnosis import diagnose
from firstfault.model.case import Case
from firstfault.model.document import Document, Excerpt
from firstfault.readers import sacct, scontrol
from firstfault.readers.epilog import epilog_event
from firstfault.readers.error_file import error_file_event
from firstfault.readers.flight_recorder import recorded
from firstfault.readers.kernel import kernel_events, quoted_kernel_events
from firstfault.readers.kind import kind
from firstfault.readers.nodelist import NodeListError, expand
from firstfault.readers.output import read_output
from firstfault.readers.slurm_log import slurm_notes
from firstfault.readers.times import zone
from tests.diagnosis.case_files import CASES, NAMES, case

# Far above what a reader takes, far below what a search that goes back and forth would.
SECONDS_A_BYTE = 40e-6
SECONDS_AT_LEAST = 0.25
_GLUE = (b"\n", b"\n", b"\n", b"\r", b"\r\n", b"", b" ", b"\x00", b"\n\n")
_BYTES = (b"\xff", b"\x00", b"\x1b[", b"[", b"]", b"(", b'"', b"'", b"{", b"}", b":", b"=", b"%")
_NAMES = (
    "slurm.out",
    "a_b/attempt_0/1/stderr.log",
    "dmesg.txt",
    "error.json",
    "x.txt",
    "fr/nccl_trace_rank_3",
)
_KINDS = (
    None,
    "job-output",
    "rank-log",
    "kernel",
    "error-json",
    "epilog-environment",
    "flight-recorder",
)


class Failure(msgspec.Struct, frozen=True):
    """What went wrong with which input."""

    reader: str
    number: int
    why: str
    data: bytes


@cache
def lines() -> tuple[bytes, ...]:
    """The distinct lines of all recorded cases."""
    found: dict[bytes, None] = {}
    for name in NAMES:
        for document in case(name).documents:
            for excerpt in document.excerpts:
                found.update(dict.fromkeys(excerpt.data.split(b"\n")))
    return tuple(found)


def one(chance: random.Random) -> Document:
    """One made-up document."""
    parts = []
    for _ in range(chance.choice((1, 1, 2, 3, 5, 8, 20))):
        line = chance.choice(lines())
        if chance.random() < 0.5:
            line = _damaged(chance, line)
        parts += [line] * (chance.choice((1, 1, 1, 1, 2, 50)) if len(line) < 500 else 1)
        parts.append(chance.choice(_GLUE))
    data = b"".join(parts)
    return Document(
        chance.choice(_NAMES),
        (Excerpt(0, 1, data),) if data else (),
        host=chance.choice((None, None, "n1")),
        what=chance.choice(_KINDS),
        size=len(data),
    )


def _damaged(chance: random.Random, line: bytes) -> bytes:
    low = chance.randrange(len(line) + 1)
    high = chance.randrange(low, len(line) + 1)
    kind_of_damage = chance.randrange(6)
    if kind_of_damage == 0:
        return line[low:high]
    if kind_of_damage == 1:
        return line[:low] + chance.choice(lines())[:200] + line[high:]
    if kind_of_damage == 2:
        return line[:low] + chance.choice(_BYTES) + line[low:]
    if kind_of_damage == 3:
        return line[:low] + bytes(chance.randrange(256) for _ in range(4)) + line[high:]
    if kind_of_damage == 4:
        return line[:low] + line[low:high] * chance.choice((2, 9)) + line[high:]
    return line[:low] + str(chance.choice((0, -1, 10**9, 10**30))).encode() + line[high:]


def _texts(read: Callable[[str], object], document: Document) -> None:
    text = b"".join(e.data for e in document.excerpts).decode("utf-8", "replace")
    # What they raise for what they cannot read.
    with contextlib.suppress(ValueError, NodeListError):
        read(text)


def _bytes(read: Callable[[bytes], object], document: Document) -> None:
    with contextlib.suppress(ValueError):
        read(b"".join(e.data for e in document.excerpts))


# A real dump with some of the made-up bytes in it, which would hardly ever be a pickle themselves.
def _spliced(document: Document) -> Document:
    data = b"".join(e.data for e in document.excerpts)
    dump = (CASES / "t213-recorder-behind" / "nccl_trace_rank_0").read_bytes()
    at = sum(data[:64]) * 7 % len(dump)
    part = data[: 1 + len(data) % 32]
    spoiled = dump[:at] + part + dump[at + len(part) :]
    return msgspec.structs.replace(
        document, name="nccl_trace_rank_3", excerpts=(Excerpt(0, 1, spoiled),)
    )


READERS: dict[str, Callable[[Document], object]] = {
    "kind": kind,
    "output": lambda d: read_output(d, zone(d)),
    "kernel": lambda d: list(kernel_events(d, zone(d))),
    "quoted kernel": lambda d: list(quoted_kernel_events(d, zone(d))),
    "error.json": error_file_event,
    "flight recorder": lambda d: recorded(_spliced(d)),
    "epilog": epilog_event,
    "sacct": partial(_texts, sacct.parse_text),
    "sacct --json": partial(_bytes, sacct.parse_json),
    "scontrol": partial(_texts, scontrol.parse_jobs),
    "seff": partial(_texts, scontrol.parse_seff),
    "Slurm's logs": lambda d: list(slurm_notes(d, zone(d))),
    "node list": partial(_texts, expand),
    "diagnosis": lambda d: diagnose(Case((d,))),
}


def failures(count: int, seed: int, readers: Sequence[str] = tuple(READERS)) -> Iterator[Failure]:
    """The failures among ``count`` inputs, each read by one of the ``readers`` in turn."""
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        document = one(chance)
        name = readers[number % len(readers)]
        data = b"".join(e.data for e in document.excerpts)
        if why := _wrong(READERS[name], document, len(data)):
            yield Failure(name, number, why, data)


def _wrong(read: Callable[[Document], object], document: Document, size: int) -> str | None:
    allowed = SECONDS_AT_LEAST + size * SECONDS_A_BYTE
    took = 0.0
    # A machine that does other things as well may stop for a moment: not three times.
    for _ in range(3):
        start = time.process_time()
        try:
            read(document)
        except Exception as error:  # noqa: BLE001 - any exception is what is looked for
            return f"{type(error).__name__}: {error}"
        took = time.process_time() - start
        if took <= allowed:
            return None
    return f"took {took:.2f} s for {size} bytes"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = 0
    for failure in failures(options.count, options.seed):
        found += 1
        print(failure.reader, failure.number, failure.why, repr(failure.data[:2000]), flush=True)
    print(f"{options.count} inputs, {found} failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
