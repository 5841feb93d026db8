"""What Slurm says of nodes now, for pages: asked behind the reader's back, and kept for a while."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from firstfault.app.journal import say
from firstfault.slurm import nodes
from firstfault.slurm.facts import FactsError
from firstfault.slurm.nodes import NodeState

# So long an answer counts as the present; then it is asked anew, and shown no more.
FRESH_S = 60.0
STALE_S = 600.0
# A page waits for the very first answer only, and not for long.
FIRST_S = 2.0
# A failure that goes on is told at its beginning, and then so often, with how often it was.
TOLD_S = 3600.0

Known = Mapping[tuple[str | None, str], NodeState]


class NodeStates:
    """Asks ``scontrol`` about the nodes of ``clusters`` (none: of the one in slurm.conf)."""

    def __init__(
        self,
        scontrol: Path,
        clusters: Sequence[str],
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scontrol = scontrol
        self._clusters = tuple(clusters)
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Known = {}
        self._asked_at: float | None = None
        self._answered_at: float | None = None
        self._asking: threading.Thread | None = None
        # What the log was told of last and when, and how often it failed since.
        self._told: tuple[str, float] | None = None
        self._untold = 0

    def known(self) -> Known:
        """States by cluster and node, at most `STALE_S` old; empty where Slurm does not answer.

        The nodes of the one cluster in slurm.conf are there without a cluster, too.
        """
        first = self._ask_anew()
        if first is not None:
            first.join(FIRST_S)
        with self._lock:
            answered = self._answered_at
            fresh = answered is not None and self._clock() - answered <= STALE_S
            return self._known if fresh else {}

    # The thread, where there was no answer yet.
    def _ask_anew(self) -> threading.Thread | None:
        with self._lock:
            now = self._clock()
            if self._asking is None and (self._asked_at is None or now - self._asked_at > FRESH_S):
                self._asked_at = now
                self._asking = threading.Thread(target=self._ask, name="node-states", daemon=True)
                self._asking.start()
            return self._asking if self._answered_at is None else None

    def _ask(self) -> None:
        try:
            found = self._answer()
        except FactsError as error:
            self._tell(str(error))
            found = None
        else:
            self._tell(None)
        with self._lock:
            self._asking = None
            if found is not None:
                self._known = found
                self._answered_at = self._clock()

    # One thread asks at a time, so one tells at a time.
    def _tell(self, error: str | None) -> None:
        told, now = self._told, self._clock()
        if error is not None and told is not None:
            self._untold += 1
            if told[0] == error and now - told[1] < TOLD_S:
                return
        count, self._untold = self._untold or None, 0
        if error is not None:
            say(logging.WARNING, "node-states-unknown", error=error, count=count)
            self._told = error, now
        elif told is not None:
            say(logging.INFO, "node-states-known", count=count)
            self._told = None

    def _answer(self) -> Known:
        found: dict[tuple[str | None, str], NodeState] = {}
        if not self._clusters:
            name = nodes.cluster_name(self._scontrol, self._timeout_s)
            for node, state in nodes.states(self._scontrol, self._timeout_s).items():
                found[name, node] = found[None, node] = state
        for cluster in self._clusters:
            for node, state in nodes.states(self._scontrol, self._timeout_s, cluster).items():
                found[cluster, node] = state
        return found
