"""One line that says it: the cause with this case's facts in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from firstfault.judge.card_words import card_words
from firstfault.judge.hang_words import ended
from firstfault.judge.named import named
from firstfault.judge.node_words import limit_words, node_words
from firstfault.judge.phrases import GPU, duration, phrase, plural, raised, refusal, stuck, waiting
from firstfault.judge.ranks import ranges
from firstfault.model.fault import Fault
from firstfault.readers import nodelist

_SIGNALS = frozenset(
    {"process.abort-at-exit", "process.segfault", "process.abort", "process.bus-error"}
)
# What could not be started; %s is the program, the folder or the file, where it is known.
_NOT_STARTED = {
    "command": "The command %s was not found",
    "not-executable": "%s could not be executed",
    "interpreter": "The interpreter %s was not found",
    "execve": "The program %s could not be started",
    "directory": "The working directory %s could not be entered",
    "output": "The output file %s could not be opened",
    "output-folder": "The folder %s of the job's output was not found",
    "step": "The job step could not be created",
    "task": "A task could not be launched",
    "submission": "The job was not accepted",
    "prolog": "A prolog failed before the job could start",
    "container": "The container could not be started",
    "batch": "Slurm could not start the batch script",
}
_RENDEZVOUS = frozenset({"rendezvous.timeout", "rendezvous.connect", "rendezvous.port-in-use"})
# A task that srun names: of which ranks, nothing tells.
_TASK = re.compile(r"\bsrun: error: \S{1,255}: task (\d{1,7}): ")
_LONGEST_NAME = 80
_LONGEST_LIST = 40


def title(
    cause: str,
    roots: tuple[Fault, ...],
    *,
    unordered: bool,
    sure: bool,
    texts: Sequence[str] = (),
    hit: Sequence[int] = (),
) -> str:
    """The title of a verdict; ``roots`` as in `firstfault.judge.decide.Judgement`.

    ``sure`` is False where the verdict is not confirmed; ``texts`` are the lines that it quotes.
    ``hit`` are the ranks that lost a peer or waited, where no first fault is known.
    """
    if cause == "none":
        return "No failure: the job succeeded" if sure else "No sign of a failure in this evidence"
    if not roots and cause == "collective.timeout":
        return (
            f"{_ranks(hit)} waited{waiting(texts)} in vain for others; no evidence tells for whom"
        )
    if not roots and cause == "collective.peer-lost":
        return f"{_ranks(hit)} lost a peer; what became of it is not in the evidence"
    if cause == "unknown" or not roots:
        return _unknown(roots)
    if cause.startswith("slurm."):
        return _slurm(cause, roots[0])
    if cause in _RENDEZVOUS and roots[0].process is None:
        return _rendezvous(cause, texts)
    many = len(roots) > 1 and not unordered
    said = predicate(cause, roots[0], texts)
    if many and roots[0].exception is None:
        said = plural(said)
    return f"{_subject(cause, roots, unordered, texts)} {said}"


def predicate(cause: str, fault: Fault, texts: Sequence[str] = ()) -> str:
    """What happened to a process, to stand after its name; a whole sentence for Slurm's causes."""
    facts = dict(fault.facts)
    if cause.startswith("slurm."):
        return _slurm(cause, fault)
    if said := node_words(fault) or card_words(fault):
        return said
    if cause in ("memory.cgroup-oom", "memory.host-oom"):
        return _out_of_memory(cause, fault)
    if cause == "process.fatal-signal" and "signal" in facts:
        return f"died of {facts['signal']}"
    if cause in _SIGNALS:
        library = f" in {facts['library']}" if "library" in facts else ""
        at = f", in {facts['frame']}" if "frame" in facts else ""
        return f"{phrase(cause)}{library}{at}"
    if cause in _RENDEZVOUS and fault.process is None:
        return _rendezvous(cause, texts)
    if fault.exception is not None and "worker" not in facts:
        kind, message = fault.exception.type, fault.exception.message
        return raised(cause, kind or "an exception", message or "")
    if cause == "collective.timeout":
        return f"{phrase(cause)}; the others waited{waiting(texts)} in vain"
    if cause == "process.stuck" and "where" in facts:
        return f"stood still in {facts['where']} while the others waited for it in a collective"
    if cause == "process.stuck":
        return f"was stuck{stuck(texts)}, and nothing tells in what"
    if cause == "process.interrupted" and "signal" in facts:
        return f"{phrase(cause)} ({facts['signal']})"
    if cause == "process.exit" and "exit_code" in facts:
        return f"ended itself with exit code {facts['exit_code']} and left no reason"
    if cause in GPU and fault.process is None and "kernel" in fault.sources:
        return GPU[cause]
    return phrase(cause) + _detail(cause, texts)


# What the first line adds: the words of a refusal, the file that it names.
def _detail(cause: str, texts: Sequence[str]) -> str:
    first = texts[0] if texts else ""
    if cause == "python.arguments":
        found = refusal(first)
        return f": {found[1]}" if found else ""
    path = named(first).get("path", "") if cause.startswith("storage.") else ""
    return f": {path}" if 0 < len(path) <= _LONGEST_NAME else ""


def _out_of_memory(cause: str, fault: Fault) -> str:
    facts = dict(fault.facts)
    if cause == "memory.cgroup-oom":
        limit = _mebibytes(facts.get("limit_kb"))
        whose = limit_words(fault)
        full = f"{whose} memory limit ({limit}) was full" if limit else "a memory limit was full"
        return f"was killed by the kernel: {full}"
    if "killer" in facts:
        return f"was ended by {facts['killer']}: the node was short of memory"
    if "kernel" in fault.sources:
        return "was killed by the kernel: the node was out of memory"
    return phrase(cause)


def _rendezvous(cause: str, texts: Sequence[str]) -> str:
    facts: dict[str, str] = {}
    for text in texts:
        facts = {**named(text), **facts}
    port = facts.get("port")
    if cause == "rendezvous.timeout":
        return "Not all agents joined the rendezvous in time"
    if cause == "rendezvous.port-in-use":
        return (
            f"{f'Port {port}' if port else 'The port'} of the rendezvous or of its store was taken"
        )
    host = f" {facts['rdzv_host']}" if "rdzv_host" in facts else ""
    return f"The rendezvous host{host} could not be reached"


def happened(fault: Fault) -> str:
    """What happened, to stand after a rank's or a host's name; a sentence where no rank is known."""
    cause = fault.cause
    texts = [each.place.text for each in fault.proofs]
    told = predicate(cause, fault, texts)
    if fault.process is not None:
        return f"had a DataLoader worker that {told}" if "worker" in dict(fault.facts) else told
    if cause.startswith("slurm.") or cause in _RENDEZVOUS or (node_words(fault) and fault.host):
        return told
    who = _subject(cause, (msgspec.structs.replace(fault, host=None),), False, texts)
    return f"{who[0].lower()}{who[1:]} {told}"


def _slurm(cause: str, fault: Fault) -> str:
    facts = dict(fault.facts)
    if cause == "slurm.time-limit":
        long = f" ({duration(int(facts['limit_s']))})" if "limit_s" in facts else ""
        reached = f"its time limit{long}"
        return ended(fault, f"reached {reached}", f"until {reached}")
    if cause == "slurm.cancelled":
        by = facts.get("by") or (f"uid {facts['by_uid']}" if "by_uid" in facts else None)
        cancelled = f"was cancelled{f' by {by}' if by else ''}"
        return ended(fault, cancelled, f"until it {cancelled}")
    if cause == "slurm.node-fail":
        return f"Node {fault.host} failed" if fault.host else "A node of the job failed"
    if cause == "slurm.launch":
        return _launch(fault, facts)
    if cause == "slurm.memory-poll":
        limit = _mebibytes(facts.get("limit_kb"))
        return (
            f"Slurm ended the job for the memory that it used{f' (limit {limit})' if limit else ''}"
        )
    if cause == "slurm.boot-fail":
        return (
            f"Node {fault.host} did not boot" if fault.host else "A node did not boot for the job"
        )
    if cause == "slurm.preempted":
        preempted = "was preempted for another job"
        return ended(fault, preempted, f"until it {preempted}")
    return cause


def _launch(fault: Fault, facts: dict[str, str]) -> str:
    on = f" on {fault.host}" if fault.host else ""
    program = facts.get("program", "")
    short = program if len(program) <= _LONGEST_NAME else f"{program[:_LONGEST_NAME]}…"
    words = _NOT_STARTED.get(facts.get("what", ""), "Something could not be started")
    return f"{words.replace('%s ', f'{short} ' if short else '')}{on}"


def _unknown(roots: tuple[Fault, ...]) -> str:
    if len(roots) == 1:
        who = _who(roots, False)
        code = dict(roots[0].facts).get("exit_code")
        if roots[0].exception is not None and roots[0].exception.type:
            kind = roots[0].exception.type.rpartition(".")[2]
            return f"{who} failed with {kind}; what was behind it is not told"
        if code is not None:
            return f"{who} ended with exit code {code}; the evidence does not tell why"
    codes = {dict(fault.facts).get("exit_code") for fault in roots}
    if len(codes) == 1 and (code := codes.pop()) is not None:
        count = len(roots)
        return f"{count} processes ended with exit code {code}; the evidence does not tell why"
    return "The evidence does not tell what failed first"


# "Rank 3", "Ranks 0-2,5", "512 ranks" where the list would be long.
def _ranks(numbers: Sequence[int]) -> str:
    listed = ranges(numbers)
    if listed is None:
        return "Ranks"
    if len(listed) > _LONGEST_LIST:
        return f"{len(numbers):,} ranks"
    return f"{'Rank' if len(numbers) == 1 else 'Ranks'} {listed}"


# Who it happened to, to stand before the verb.
def _subject(cause: str, roots: tuple[Fault, ...], unordered: bool, texts: Sequence[str]) -> str:
    first = roots[0]
    if first.process is not None or unordered:
        who = _who(roots, unordered)
        if "worker" not in dict(first.facts):
            return who
        if unordered:
            return f"{who[: who.index(';')]}; a DataLoader worker of{who[who.index(';') + 1 :]}"
        workers = "DataLoader workers" if len(roots) > 1 else "A DataLoader worker"
        return f"{workers} of {who[0].lower()}{who[1:]}"
    on = f" on {first.host}" if first.host else ""
    if node_words(first):
        if len(roots) > 1:
            return f"{len(roots)} nodes ({nodelist.fold([f.host for f in roots if f.host])})"
        return f"Node {first.host}" if first.host else "A node"
    if "kubernetes" in first.sources:
        return f"Pod {first.host}" if first.host else "A pod"
    if cause in GPU and "kernel" in first.sources:
        return f"A GPU of {first.host}" if first.host else "A GPU"
    if cause == "process.interrupted" and "agent" in first.sources:
        return f"The job's launcher{on}"
    if cause == "python.arguments" and texts and (found := refusal(texts[0])):
        return f"{found[0]}{on}"
    if texts and (task := _TASK.search(texts[0])):
        return f"Task {task[1]}{on}"
    return _who(roots, unordered)


def _who(roots: tuple[Fault, ...], unordered: bool) -> str:
    first = roots[0]
    rank = first.process.rank if first.process else None
    on = f" on {first.host}" if first.host else ""
    if unordered:
        who = f"rank {rank}{on}" if rank is not None else f"a process{on}"
        return f"It cannot be told what failed first; {who}"
    if rank is None:
        return f"A process{on}"
    if len(roots) > 1:
        return f"{len(roots)} ranks (rank {rank}{on} is the lowest)"
    return f"Rank {rank}{on}"


def _mebibytes(kilobytes: str | None) -> str | None:
    if kilobytes is None or not kilobytes.isdigit():
        return None
    # An absent limit is near 2**63 bytes.
    value = int(kilobytes)
    return f"{value / 1024:,.0f} MiB" if 0 < value < 1 << 43 else None
