"""The same faults in a program of PyTorch Lightning, which starts the other ranks itself."""

import os
from pathlib import Path

import faults
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

TRUTH = Path(os.environ.get("TRUTH", "/tmp"))


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 2)

    def training_step(self, batch, index):
        faults.RANK = self.global_rank
        if index >= faults.FAULT_STEP:
            (TRUTH / f"ready-{self.global_rank}").touch()
            faults.at_step(index, self, batch[0])
        return self.head(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        default_root_dir="/tmp",
    )
    trainer.fit(Net(), DataLoader(TensorDataset(torch.ones(160, 4)), batch_size=4))
