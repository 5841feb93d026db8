"""The facts of a case that remedies name: what is advised holds this case's own values."""

from __future__ import annotations

import re

from firstfault.judge import keeping, proofs
from firstfault.judge.decide import Judgement
from firstfault.judge.named import named
from firstfault.model.fault import Fault
from firstfault.model.run import Run, Told
from firstfault.model.verdict import CONFIRMED
from firstfault.readers import nodelist

# Before and after a moment, what to look at in a log around it.
_BEFORE_S, _AFTER_S = 120, 60
# As the driver prints it, with or without the function: nvidia-smi wants it.
_PCI = re.compile(r"(?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(\.[0-7])?")


def facts_of(told: Told, run: Run | None, judgement: Judgement) -> dict[str, str]:
    """The facts that fill the remedies' placeholders, by the names of `report.causes.FACTS`."""
    ids = sorted(told.jobs)
    launcher = keeping.launcher(run) if run is not None else ""
    pods = keeping.pods(run) if run is not None else ()
    known: dict[str, str | None] = {
        "job": told.facts.id if told.facts else ids[0] if len(ids) == 1 else None,
        "nodes": nodelist.fold(told.nodes) if told.nodes else None,
        "partition": told.facts.partition if told.facts else None,
        "slurm": "yes" if keeping.is_slurms(told, run) else None,
        "kept": keeping.kept(launcher, pods) if launcher else None,
        "confirmed": "yes" if judgement.confidence == CONFIRMED else None,
    }
    if judgement.roots and not judgement.unordered:
        known |= _of_fault(judgement.roots[0])
        if known.get("host") in pods:
            # A pod is no host that one can log in to.
            known["pod"] = known["host"]
            known["host"] = dict(judgement.roots[0].facts).get("node")
        known["node"] = _node(told, known["host"]) if known["slurm"] else None
        known["sure"] = known["confirmed"] if _is_surely_there(told, judgement, known) else None
        if not told.zoned:
            known["since"] = known["until"] = None
    return {name: value for name, value in known.items() if value}


# What is drained for it must be that node and no other.
def _is_surely_there(told: Told, judgement: Judgement, known: dict[str, str | None]) -> bool:
    of_host = all(fault.rank_sure or "kernel" in fault.sources for fault in judgement.roots)
    alone = len({fault.host for fault in judgement.roots}) == 1
    return of_host and alone and known["node"] in told.nodes


# Slurm's name for a host: agents say the whole domain name. A host that is not the job's has none.
def _node(told: Told, host: str | None) -> str | None:
    if host is None or not told.nodes:
        return host
    short = host.partition(".")[0]
    return next((name for name in (host, short) if name in told.nodes), None)


def _of_fault(fault: Fault) -> dict[str, str | None]:
    facts = dict(fault.facts)
    known: dict[str, str | None] = {
        "host": fault.host,
        "pid": None if fault.pid is None else str(fault.pid),
        "canceller_uid": facts.get("by_uid"),
        "canceller_root": "yes" if facts.get("by_uid") == "0" else None,
        "container_limit": "yes" if _is_containers(fault) else None,
        "user_limit": "yes" if facts.get("limit_of") == "user" else None,
        "hung": facts.get("hung"),
        "advancing": facts.get("advancing"),
        "amd": "yes" if facts.get("sign", "").startswith("kernel.amdgpu") else None,
    }
    if not known["amd"] and (pci := _PCI.fullmatch(facts.get("gpu", ""))):
        known["gpu"] = f"{pci[1]}{pci[2] or '.0'}"
    if fault.process is not None and fault.process.rank is not None:
        known["rank"] = str(fault.process.rank)
    if fault.exception is not None:
        known["file"] = fault.exception.file
        known["line"] = None if fault.exception.line is None else str(fault.exception.line)
        known |= named(fault.exception.message or "")
    else:
        for each in reversed(proofs.ordered([fault])):
            known |= named(each.place.text)
    if fault.at is not None and fault.at.latest is not None:
        end = int(fault.at.latest.timestamp())
        known["since"], known["until"] = str(end - _BEFORE_S), str(end + _AFTER_S)
    return known


def _is_containers(fault: Fault) -> bool:
    limit = dict(fault.facts).get("limit_of")
    return limit in ("pod", "container") or "kubernetes" in fault.sources
