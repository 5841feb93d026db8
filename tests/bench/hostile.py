"""What texts of 64 KiB that were made to cost time cost the readers and each pattern.

    python -m tests.bench.hostile [--most 10]

Printed are the dearest, in processor milliseconds: a pattern that goes back and forth in a text
takes seconds or minutes. Told as numbers, not as a verdict: a busy machine makes any of them slow.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Callable, Iterator
from functools import partial

from firstfault.readers import kernel_records
from firstfault.readers.output import read_output
from tests.readers import test_hostile_lines as lines
from tests.readers import test_hostile_status as status
from tests.readers.logs import ZONE, document


def measured(call: Callable[[], object]) -> float:
    """Its processor milliseconds."""
    begun = time.process_time()
    call()
    return (time.process_time() - begun) * 1e3


def of_readers() -> Iterator[tuple[float, str, str]]:
    for text in status.TEXTS:
        for read in status.READERS:
            yield measured(partial(read, text)), read.__name__, text[:40]
    for text in lines.HOSTILE:
        output = partial(read_output, document(text), ZONE)
        yield measured(output), "of_output", text[:40]


def of_patterns() -> Iterator[tuple[float, str, str]]:
    for name, use in lines.patterns():
        # The kernel's reader cuts its lines first.
        kernels = name.startswith(("kernel", "cgroups"))
        limit = kernel_records.LONGEST if kernels else lines.LONGEST_TEXT
        for text in lines.HOSTILE:
            yield measured(partial(use, text[:limit])), name, text[:40]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10)
    given = parser.parse_args()
    for title, found in (("readers", of_readers()), ("patterns", of_patterns())):
        print(title)
        for spent, name, text in heapq.nlargest(given.most, found):
            print(f"  {spent:8.1f} ms  {name}  {text!r}")


if __name__ == "__main__":
    main()
