"""A remedy names the file, host or port that the exception's message names."""

from __future__ import annotations

import time

import pytest

from firstfault.judge.named import named


@pytest.mark.parametrize(
    ("message", "facts"),
    [
        (
            "[Errno 28] No space left on device: '/scratch/run7/step_400.pt'",
            {"path": "/scratch/run7/step_400.pt", "folder": "/scratch/run7"},
        ),
        ("[Errno 2] No such file or directory: 'train.bin'", {"path": "train.bin"}),
        (
            "[Errno 2] Unable to synchronously open file (unable to open file: name = '/data/x.h5', "
            "errno = 2, error message = 'No such file or directory', flags = 0, o_flags = 0)",
            {"path": "/data/x.h5", "folder": "/data"},
        ),
        (
            "unable to open file </data/tokens.bin> in read-only mode: No such file or directory (2)",
            {"path": "/data/tokens.bin", "folder": "/data"},
        ),
        (
            "Parent directory /scratch/run7 does not exist.",
            {"path": "/scratch/run7", "folder": "/scratch"},
        ),
        (
            "/data/train.lmdb: No such file or directory",
            {"path": "/data/train.lmdb", "folder": "/data"},
        ),
        (
            "unable to allocate shared memory(shm) for file </torch_15731_1200_0>: No space left on "
            "device (28)",
            {},
        ),
        ("[Errno 28] No space left on device", {}),
        ("No module named 'apex.amp'", {"module": "apex.amp"}),
        (
            "The client socket has timed out after 60000ms while trying to connect to (node01, 38629).",
            {"rdzv_host": "node01"},
        ),
        (
            "The server socket has failed to listen on any local network address. port: 29500, "
            "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            {"port": "29500"},
        ),
        (
            "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
            {"port": "29500"},
        ),
        ("bad shape (3, 4)", {}),
    ],
)
def test_a_message_tells_the_facts_that_it_names(message: str, facts: dict[str, str]) -> None:
    assert named(message) == facts


@pytest.mark.parametrize("part", ["[Errno 2] a", "name = '", "(a", "/", "file <", "port: 1"])
def test_a_hostile_message_costs_little(part: str) -> None:
    started = time.process_time()
    named(part * (65_536 // len(part)))

    assert time.process_time() - started < 1.0
