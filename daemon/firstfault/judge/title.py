"""One line that says it: the cause with this case's facts in it."""

from __future__ import annotations

from firstfault.judge.node_words import limit_words, node_words
from firstfault.model.fault import Fault

_SIGNALS = {
    "process.abort-at-exit": "crashed while shutting down, after its work was done",
    "process.segfault": "died of a segmentation fault (SIGSEGV)",
    "process.abort": "aborted (SIGABRT)",
    "process.bus-error": "died of a bus error (SIGBUS)",
}
_SILENT = {
    "process.left-early": "ended with success while the others still needed it",
    "collective.timeout": "did not arrive at a collective; the others waited in vain",
    "collective.peer-lost": "was lost to the others; its own words are not in the evidence",
}
# What befell the launchers before any rank had begun; whole sentences.
_AGENTS = {
    "rendezvous.timeout": "Not all agents joined the rendezvous in time",
    "rendezvous.connect": "The rendezvous host could not be reached",
    "rendezvous.port-in-use": "The port of the rendezvous or of its store was taken",
}
# What could not be started; %s is the program, the folder or the file, where it is known.
_NOT_STARTED = {
    "command": "The command %s was not found",
    "not-executable": "%s could not be executed",
    "interpreter": "The interpreter %s was not found",
    "execve": "The program %s could not be started",
    "directory": "The working directory %s could not be entered",
    "output": "The output file %s could not be opened",
    "step": "The job step could not be created",
    "task": "A task could not be launched",
    "submission": "The job was not accepted",
    "prolog": "A prolog failed before the job could start",
    "container": "The container could not be started",
    "batch": "Slurm could not start the batch script",
}
# Where no process is known that failed first.
_ROOTLESS = {
    "collective.timeout": "Ranks waited in vain in a collective; no evidence tells for whom",
    "collective.peer-lost": "Ranks lost a peer; what became of it is not in the evidence",
}
# A title stays one line: an exception's message is cut here.
_LONGEST_MESSAGE = 160
_LONGEST_NAME = 80


def title(cause: str, roots: tuple[Fault, ...], *, unordered: bool, sure: bool) -> str:
    """The title of a verdict; ``roots`` as in `firstfault.judge.decide.Judgement`.

    ``sure`` is False where the verdict is not confirmed.
    """
    if cause == "none":
        return "No failure: the job succeeded" if sure else "No sign of a failure in this evidence"
    if not roots and cause in _ROOTLESS:
        return _ROOTLESS[cause]
    if cause == "unknown" or not roots:
        return _unknown(roots)
    if cause.startswith("slurm."):
        return _slurm(cause, roots[0])
    if cause in _AGENTS and roots[0].process is None:
        return _AGENTS[cause]
    if roots[0].process is None and not unordered and (said := node_words(roots[0])):
        return f"{f'Node {roots[0].host}' if roots[0].host else 'A node'} {said}"
    who = _victim(_who(roots, unordered), dict(roots[0].facts))
    return f"{who} {predicate(cause, roots[0])}"


def predicate(cause: str, fault: Fault) -> str:
    """What happened to a process, to stand after its name; a whole sentence for Slurm's causes."""
    facts = dict(fault.facts)
    if cause.startswith("slurm."):
        return _slurm(cause, fault)
    if said := node_words(fault):
        return said
    if cause == "memory.cgroup-oom":
        limit = _mebibytes(facts.get("limit_kb"))
        whose = limit_words(fault)
        full = f"{whose} memory limit ({limit}) was full" if limit else "a memory limit was full"
        return f"was killed by the kernel: {full}"
    if cause == "memory.host-oom" and "killer" in facts:
        return f"was ended by {facts['killer']}: the node was short of memory"
    if cause == "memory.host-oom" and "kernel" not in fault.sources:
        return "was killed: the node was short of memory"
    if cause == "memory.host-oom":
        return "was killed by the kernel: the node was out of memory"
    if cause == "process.killed":
        return "was killed (SIGKILL); nothing tells who sent it"
    if cause == "process.fatal-signal" and "signal" in facts:
        return f"died of {facts['signal']}"
    if cause in _SIGNALS:
        library = f" in {facts['library']}" if "library" in facts else ""
        at = f", in {facts['frame']}" if "frame" in facts else ""
        return f"{_SIGNALS[cause]}{library}{at}"
    if cause in _AGENTS and fault.process is None:
        return _AGENTS[cause]
    if fault.exception is not None:
        kind = (fault.exception.type or "an exception").rpartition(".")[2]
        message = (fault.exception.message or "").strip().split("\n")[0]
        short = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"
        return f"raised {kind}" + (f": {short}" if short else "")
    if cause in _SILENT:
        return _SILENT[cause]
    if cause == "process.interrupted" and "signal" in facts:
        return f"was told to stop from outside ({facts['signal']})"
    if cause == "process.exit" and "exit_code" in facts:
        return f"ended itself with exit code {facts['exit_code']} and left no reason"
    if "exit_code" in facts:
        return f"ended with exit code {facts['exit_code']} ({cause})"
    return f"shows signs of {cause}"


def happened(cause: str, fault: Fault) -> str:
    """What happened, to stand after a rank's name: to the process itself or to its worker."""
    told = predicate(cause, fault)
    return f"had a DataLoader worker that {told}" if "worker" in dict(fault.facts) else told


def _slurm(cause: str, fault: Fault) -> str:
    facts = dict(fault.facts)
    if cause == "slurm.time-limit":
        limit = facts.get("limit_s")
        return f"The job reached its time limit{f' ({_duration(int(limit))})' if limit else ''}"
    if cause == "slurm.cancelled":
        by = facts.get("by") or (f"uid {facts['by_uid']}" if "by_uid" in facts else None)
        return f"The job was cancelled{f' by {by}' if by else ''}"
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
    return "The job was preempted for another job" if cause == "slurm.preempted" else cause


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
    return "The evidence does not tell what failed first"


def _who(roots: tuple[Fault, ...], unordered: bool) -> str:
    first = roots[0]
    rank = first.process.rank if first.process else None
    on = f" on {first.host}" if first.host else ""
    if unordered or rank is None:
        task = f" on {first.host}" if first.host else ""
        return f"A process{task}" if not unordered else "One of several ranks"
    if len(roots) > 1:
        count = len(roots)
        return f"{count} ranks (rank {rank}{on} is the lowest)"
    return f"Rank {rank}{on}"


def _victim(who: str, facts: dict[str, str]) -> str:
    if "worker" in facts:
        return f"A DataLoader worker of {who[0].lower()}{who[1:]}"
    return who


def _mebibytes(kilobytes: str | None) -> str | None:
    if kilobytes is None or not kilobytes.isdigit():
        return None
    # An absent limit is near 2**63 bytes.
    value = int(kilobytes)
    return f"{value / 1024:,.0f} MiB" if 0 < value < 1 << 43 else None


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, seconds = divmod(rest, 60)
    clock = f"{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{days}-{clock}" if days else clock
