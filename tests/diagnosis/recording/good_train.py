"""Two epochs of training on the CPU (gloo) in which all that goes wrong is taken care of.

What a trainer says on such a day: samples that cannot be read, a loss of NaN whose batch is skipped,
a checkpoint that fails once with its traceback, warnings of torch and of Python, an optional package
that is not there. --resume goes on from last.pt. FAIL_ONCE=1 lets rank 1 end with exit code 75 in
the first attempt, after which torchrun starts all anew.
"""

import argparse
import datetime
import logging
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

RANK = int(os.environ["RANK"])
ATTEMPT = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
FAIL_ONCE = os.environ.get("FAIL_ONCE") == "1"
KEPT = Path("last.pt")
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
log = logging.getLogger("train")


class Samples(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        if index % 97 == 0:
            warnings.warn(f"sample {index}: truncated to 128 tokens", stacklevel=1)
        if index % 131 == 0:
            try:
                raise OSError(5, "Input/output error", f"/data/shard-{index:05d}.tar")
            except OSError as error:
                log.warning("could not read a sample, taking the next one: %s", error)
        return torch.randn(16), torch.randint(0, 4, ())


def optional_packages():
    try:
        import apex  # noqa: F401
    except ImportError as error:
        log.warning("%s: torch's own AdamW instead", error)
    if not torch.cuda.is_available():
        log.warning("no CUDA device is visible, training on the CPU")


def save(model, step):
    try:
        if step == 16:
            raise RuntimeError("the store answered 503 Service Unavailable")
        if RANK == 0:
            torch.save({"model": model.state_dict(), "step": step}, KEPT)
    except RuntimeError:
        log.exception("checkpoint of step %d failed, trying again with the next one", step)
    dist.barrier()


def resumed(model):
    if not KEPT.exists():
        log.warning("%s: No such file or directory, starting from scratch", KEPT)
        return 0
    held = torch.load(KEPT, weights_only=True)
    model.load_state_dict(held["model"])
    log.info("resumed from %s at step %d", KEPT, held["step"])
    return int(held["step"])


def main(resume, epochs):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
    optional_packages()
    model = DistributedDataParallel(torch.nn.Linear(16, 4))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.optim.lr_scheduler.StepLR(optimiser, 10).step()
    step = resumed(model) if resume else 0
    data = Samples()
    sampler = DistributedSampler(data)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch, labels in DataLoader(data, batch_size=16, sampler=sampler, num_workers=2):
            step += 1
            loss = torch.nn.functional.cross_entropy(model(batch), labels)
            if step == 7:
                log.warning("step %d: loss is nan, skipping batch; the scale is 32768.0 now", step)
                loss = loss * 0
            optimiser.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            if step % 4 == 0:
                said = f"epoch {epoch} step {step} loss {loss.item():.4f} grad_norm {norm:.3f}"
                print(f"{said} errors=0 failed_samples=0 killed_workers=0", flush=True)
            if step % 16 == 0:
                save(model, step)
            if FAIL_ONCE and ATTEMPT == 0 and RANK == 1 and step == 20:
                sys.exit(75)
        log.info("epoch %d: val_loss 1.3862 (best 1.3862), patience 1/3", epoch)
    log.info("training finished: %d steps, 0 errors", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--epochs", type=int, default=2)
    main(**vars(parser.parse_args()))
