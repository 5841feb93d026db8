"""What a process did with its card, in words: from the facts of `firstfault.faults.card_words`."""

from __future__ import annotations

from firstfault.model.fault import Fault

_LONGEST = 120


def card_words(fault: Fault) -> str | None:
    """What to say after a process's name; None where the facts of a card say nothing more."""
    facts = dict(fault.facts)
    if fault.cause == "gpu.device-assert" and "assertion" in facts:
        return f"failed an assertion on its GPU: {facts['assertion'][:_LONGEST]}"
    if fault.cause != "memory.gpu-oom" or "tried" not in facts:
        return None
    said = f"ran out of GPU memory when it asked for {facts['tried']}"
    if "holder" in facts:
        said += f"; {facts['holder']} held {facts['held']} of that GPU, it had {facts['own']}"
    return said
