"""The faults that train.py meets, each by its real means."""

import atexit
import ctypes
import gzip
import json
import mmap
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

FAULT = os.environ.get("FAULT", "")
RANKS = [int(each) for each in os.environ.get("FAULT_RANK", "0").split(",")]
RANK = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
FAULT_STEP = int(os.environ.get("FAULT_STEP", "5"))
ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
TRUTH = Path(os.environ.get("TRUTH", "/tmp"))
HERE = Path(__file__).resolve().parent


def is_here(*names):
    """Whether this rank is to fail in one of these ways."""
    return FAULT in names and RANK in RANKS


def once():
    """True the first time; an attempt's number does not tell, for agents count each for itself."""
    mark = TRUTH / f"failed-{RANK}"
    first = not mark.exists()
    mark.touch()
    return first


def wants_ddp():
    return FAULT in ("unused", "ddp")


def sample_size():
    return 2_000_000 if FAULT == "shm" and RANK in RANKS else 4


def steps(planned):
    return FAULT_STEP if is_here("left-early") else planned


def eat_memory():
    held = []
    while True:
        held.append(bytearray(32 << 20))


def in_loader(index):
    if index < FAULT_STEP:
        return
    if is_here("loader-key"):
        labels = {"cat": 0, "dog": 1}
        labels["fox"]
    if is_here("loader-oom"):
        eat_memory()
    if is_here("loader-segfault"):
        ctypes.string_at(0)
    if is_here("loader-file"):
        np.load(HERE / "data/shard-00041.npy")


def before_start():
    if is_here("import"):
        import flash_attention_kernels  # noqa: F401
    if is_here("import-name"):
        from torch.distributed import init_device_pool  # noqa: F401
    if is_here("import-library"):
        ctypes.CDLL("libcustom_ops_cpu.so.2")
    if is_here("import-numpy"):
        np.float_matrix_type  # noqa: B018
    if is_here("early-exception"):
        raise RuntimeError("tokenizer vocabulary has 32000 entries, model expects 32128")
    if is_here("early-exit"):
        sys.exit(1)
    if is_here("config-file"):
        json.loads((HERE / "data/config.json").read_text())
    if is_here("missing-file"):
        (HERE / "data/vocab.txt").read_text()
    if is_here("missing-folder"):
        print(len(os.listdir(HERE / "data/train-shards")))
    if is_here("gpu"):
        torch.ones(1).cuda()
    if is_here("nccl"):
        dist.init_process_group("nccl")
    if is_here("hang-before-init"):
        time.sleep(3600)
    if is_here("abort-at-exit"):
        atexit.register(os.abort)
    if is_here("segfault-at-exit"):
        atexit.register(ctypes.string_at, 0)
    if is_here("slow-start"):
        time.sleep(3)


def after_start(model):
    if is_here("checkpoint"):
        torch.load(HERE / "data/checkpoint.pt")
    if is_here("gzip"):
        with gzip.open(HERE / "data/index.json.gz") as file:
            json.load(file)
    if is_here("pickle"):
        with open(HERE / "data/meta.pkl", "rb") as file:
            pickle.load(file)
    if is_here("state-dict"):
        state = {"head.weight": torch.ones(3, 4), "head.bias": torch.ones(3)}
        model.load_state_dict(state)
    if is_here("permission"):
        (HERE / "data/secret.json").read_text()


def machine_code(code):
    """Runs machine code in this process."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()


def crash():
    if FAULT == "segfault":
        ctypes.string_at(0)
    if FAULT == "abort":
        os.abort()
    if FAULT == "terminate":
        ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev()
    if FAULT == "double-free":
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        block = ctypes.c_void_p(libc.malloc(64))
        libc.free(block)
        libc.free(block)
    if FAULT == "assert":
        libc = ctypes.CDLL(None)
        libc.__assert_fail(b"queue->size > 0", b"ops/ring_buffer.c", 218, b"ring_buffer_pop")
    if FAULT == "illegal":
        machine_code(b"\x0f\x0b")  # ud2
    if FAULT == "divide":
        machine_code(b"\xb8\x01\x00\x00\x00\x99\x31\xc9\xf7\xf9\xc3")  # 1 / 0
    if FAULT == "bus":
        with open(HERE / f"cache-{RANK}.bin", "w+b") as file:
            file.truncate(4096)
            page = mmap.mmap(file.fileno(), 4096)
            file.truncate(0)
            page[0]
    if FAULT == "kill-self":
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "os-exit":
        os._exit(7)
    if FAULT == "exit":
        sys.exit(3)
    if FAULT == "exit-message":
        sys.exit("no free license for the augmentation library")
    if FAULT == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)


def exhaust():
    if FAULT == "oom":
        eat_memory()
    if FAULT == "memory-error":
        bytearray(1 << 45)
    if FAULT == "numpy-memory":
        np.ones((1 << 14, 1 << 14, 1 << 14))
    if FAULT == "torch-memory":
        torch.empty(1 << 44)
    if FAULT == "open-files":
        held = []
        for number in range(100_000):
            held.append(open(HERE / "train.py"))  # noqa: SIM115
            del number
    if FAULT == "threads":
        for _ in range(20_000):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if FAULT == "fork":
        held = [subprocess.Popen(["sleep", "30"]) for _ in range(5000)]
    if FAULT == "disk-write":
        with open(HERE / "ckpt/metrics.bin", "wb") as file:
            while True:
                file.write(b"x" * (1 << 20))
                file.flush()
    if FAULT == "disk-save":
        torch.save({"weights": torch.ones(8 << 20)}, HERE / "ckpt/step-5.pt")
    if FAULT == "small-save":
        torch.save({"weights": torch.ones(8)}, HERE / "ckpt/step-5.pt")
    if FAULT == "small-write":
        (HERE / "ckpt/step-5.json").write_text("{}")
    if FAULT == "full-device":
        with open("/dev/full", "wb") as file:
            file.write(b"x")
    if FAULT == "read-io":
        with open(HERE / "ckpt/shard.bin", "rb") as file:
            file.read(4096)


def load_sample():
    return {"text": 1}["input_ids"]


def feed(samples):
    for number in range(3):
        samples.put(number)
    raise ValueError("sample 4711 has no label")


def raise_error(step, model, batch):
    if FAULT == "exception":
        raise ValueError(f"expected 4 features, got {batch.shape[-1] + 1}")
    if FAULT == "assertion":
        assert batch.shape[-1] == 8, f"hidden size {batch.shape[-1]} is not divisible by 8 heads"
    if FAULT == "shape":
        model.head(batch[:, :3])
    if FAULT == "chained":
        try:
            load_sample()
        except KeyError as error:
            raise RuntimeError(f"could not build batch {step}") from error
    if FAULT == "during":
        try:
            load_sample()
        except KeyError:
            [][step]
    if FAULT == "nested-quiet":
        try:
            load_sample()
        except KeyError:
            raise LookupError("sample store is inconsistent") from None
    if FAULT == "thread":
        samples = queue.Queue()
        threading.Thread(target=feed, args=(samples,), name="feeder", daemon=True).start()
        while True:
            samples.get(timeout=5)
    if FAULT == "nan":
        loss = torch.tensor(float("nan"))
        if not torch.isfinite(loss):
            raise FloatingPointError(f"loss is {loss.item()} at step {step}, stopping training")
    if FAULT == "nan-anomaly":
        with torch.autograd.detect_anomaly():
            value = torch.zeros(2, requires_grad=True)
            (value.sqrt() * 0).sum().backward()
    if FAULT == "file":
        open(HERE / "data/shard-00017.tar")  # noqa: SIM115


def collective(step, batch):
    value = batch.sum()
    if FAULT == "mismatch":
        if RANK in RANKS:
            dist.broadcast(value, 0)
        else:
            dist.all_reduce(value)
    if FAULT == "shapes":
        value = torch.ones(8 if RANK in RANKS else 4)
        dist.all_reduce(value, op=ReduceOp.SUM)
    if FAULT == "monitored" and RANK not in RANKS:
        import datetime

        dist.monitored_barrier(timeout=datetime.timedelta(seconds=6))
    if FAULT == "barrier" and RANK not in RANKS:
        dist.barrier()
    if FAULT in ("hang", "monitored", "barrier") and RANK in RANKS:
        time.sleep(3600)
    if FAULT == "hang-all":
        time.sleep(3600)


def at_step(step, model, batch):
    if step == FAULT_STEP:
        collective(step, batch)
    if RANK not in RANKS:
        return
    if FAULT == "caught":
        harmless(step)
    if FAULT == "fails-twice" and step == FAULT_STEP:
        if once():
            raise ConnectionError("feature store answered 503")
        raise ValueError("sample 99 was already consumed")
    if FAULT == "fails-once" and step == FAULT_STEP:
        if once():
            raise ValueError(f"expected 4 features, got {batch.shape[-1] + 1}")
    elif FAULT == "slow":
        time.sleep(1)
    elif step == FAULT_STEP:
        crash()
        exhaust()
        raise_error(step, model, batch)


def harmless(step):
    """What looks alarming and is not."""
    if step == FAULT_STEP:
        try:
            load_sample()
        except KeyError:
            import traceback

            print("could not read a sample, retrying (1/3)", file=sys.stderr)
            traceback.print_exc()
    if step == FAULT_STEP + 1:
        print("WARNING: CUDA out of memory guard disabled; NCCL error handling off", flush=True)
        print("evaluation: error rate 0.031, 2 of 64 samples failed", flush=True)
    if step == FAULT_STEP + 2:
        subprocess.run(["false"], check=False)
        print("RuntimeError: connection reset (attempt 1 of 5), trying again", flush=True)


def at_end():
    if is_here("end-exception"):
        raise ValueError("metric 'accuracy' was never updated")
    if is_here("nan-run"):
        print("final loss nan", flush=True)
