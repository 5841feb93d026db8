"""The facts of a case that remedies name: what is advised holds this case's own values."""

from __future__ import annotations

from firstfault.judge import keeping, proofs
from firstfault.judge.decide import Judgement
from firstfault.judge.named import named
from firstfault.model.fault import Fault
from firstfault.model.run import Run, Told
from firstfault.readers import nodelist

# Before and after a moment, what to look at in a log around it.
_BEFORE_S, _AFTER_S = 120, 60


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
    }
    if judgement.roots and not judgement.unordered:
        known |= _of_fault(judgement.roots[0])
        if known.get("host") in pods:
            # A pod is no host that one can log in to.
            known["pod"] = known["host"]
            known["host"] = dict(judgement.roots[0].facts).get("node")
        if not told.zoned:
            known["since"] = known["until"] = None
    return {name: value for name, value in known.items() if value}


def _of_fault(fault: Fault) -> dict[str, str | None]:
    facts = dict(fault.facts)
    known: dict[str, str | None] = {
        "host": fault.host,
        "pid": None if fault.pid is None else str(fault.pid),
        "canceller_uid": facts.get("by_uid"),
        "canceller_root": "yes" if facts.get("by_uid") == "0" else None,
        "container_limit": "yes" if _is_containers(fault) else None,
        "user_limit": "yes" if facts.get("limit_of") == "user" else None,
    }
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
