"""What looks like a failure and is none means nothing; what may mean several things is not sure."""

from __future__ import annotations

import pytest

from firstfault.signatures import EFFECTS, meaning

HARMLESS = (
    "val_error: 0.13 | train/loss: nan_to_num applied",
    "epoch 3 loss=0.412 grad_norm=1.7 lr=3e-4 errors=0",
    "0 errors, 3 warnings",
    "INFO: no error was found in 12 shards",
    "memory allocated: 12.1 GiB, peak 14.9 GiB, limit 64 GiB",
    "malloc(): tcmalloc is preloaded",
    "WARNING: [Errno 2] was retried, file is there now",
    "Retrying in 5 s: connection was reset",
    "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node01]:29500 (errno: 111 - Connection refused).",
    "[W socket.cpp:426] [c10d] The IPv6 network addresses of (node01, 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
    "[W socket.cpp:464] [c10d] The server socket on [::]:29500 has failed to bind. TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.",
    "[E ProcessGroupNCCL.cpp:474] Some NCCL operations have failed or timed out.",
    "NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal implementation",
    "libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.",
    "slurmstepd: error: pyxis: imported docker image: nvcr.example/train:1",
    "WARNING: No module named apex, using torch instead",
    "/scratch/job.sh: line 12: module: command not found",
    "srun: job 4242 queued and waiting for resources",
    "Assertion of shapes passed",
    "disk quota: 310 GB of 500 GB used",
    "overflow detected, setting loss scale to: 0.125",
    "checkpoint of step 400 is not corrupted",
)
UNTOLD = (
    "EOFError",
    "EOFError: EOF when reading a line",
    "ConnectionRefusedError: [Errno 111] Connection refused",
    "TimeoutError",
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hub.example', port=443): Max retries exceeded with url: /x (Caused by NameResolutionError(\"Failed to resolve 'hub.example' ([Errno -2] Name or service not known)\"))",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options",
    "BlockingIOError: [Errno 11] write could not complete without blocking",
    "BlockingIOError: [Errno 11] Unable to synchronously open file (unable to lock file, errno = 11, error message = 'Resource temporarily unavailable')",
    "PermissionError: [Errno 1] Operation not permitted",
    "lmdb.MapFullError: mdb_put: MDB_MAP_FULL: Environment mapsize limit reached",
    "RuntimeError: Expected to mark a variable ready only once.",
    "RuntimeError: unable to open shared memory object </torch_1201_33_7> in read-write mode: No such file or directory (2)",
    "ValueError: This file contains pickled (object) data.",
    "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
    "RuntimeError: Numpy version is 2",
    "IsADirectoryError: [Errno 21] Is a directory: '/data'",
)
DOUBTFUL = (
    "OSError: [Errno 98] Address already in use",
    "socket.gaierror: [Errno -2] Name or service not known",
    "EOFError: Ran out of input",
    "_pickle.UnpicklingError: pickle data was truncated",
    "FileNotFoundError: [Errno 2] No such file or directory",
    "PermissionError: [Errno 13] Permission denied",
    "OSError: [Errno 107] Transport endpoint is not connected",
    "BlockingIOError: [Errno 11] Resource temporarily unavailable",
    "RuntimeError: Connection refused",
    "RuntimeError: PytorchStreamWriter failed writing file data/17: file write failed",
    "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598",
    "RuntimeError: unable to mmap 4096 bytes from file </torch_1201_33_7>: Cannot allocate memory (12)",
    "RuntimeError: loss is nan at step 1200",
)


@pytest.mark.parametrize("line", HARMLESS)
@pytest.mark.parametrize("target", ["line", "exception"])
def test_a_harmless_line_means_nothing(target: str, line: str) -> None:
    assert meaning(target, line) is None


@pytest.mark.parametrize("text", UNTOLD)
def test_words_that_cannot_tell_between_causes_are_no_signature(text: str) -> None:
    assert meaning("exception", text) is None


@pytest.mark.parametrize("text", DOUBTFUL)
def test_words_that_something_else_may_say_too_make_nothing_sure(text: str) -> None:
    found = meaning("exception", text)

    assert found is not None
    assert found.means not in EFFECTS
    assert found.at_most != "confirmed"
