"""What the kernel said of a node beyond kills: panics, machine checks, hung tasks, lost storage.

Such a line counts where it is of a host of the job, within the job's time, and not after the
ranks of that host had failed. What was corrected or found again counts for nothing.

| sign | counts as |
|---|---|
| a panic | the host's fault; what Slurm calls a failed node is narrowed to it |
| a fault that names a rank's pid, and the rank died so (SIGBUS, SIGKILL) | that rank's, in place of its signal |
| a hung task that is a rank's | that rank's, where nothing surer stands beside it |
| the same cause in a rank's own words (an I/O error, a full disk) on that host | a second source |
| a card that failed, and a rank of that host met a CUDA error | that rank's cause (cards.py) |
| a link to other hosts that failed | the host's (links.py) |
| any other | the host's, where nothing surer stands beside it; as sure as its signature allows |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from firstfault.faults.cards import with_cards
from firstfault.faults.clocks import in_hosts_window
from firstfault.faults.death import Death
from firstfault.faults.links import NETWORK, with_links
from firstfault.faults.processes import proof
from firstfault.faults.signals import exit_signal
from firstfault.model.event import KernelSign, NodeFailure
from firstfault.model.fault import Fault, Proof
from firstfault.model.line import Span
from firstfault.model.run import Happened, Process, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY, POSSIBLE, UNKNOWN
from firstfault.signatures import signatures

PANICS = frozenset({"kernel.panic", "kernel.panic-machine-check", "kernel.panic-oom"})
# Of several on one host, the first of these tells most; the others follow from it.
_NARROWEST = (
    "node.machine-check", "memory.host-oom", "gpu.bus-lost", "gpu.ecc", "gpu.gsp", "gpu.nvlink",
    "gpu.kernel-fault", "gpu.illegal-access", "storage.io-error", "storage.full", "storage.quota",
    "node.kernel", "storage.hang", "gpu.unhealthy", "gpu.not-visible", "process.stuck",
    "gpu.row-remap", "collective.network",
)  # fmt: skip
_CARD_LOST = "gpu.bus-lost"
# No process goes on with a card that says this of its work.
_LETHAL = frozenset(
    {
        "kernel.gpu-bus-lost",
        "kernel.gpu-ecc",
        "kernel.gpu-illegal-access",
        "kernel.gpu-kernel-fault",
        "kernel.amdgpu-page-fault",
        "kernel.amdgpu-uncorrected",
    }
)
_BUS = "kernel.bus-error"
# What a rank that was hit died of: a poisoned page gives SIGBUS, an oops ends its task.
_DEADLY = {"kernel.memory-failure": (7, 9), "kernel.oops": (9, 11), "kernel.bug": (9, 11)}
# What a hang does to others; none of it is surer than the hang.
_WEAK = ("slurm.", "collective.timeout", "collective.peer-lost", "process.stuck", "rendezvous.")
# What a card or a link that failed does to collectives.
_OF_CARDS = ("collective.error", "collective.network")
_ORDER = (UNKNOWN, POSSIBLE, LIKELY, CONFIRMED)


class _Seen(msgspec.Struct, frozen=True):
    each: Happened
    event: KernelSign
    process: Process | None


def with_kernel_signs(
    told: Told, run: Run, deaths: Sequence[Death], faults: Sequence[Fault], *, wrong: bool
) -> list[Fault]:
    """``faults``, with those that the kernel's signs add, narrow or agree with.

    ``wrong`` is False where nothing else in the run went wrong: then what a node survives did the
    job no harm.
    """
    seen = list(_of_job(told, run, faults))
    result = list(faults)
    done: set[str | None] = set()
    for host, signs in _by_host(each for each in seen if each.event.signature in PANICS):
        result = _panicked(told, run, host, signs, seen, result, wrong)
        done.add(host)
    for each in seen:
        if each.event.host not in done and each.process is not None:
            result = _killed_by_it(each, deaths, result)
    if not (wrong or _is_kernel_alone(told, run)):
        return result
    rest = [each for each in seen if each.event.host not in done and not _is_used(each, result)]
    for host, signs in _by_host(rest):
        result = _beside(told, run, host, signs, deaths, result)
    return result


def strange_signs(told: Told, run: Run, faults: Sequence[Fault]) -> list[Proof]:
    """Signs of the job's hosts and time that no fault which may count rests on, one of a kind."""
    counted = [fault for fault in faults if fault.sure] or list(faults)
    used = {each.place for fault in counted for each in fault.proofs}
    kinds: dict[tuple[str | None, str], Proof] = {}
    for each in _of_job(told, run, ()):
        if each.event.place not in used:
            kinds.setdefault((each.event.host, each.event.signature), _proof(each))
    rested = {
        (each.event.host, each.event.signature)
        for each in _of_job(told, run, ())
        if each.event.place in used
    }
    return [proof for kind, proof in sorted(kinds.items(), key=str) if kind not in rested]


# The signs that may have to do with the job, each once.
def _of_job(told: Told, run: Run, faults: Sequence[Fault]) -> Iterator[_Seen]:
    failed = (e.event.host for e in run.happened if isinstance(e.event, NodeFailure))
    hosts = {_short(e) for e in (*told.nodes, *(p.host for p in run.roster), *failed) if e}
    texts: set[str] = set()
    for each in run.happened:
        event = each.event
        if not isinstance(event, KernelSign) or dict(event.facts).get("recovered"):
            continue
        if event.place.text in texts:
            continue
        if not in_hosts_window(event.at, event.host, told, run):
            continue
        if event.host is not None and hosts and _short(event.host) not in hosts:
            continue
        # What this host's ranks died of before is no consequence of it.
        if event.at is not None and any(
            fault.host == event.host and fault.sure and fault.at and fault.at.before(event.at)
            for fault in faults
            if not fault.cause.startswith("slurm.")
        ):
            continue
        texts.add(event.place.text)
        yield _Seen(each, event, _process(event, run))


# A kernel log and nothing else: whoever asks about it asks what befell the node.
def _is_kernel_alone(told: Told, run: Run) -> bool:
    return told.outputs == 0 and told.facts is None and not run.roster


def _short(host: str | None) -> str:
    return (host or "").partition(".")[0]


# A pid names a process on its host, in one boot, only.
def _process(event: KernelSign, run: Run) -> Process | None:
    if event.pid is None or event.host is None or (event.boot is not None and event.at is None):
        return None
    mine = [p for p in run.roster if p.host == event.host and event.pid in p.pids]
    return mine[0] if len(mine) == 1 else None


def _by_host(seen: Iterable[_Seen]) -> list[tuple[str | None, list[_Seen]]]:
    hosts: dict[str | None, list[_Seen]] = {}
    for each in seen:
        hosts.setdefault(each.event.host, []).append(each)
    return sorted(hosts.items(), key=lambda item: item[0] or "")


# The node is gone: Slurm's word that it failed, or its silence, agrees.
def _panicked(
    told: Told,
    run: Run,
    host: str | None,
    panics: Sequence[_Seen],
    seen: Sequence[_Seen],
    faults: list[Fault],
    wrong: bool,
) -> list[Fault]:
    cause = _narrowest(panics)
    before = [
        each
        for each in seen
        if each.event.host == host
        and each.event.signature not in PANICS
        and each.event.boot == panics[0].event.boot
    ]
    if cause == "node.kernel" and any(e.event.means == "node.machine-check" for e in before):
        cause = "node.machine-check"
    fault = _fault(cause, host, [*panics, *before], CONFIRMED)
    failed = [
        each
        for each in faults
        if each.cause == "slurm.node-fail" and (each.host is None or each.host == host)
    ]
    quoted = all(each.event.quoted for each in panics)
    alone = _is_kernel_alone(told, run)
    timed = host is not None and any(each.event.at is not None for each in panics)
    agreed = bool(failed) and (host is not None or failed[0].host is None)
    known = agreed or alone or timed or (host is not None and host in told.absent)
    if not (known or wrong):
        return faults
    if quoted or not known:
        # It may be an old one, or a program's own words.
        fault = msgspec.structs.replace(fault, limit=LIKELY, sure=not _is_surer(faults))
    if not failed:
        return [*faults, fault]
    told_by = frozenset().union(*(each.sources for each in failed))
    proofs = (*fault.proofs, *(p for each in failed for p in each.proofs))
    fault = msgspec.structs.replace(
        fault,
        host=host or failed[0].host,
        sources=fault.sources | told_by,
        proofs=tuple(dict.fromkeys(proofs)),
    )
    return [*(each for each in faults if each not in failed), fault]


# A rank that the kernel names died of the signal that goes with what it says.
def _killed_by_it(each: _Seen, deaths: Sequence[Death], faults: list[Fault]) -> list[Fault]:
    signals = _DEADLY.get(each.event.signature, ())
    death = next((d for d in deaths if d.process == each.process), None)
    if death is None or death.forced or exit_signal(death.exit_code) not in signals:
        return faults
    fault = _fault(each.event.means, each.event.host, [each], CONFIRMED)
    fault = msgspec.structs.replace(
        fault,
        process=each.process,
        at=each.event.at or death.noticed_at,
        sources=fault.sources | {"agent"},
        proofs=tuple(dict.fromkeys((*fault.proofs, *(proof(e) for e in death.exits[:2])))),
        limit=LIKELY if each.event.quoted else CONFIRMED,
        pid=each.event.pid,
    )
    others = [
        known
        for known in faults
        if known.process != each.process or not known.cause.startswith("process.")
    ]
    return [*others, fault]


def _is_used(each: _Seen, faults: Sequence[Fault]) -> bool:
    return any(Proof(each.event.place, "kernel log", each.event.host) in f.proofs for f in faults)


def _beside(
    told: Told,
    run: Run,
    host: str | None,
    signs: Sequence[_Seen],
    deaths: Sequence[Death],
    faults: list[Fault],
) -> list[Fault]:
    joined = [each for each in signs if each.process is not None]
    # A hung task of somebody else's, and nothing tells what in.
    alone = _is_kernel_alone(told, run)
    signs = [e for e in signs if alone or e.process is not None or e.event.means != "process.stuck"]
    if not signs:
        return faults
    if (explained := with_cards(run, host, signs, faults)) is not None:
        return explained
    if (
        _narrowest(signs) == NETWORK
        and (linked := with_links(host, signs, deaths, faults)) is not None
    ):
        return linked
    causes = {each.event.means for each in signs}
    same = [f for f in faults if f.cause in causes and f.host is not None and f.host == host]
    if same:
        return [_agreed(f, signs) if f in same else f for f in faults]
    cause = _narrowest(signs)
    chosen = [each for each in signs if each.event.means == cause]
    others = [each for each in signs if each not in chosen]
    limit = max((_worth(each, told, run) for each in chosen), key=_ORDER.index)
    fault = _fault(cause, host, [*chosen, *others], limit)
    weak = (*_WEAK, *_OF_CARDS) if cause.startswith("gpu.") else _WEAK
    sure = not _is_surer(faults, weak) and limit != POSSIBLE
    fault = msgspec.structs.replace(fault, sure=sure)
    hit = {each.process for each in joined if each in chosen}
    if len(hit) == 1:
        (process,) = hit
        pids = [each.event.pid for each in joined if each.process == process]
        fault = msgspec.structs.replace(fault, process=process, pid=pids[0])
    return [*faults, fault]


# Whether something went wrong that no sign of this kind explains.
def _is_surer(faults: Sequence[Fault], weak: tuple[str, ...] = _WEAK) -> bool:
    return any(fault.sure and not fault.cause.startswith(weak) for fault in faults)


def _agreed(fault: Fault, signs: Sequence[_Seen]) -> Fault:
    alike = [each for each in signs if each.event.means == fault.cause]
    proofs = (*fault.proofs, *(_proof(each) for each in alike[:2]))
    return msgspec.structs.replace(
        fault, sources=fault.sources | {"kernel"}, proofs=tuple(dict.fromkeys(proofs))
    )


# How sure a sign alone makes: what its signature allows; less where nothing tells that it was the
# job's time, or boot, or that the kernel said it.
def _worth(each: _Seen, told: Told, run: Run) -> str:
    event = each.event
    allowed = next(
        (s.signature.at_most for s in signatures("kernel") if s.signature.id == event.signature),
        LIKELY,
    )
    limits = [CONFIRMED] if is_bare(told, event) else [allowed, LIKELY]
    alone = _is_kernel_alone(told, run)
    if event.quoted or event.boot is not None:
        limits.append(LIKELY if event.at is not None else POSSIBLE)
    if each.process is None and event.at is None and not alone:
        # The log goes back to boot: days before the job, perhaps.
        limits.append(POSSIBLE)
    return min(limits, key=_ORDER.index)


def is_bare(told: Told, event: KernelSign) -> bool:
    """Whether nothing but kernel logs is there, of no job, and ``event`` is a card's end of a process.

    Nobody asks then whose fault it was, but what the card met.
    """
    nameless = told.facts is None and not told.jobs and not told.nodes and not told.outputs
    return nameless and event.signature in _LETHAL and event.boot is None and not event.quoted


def _narrowest(signs: Iterable[_Seen]) -> str:
    signs = list(signs)
    causes = {each.event.means for each in signs}
    if _CARD_LOST in causes:
        # The bus below the card says so first: what was lost by it says more.
        causes -= {each.event.means for each in signs if each.event.signature == _BUS}
    return min(
        causes, key=lambda c: (_NARROWEST.index(c) if c in _NARROWEST else len(_NARROWEST), c)
    )


def _fault(cause: str, host: str | None, signs: Sequence[_Seen], limit: str) -> Fault:
    first = signs[0].event
    facts: dict[str, str] = {"sign": first.signature}
    for each in signs:
        for name, value in each.event.facts:
            facts.setdefault(name, value)
    if first.command is not None:
        facts.setdefault("command", first.command)
    return Fault(
        cause=cause,
        key=cause,
        host=host,
        at=_earliest(signs),
        sources=frozenset({"kernel"}),
        proofs=tuple(dict.fromkeys(_proof(each) for each in signs[:4])),
        limit=limit,
        facts=tuple(sorted(facts.items())),
    )


def _proof(each: _Seen) -> Proof:
    return Proof(each.event.place, "kernel log", each.event.host)


def _earliest(signs: Sequence[_Seen]) -> Span | None:
    spans = [each.event.at for each in signs if each.event.at is not None]
    dated = [span for span in spans if span.earliest is not None]
    return min(dated, key=lambda span: str(span.earliest), default=None)
