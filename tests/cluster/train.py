"""A small training loop on the CPU (gloo) that fails as it is told to by FAULT.

FAULT_RANK says who (the global rank), FAULT_STEP when, FAULT_TEXT what an exception says; RECORD=0 leaves torchelastic's @record out,
and with it faulthandler. What really happened is written into TRUTH, which firstfault never reads:
rank-R.json (who ran where), ready-R (rank R is at FAULT_STEP). EVERY is how many steps lie between
two lines.
"""

import ctypes
import datetime
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import DataLoader, Dataset

FAULT = os.environ.get("FAULT", "")
FAULT_RANK = int(os.environ.get("FAULT_RANK", "0"))
FAULT_STEP = int(os.environ.get("FAULT_STEP", "5"))
EVERY = int(os.environ.get("EVERY", "5"))
FAULT_TEXT = os.environ.get("FAULT_TEXT", "")
STEPS = int(os.environ.get("STEPS", "20"))
RANK = int(os.environ["RANK"])
ATTEMPT = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
TRUTH = Path(os.environ["TRUTH"])


def eat_memory() -> None:
    held = []
    while True:
        held.append(bytearray(64 << 20))


def check_features(batch: torch.Tensor) -> None:
    raise ValueError(FAULT_TEXT or f"expected 4 features, got {batch.shape[-1] + 1}")


class Samples(Dataset):
    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if FAULT == "shm-full" and RANK == FAULT_RANK and index >= 4 * FAULT_STEP:
            return torch.ones(2_000_000)
        if FAULT == "loader-oom" and RANK == FAULT_RANK and index > 4 * FAULT_STEP:
            eat_memory()
        return torch.ones(4)


def fail(batch: torch.Tensor) -> None:
    if FAULT == "exception-all":
        check_features(batch)
    if RANK != FAULT_RANK:
        return
    if FAULT == "oom":
        eat_memory()
    if FAULT == "segfault":
        ctypes.string_at(0)
    if FAULT == "disk-full":
        Path("small/checkpoint.pt").write_bytes(bytes(4 << 20))
    if FAULT == "hang":
        time.sleep(3600)
    if FAULT == "abort":
        os.abort()
    if FAULT in ("exception", "exception-after-act"):
        check_features(batch)
    # agents count their restarts each for itself: the attempt's number does not tell
    if FAULT == "exception-once" and not (TRUTH / "failed").exists():
        (TRUTH / "failed").touch()
        check_features(batch)


def train() -> None:
    torch.set_num_threads(1)
    who: dict[str, object] = {
        "rank": RANK,
        "local_rank": int(os.environ["LOCAL_RANK"]),
        "pid": os.getpid(),
    }
    who |= {"host": os.environ["SLURMD_NODENAME"], "task": int(os.environ["SLURM_PROCID"])}
    who |= {"attempt": ATTEMPT}
    aside = TRUTH / f".rank-{RANK}"
    aside.write_text(json.dumps(who))
    patience_s = 3600 if FAULT == "hang" else 60
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=patience_s))
    aside.rename(TRUTH / f"rank-{RANK}.json")
    workers = 1 if FAULT in ("oom", "loader-oom", "shm-full") else 0
    batches = iter(DataLoader(Samples(), batch_size=4, num_workers=workers))
    for step in range(STEPS):
        batch = next(batches)
        loss = batch.sum()
        dist.all_reduce(loss)
        if step % EVERY == 0:
            print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)
        if step == FAULT_STEP:
            (TRUTH / f"ready-{RANK}").touch()
            while FAULT == "exception-after-act" and not (TRUTH / "acted").exists():
                time.sleep(0.1)
            fail(batch)
        time.sleep(0.1)
    dist.destroy_process_group()


if __name__ == "__main__":
    if os.environ.get("RECORD", "1") == "1":
        record(train)()
    else:
        train()
