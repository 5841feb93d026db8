"""How long nodes are waited for: as configured, or as Slurm's own settings demand."""

from __future__ import annotations

import logging

from firstfault.app.journal import say
from firstfault.app.lifecycle import Timing
from firstfault.config import Config
from firstfault.slurm import settings
from firstfault.slurm.facts import FactsError

# slurm.conf changes seldom; where Slurm did not answer, it is asked again as late.
READ_EVERY_S = 600.0


class Settling:
    """Gives the judge its `Timing`; `once` reads Slurm's KillWait where that is wanted."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._asked = config.slurm.source != "none"
        self._kill_wait_s: float | None = None

    @property
    def is_read(self) -> bool:
        """True where the settings are to be read from Slurm."""
        return self._asked and self._config.judge.settle_s == "auto"

    def once(self) -> int:
        """Reads KillWait; what was read before counts where that fails."""
        slurm = self._config.slurm
        path = settings.find(slurm.sacct)
        try:
            if path is None:
                raise FactsError("scontrol is not on PATH")
            read_s = settings.kill_wait_s(path, slurm.timeout_s, slurm.clusters)
        except FactsError as error:
            taken_s = self.timing().kill_wait_s
            say(logging.WARNING, "kill-wait-not-read", taken_s=taken_s, error=error)
            return 0
        if read_s != self._kill_wait_s:
            say(logging.INFO, "kill-wait", s=read_s)
        self._kill_wait_s = read_s
        return 0

    def timing(self) -> Timing:
        """The settings as they are known now."""
        judge = self._config.judge
        timing = Timing(
            settle_s=None if judge.settle_s == "auto" else judge.settle_s,
            early_s=judge.early_s,
            first_ask_s=self._config.slurm.first_ask_s if self._asked else 0.0,
        )
        if self._kill_wait_s is None:
            return timing
        return Timing(timing.settle_s, timing.early_s, timing.first_ask_s, self._kill_wait_s)
