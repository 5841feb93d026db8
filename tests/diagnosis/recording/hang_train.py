"""A training loop on the CPU (gloo) that stops without a word, or is only slow, as HANG says.

On the ranks HANG_RANK at step HANG_STEP. STAMP=1 prints a time with each line, EVERY is how many
steps lie between two lines, ONLY_ZERO=1 lets rank 0 alone print, BUFFERED=1 does not flush, STACKS
is after how many seconds faulthandler dumps all stacks, again and again; SIGUSR1 dumps them too.
"""

import datetime
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

RANK = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
WORLD = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")))
TRUTH = Path(os.environ.get("TRUTH", "/tmp"))
STEPS = int(os.environ.get("STEPS", "3000"))
EVERY = int(os.environ.get("EVERY", "5"))
PACE_S = float(os.environ.get("PACE_S", "0.2"))
HANG = os.environ.get("HANG", "")
HANG_STEP = int(os.environ.get("HANG_STEP", "20"))
RANKS = [int(each) for each in os.environ.get("HANG_RANK", "0").split(",")]


def say(text):
    if os.environ.get("ONLY_ZERO") == "1" and RANK != 0:
        return
    if os.environ.get("STAMP") == "1":
        now = datetime.datetime.now()  # noqa: DTZ005 - a program prints its local time
        text = f"{now:%Y-%m-%d %H:%M:%S,%f}"[:-3] + f" INFO {text}"
    print(text, flush=os.environ.get("BUFFERED") != "1")


def take_lock(lock):
    with lock:
        return True


def read_shard(path):
    with open(path, "rb") as file:
        return file.read(4096)


def refresh_token():
    time.sleep(3600)


def stop_here(step):
    if HANG == "sleep":
        refresh_token()
    if HANG == "lock":
        lock = threading.Lock()
        lock.acquire()
        take_lock(lock)
    if HANG == "fifo":
        read_shard(Path(__file__).parent / f"data/shard-{step:05d}.bin")
    if HANG == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def note_truth():
    who = {"rank": RANK, "local_rank": LOCAL_RANK, "pid": os.getpid(), "attempt": 0}
    who["host"] = os.environ.get("SLURMD_NODENAME", "")
    aside = TRUTH / f".rank-{RANK}"
    aside.write_text(json.dumps(who))
    aside.rename(TRUTH / f"rank-{RANK}.json")


def main():
    torch.set_num_threads(1)
    note_truth()
    faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
    stacks = int(os.environ.get("STACKS", "0"))
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(RANK), str(WORLD)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=1800))
    if stacks:
        faulthandler.dump_traceback_later(stacks, repeat=True)
    if HANG == "fifo" and RANK in RANKS:
        os.mkfifo(Path(__file__).parent / f"data/shard-{HANG_STEP:05d}.bin")
    value = torch.ones(4)
    for step in range(1, STEPS + 1):
        if RANK in RANKS and step == HANG_STEP and os.environ.get("BEFORE") == "1":
            stop_here(step)
        if step % EVERY == 0:
            say(f"step {step}/{STEPS} loss {1 / step:.4f}")
        if step == HANG_STEP:
            (TRUTH / f"ready-{RANK}").touch()
            if RANK in RANKS:
                stop_here(step)
        dist.all_reduce(value)
        value /= WORLD
        time.sleep(PACE_S)
    if HANG == "save":
        say(f"saving checkpoint of step {STEPS}")
        time.sleep(3600)
    say("training finished")


if __name__ == "__main__":
    main()
