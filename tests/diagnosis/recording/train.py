"""A small training loop on the CPU (gloo) that fails as FAULT says: on FAULT_RANK at FAULT_STEP.

Runs under torchrun, or under srun with a task a rank, with torch 1.13 to 2.13. Who really ran where
is written into the folder TRUTH (rank-R.json, ready-R), which is never a part of the evidence.
"""

import argparse
import datetime
import json
import os
import socket
import time
from pathlib import Path

import faults
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

RANK = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
WORLD = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
FAULT_STEP = int(os.environ.get("FAULT_STEP", "5"))
STEPS = int(os.environ.get("STEPS", "20"))
TIMEOUT_S = int(os.environ.get("TIMEOUT_S", "60"))
WORKERS = int(os.environ.get("WORKERS", "0"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")))
TRUTH = Path(os.environ.get("TRUTH", "/tmp"))


class Samples(Dataset):
    def __len__(self):
        return int(os.environ.get("SAMPLES", "400000"))

    def __getitem__(self, index):
        faults.in_loader(index // 4)
        return torch.ones(faults.sample_size())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.aux = nn.Linear(4, 2)

    def forward(self, batch):
        out = self.head(batch[:, :4])
        return out if faults.is_here("unused") else out + self.aux(batch[:, :4])


def note_truth():
    who = {"rank": RANK, "local_rank": LOCAL_RANK, "pid": os.getpid()}
    who["host"] = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    who["attempt"] = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    aside = TRUTH / f".rank-{RANK}"
    aside.write_text(json.dumps(who))
    aside.rename(TRUTH / f"rank-{RANK}.json")


def train():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    note_truth()
    faults.before_start()
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(RANK), str(WORLD)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=TIMEOUT_S))
    model = DistributedDataParallel(Net()) if faults.wants_ddp() else Net()
    faults.after_start(model)
    batches = iter(DataLoader(Samples(), batch_size=4, num_workers=WORKERS))
    steps = faults.steps(STEPS)
    for step in range(steps):
        batch = next(batches)
        loss = model(batch).square().mean()
        loss.backward()
        dist.all_reduce(loss.detach())
        if step % 5 == 0:
            print(f"step {step} loss {1 / (step + 1):.4f} lr {args.lr}", flush=True)
        if step == FAULT_STEP:
            (TRUTH / f"ready-{RANK}").touch()
        if step >= FAULT_STEP:
            faults.at_step(step, model, batch)
        time.sleep(0.1)
    faults.at_end()
    if steps == STEPS:
        dist.barrier()
        dist.destroy_process_group()
    print("training finished", flush=True)


if __name__ == "__main__":
    if os.environ.get("RECORD") == "1":
        from torch.distributed.elastic.multiprocessing.errors import record

        train = record(train)
    train()
