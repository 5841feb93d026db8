"""What trainers say on a good day, printed by two ranks of a real torchrun job."""

import logging
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
log = logging.getLogger("trainer")
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
warnings.warn("the error bars of this plot are estimates", stacklevel=2)
warnings.warn("failed to import flash_attn: using the slow path", ImportWarning, stacklevel=2)
log.warning("CUDA is not available: using the CPU, out of 4 devices 0 are usable")
log.info("No checkpoint found in /scratch/run7 (missing file is fine): starting anew")
log.info("abort_on_nan=False, max_errors=10, timeout=1800s, kill_switch=off")
log.info("NCCL_DEBUG=WARN NCCL_TIMEOUT=1800 TORCH_NCCL_ASYNC_ERROR_HANDLING=1")
for step in range(6):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    value = loss.item()
    sys.stderr.write(
        f"\rEpoch 1:  {step * 16}%|{'#' * step}{' ' * (6 - step)}| {step}/6 [00:0{step}<00:0{6 - step}, 3.31it/s, loss={value:.3f}]"
    )
    print(
        f"{{'loss': {value:.4f}, 'grad_norm': 0.{step}31, 'learning_rate': 3e-05, 'epoch': 0.{step}}}",
        flush=True,
    )
    log.info(
        "step %d | loss/mse_error=%.4f | val_error: 0.13 | word_error_rate 0.0%d | errors: 0 | failed: 0",
        step,
        value,
        step,
    )
sys.stderr.write("\n")
try:
    raise TimeoutError("no answer from the data server in 5 s")
except TimeoutError as error:
    log.warning("fetch of shard 17 failed (%s), retry 1/3 in 2 s", error)
log.info("fetch of shard 17 ok after a retry")
try:
    os.stat("/nonexistent/cache")
except FileNotFoundError as error:
    log.info("no cache yet: %s", error)
print("grad overflow, loss scale: reducing to 32768.0", flush=True)
print("Killed time: 3 s per step is spent on waiting, Aborted batches: 0", flush=True)
log.info("[Rank %d] memory: allocated 10.2 GB, reserved 12 GB, out of 80 GB", rank)
log.info("node exporter: connection reset counters 0, ECC errors 0, Xid events none")
if rank == 0:
    print(
        "Requirement already satisfied: exceptiongroup>=1.0 in ./lib/python3.11/site-packages (1.2.2)"
    )
    print("Successfully installed errorbars-0.3 failfast-1.1 killport-2.0", flush=True)
    print(
        "[2026-11-30 15:56:27,101] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=1, lr=[3e-05], mom=[(0.9, 0.999)]"
    )
    print(
        "[2026-11-30 15:56:28,101] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768"
    )
    for n in range(3):
        print(
            f"node1:{4000 + n}:{4000 + n} [{n}] NCCL INFO Channel 0{n}/02 : 0[{n}] -> 1[0] via SHM/direct/direct"
        )
    print(
        "node1:4000:4000 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."
    )
    print(
        "node1:4000:4000 [0] NCCL INFO comm 0x5581 rank 0 nranks 2 cudaDev 0 busId 1b000 - Abort COMPLETE"
    )
    print(
        "node1:4000:4000 [0] NCCL INFO comm 0x5581 rank 0 nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE",
        flush=True,
    )
dist.barrier()
dist.destroy_process_group()
log.info("training done: best val_error 0.118, 0 errors, 0 warnings")
