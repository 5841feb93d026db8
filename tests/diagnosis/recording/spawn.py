"""Starts train.py's ranks with torch.multiprocessing.spawn, as programs without torchrun do."""

import os
import runpy
import sys

import torch.multiprocessing as mp


def worker(rank, world):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    sys.argv = ["train.py"]
    runpy.run_path("train.py", run_name="__main__")


if __name__ == "__main__":
    world = int(sys.argv[-1])
    mp.spawn(worker, args=(world,), nprocs=world)
