"""All that one run offers the judge."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.faults.agreement import shells_ends, with_torn_ends
from firstfault.faults.at_exit import with_needed_ranks
from firstfault.faults.card_words import is_last_word, with_card_words
from firstfault.faults.collective_words import is_lost_peer, reasoned
from firstfault.faults.death import Death, deaths, with_kernel_words
from firstfault.faults.effects import launcher_and_slurm
from firstfault.faults.fatal_words import fatal_errors
from firstfault.faults.hang import with_hang
from firstfault.faults.interrupted_stacks import with_stands
from firstfault.faults.interruption import interruption
from firstfault.faults.kubernetes import pod_faults
from firstfault.faults.launchers import of_launchers
from firstfault.faults.loose import ranks_write_to_console, unattributed
from firstfault.faults.memory import in_window, is_of_job, oom_faults
from firstfault.faults.owners import nccls_host, with_owners
from firstfault.faults.processes import NARROWER, of_death, proof, surroundings, unnamed, worded
from firstfault.faults.silence import has_untold_ends, silent_faults
from firstfault.faults.slurm import slurm_faults
from firstfault.faults.stated_ranks import with_stated_ranks
from firstfault.faults.system import strange_signs, with_kernel_signs
from firstfault.faults.tasks import killed_launchers, of_tasks, other_exits
from firstfault.model.event import LastWords, OomKill, Sign, TaskEnd, Traceback, Trap
from firstfault.model.fault import Effect, Fault, Findings, Proof
from firstfault.model.run import Happened, Process, Run, Told
from firstfault.model.verdict import CONFIRMED, LIKELY, ExceptionFacts, weaker
from firstfault.signatures import EFFECTS

# Their lines say that a container could not be started.
_CONTAINERS = frozenset(
    {"line.apptainer-exec", "line.container", "line.container-files", "line.enroot"}
)


class _Gathered(msgspec.Struct, frozen=True):
    """What processes, Slurm and stray words offer, before silence and the kernel are asked."""

    faults: list[Fault]
    effects: list[Effect]
    named: tuple[Fault, ...]
    loose: tuple[Effect, ...]


def findings(told: Told, run: Run) -> Findings:
    """Faults, effects and what neither of them accounts for, of one run."""
    run = with_owners(told, run)
    ends = with_kernel_words(deaths(run), run)
    gathered = _gathered(told, run, ends)
    effects, named = gathered.effects, gathered.named
    faults = [_of_all_agents(run, fault) for fault in gathered.faults]
    faults = with_stated_ranks(run, faults)
    silent: list[Fault] = []
    if not named and all(fault.cause.startswith("slurm.") for fault in faults):
        silent = silent_faults(told, run, effects)
        faults += silent
        own = {fault.process for fault in silent if fault.process is not None}
        effects = [effect for effect in effects if effect.process not in own]
    faults = with_hang(told, run, faults, alone=not named and not silent)
    if not named and not faults:
        faults += interruption(told, run, ends)
    faults = with_stands(told, run, faults)
    faults = with_card_words(run, _with_shared_memory(faults))
    if not named:
        faults = with_torn_ends(run, _with_useless_work(faults))
    faults = with_needed_ranks(run, _with_doubts(run, faults), effects)
    wrong = bool(faults or named or effects)
    faults = with_kernel_signs(told, run, ends, faults, wrong=wrong)
    if not named and not any(f.sure and not f.cause.startswith("rendezvous.") for f in faults):
        faults += killed_launchers(run)
    told_by_ranks = named or gathered.loose or any(e.process is not None for e in effects)
    if not faults:
        faults, named = _without_ranks(run, named, effects, told_by_ranks=bool(told_by_ranks))
    crashed = _crashed_launchers(run, faults, named)
    return Findings(
        faults=tuple(faults),
        effects=tuple(effects),
        unnamed=(*named, *crashed),
        strange=(*_strange(told, run, ends, faults), *strange_signs(told, run, faults)),
    )


def _gathered(told: Told, run: Run, ends: Sequence[Death]) -> _Gathered:
    kills = [*oom_faults(told, run, ends), *pod_faults(told, run, ends)]
    killed = {fault.process for fault in kills if fault.process is not None}
    others = [death for death in ends if death.process not in killed]
    found, effects, nameless = _of_deaths(run, others, alone=len(ends) == 1)
    faults = [*kills, *slurm_faults(told, run), *found]
    loose = unattributed(run, ends, nameless)
    faults += loose.faults
    effects += [*loose.effects, *_of_survivors(run, ends), *launcher_and_slurm(run)]
    faults, effects = _with_loose_words(run, faults, effects)
    faults, nameless = _with_words_of_the_nameless(run, faults, list(loose.nameless))
    console = ranks_write_to_console(run)
    named = tuple(unnamed(death, console=console) for death in nameless)
    if has_untold_ends(run, {effect.process for effect in effects if effect.process}):
        # Another task's ranks are not known: one of them may have been first.
        named = tuple(_overheard(fault) for fault in named)
    stopped = {e.process for e in run.happened if _was_signalled(e.event)}
    named = tuple(_overheard(each) if each.process in stopped else each for each in named)
    return _Gathered(faults, effects, named, tuple(loose.effects))


def _of_deaths(
    run: Run, ends: Sequence[Death], *, alone: bool
) -> tuple[list[Fault], list[Effect], list[Death]]:
    around = surroundings(run)
    faults: list[Fault] = []
    effects: list[Effect] = []
    nameless: list[Death] = []
    for death in ends:
        found = of_death(death, around)
        if isinstance(found, Fault):
            faults.append(found)
        elif isinstance(found, Effect):
            effects.append(found)
        elif death.exit_code in (0, None):
            continue
        elif death.closed and not alone:
            # Its agent ended it for another: what a program does then is its own affair.
            line = proof(death.exits[0])
            effects.append(Effect("ended-by-agent", line, death.process, death.noticed_at))
        else:
            nameless.append(death)
    return faults, effects, nameless


# Where no fault is told by ranks, the kernel or Slurm: what srun, launchers and shells say of ends.
def _without_ranks(
    run: Run, named: tuple[Fault, ...], effects: Sequence[Effect], *, told_by_ranks: bool
) -> tuple[list[Fault], tuple[Fault, ...]]:
    faults: list[Fault] = []
    if not told_by_ranks:
        faults, tasks = of_tasks(run)
        if not (faults or tasks):
            faults, tasks = of_launchers(run)
        named = tuple(tasks)
    if not (faults or named):
        faults = fatal_errors(run)
    if not (faults or named):
        # Ranks that lost a peer, and a launcher that names a signal: the peer's.
        signalled = of_launchers(run)[0]
        faults = signalled if len(signalled) == 1 else []
    if not (faults or named or effects):
        faults = shells_ends(run)
    return faults, named


# Nothing else went wrong: a run that goes on with such a loss is of no use.
def _with_useless_work(faults: list[Fault]) -> list[Fault]:
    if len(faults) != 1 or faults[0].cause != "training.nan" or faults[0].sure:
        return faults
    return [msgspec.structs.replace(faults[0], sure=True, limit=LIKELY)]


# Why such a program ended, whoever sent the signal knows.
def _was_signalled(event: object) -> bool:
    return isinstance(event, LastWords) and event.signalled


def _overheard(fault: Fault) -> Fault:
    facts = tuple((name, "console" if name == "heard" else value) for name, value in fault.facts)
    return msgspec.structs.replace(fault, facts=facts)


# Agents that met in vain say so all: of one that failed without such a word, something else is true.
def _of_all_agents(run: Run, fault: Fault) -> Fault:
    if not fault.cause.startswith("rendezvous."):
        return fault
    spoke = {e.event.speaker.task for e in run.happened if isinstance(e.event, Traceback)}
    ends = [e.event for e in run.happened if isinstance(e.event, TaskEnd)]
    failed = {task for end in ends if end.kind == "exit" for task in end.tasks}
    if spoke <= {None} or failed <= spoke:
        return fault
    return msgspec.structs.replace(fault, limit=weaker(fault.limit, LIKELY))


# A task that srun started, an agent where ranks have agents, was killed before its step was ended,
# or ended otherwise than all others: what a rank elsewhere raised does not explain that.
def _crashed_launchers(run: Run, faults: Sequence[Fault], named: Sequence[Fault]) -> list[Fault]:
    sure = [f for f in faults if f.sure and not f.cause.startswith("slurm.")]
    if not (sure or named) or any(
        "slurm" in fault.sources and fault.process is None for fault in sure
    ):
        return []
    return [
        f
        for f in (*killed_launchers(run), *other_exits(run))
        if f.host not in {each.host for each in (*sure, *named)}
    ]


# Where /dev/shm is full, one process is told so and another dies of SIGBUS as it writes there.
def _with_shared_memory(faults: list[Fault]) -> list[Fault]:
    full = [f for f in faults if f.cause == "memory.shm" and f.sure and f.host is not None]
    hosts = {fault.host: fault.key for fault in full}
    return [
        msgspec.structs.replace(fault, cause="memory.shm", key=hosts[fault.host])
        if fault.cause == "process.bus-error" and fault.host in hosts
        else fault
        for fault in faults
    ]


# Ranks that said they lost a peer or waited in vain, and of whose end nothing is told.
def _of_survivors(run: Run, ends: Sequence[Death]) -> list[Effect]:
    ended = {death.process for death in ends}
    found: dict[tuple[Process, str], Effect] = {}
    for each in run.happened:
        if isinstance(each.event, Sign) and each.process is not None and each.process not in ended:
            means = each.event.means
            if means in ("peer-lost", "waited"):
                effect = Effect(means, proof(each), each.process)
                found.setdefault((each.process, means), effect)
    return list(found.values())


# Where the ranks that ended without a reason ended alike, and one line of nobody in particular says
# why a program ends so, it is theirs.
def _with_words_of_the_nameless(
    run: Run, faults: list[Fault], nameless: Sequence[Death]
) -> tuple[list[Fault], list[Death]]:
    owners = [death for death in nameless if (death.exit_code or 0) > 0]
    others = [fault for fault in faults if fault.sure]
    words = [
        each
        for each in run.happened
        if isinstance(each.event, Sign) and each.process is None and _means(each) not in EFFECTS
    ]
    means = {_means(each) for each in words} - {"process.abort"}
    if others or not owners or len({d.exit_code for d in owners}) > 1 or len(means) != 1:
        return faults, list(nameless)
    telling = [each for each in words if _means(each) in means]
    named = [
        msgspec.structs.replace(worded(death, telling), rank_sure=len(owners) == 1)
        for death in owners
    ]
    places = {each.event.place for each in telling}
    rest = [f for f in faults if not {each.place for each in f.proofs} <= places]
    return [*rest, *named], [death for death in nameless if death not in owners]


# Lines that a signature knows, in streams of nobody in particular. What a process said as it
# aborted is narrower than the signal that it died of; a lost peer explains an abort.
def _with_loose_words(
    run: Run, faults: list[Fault], effects: list[Effect]
) -> tuple[list[Fault], list[Effect]]:
    used = {each.place for fault in faults for each in fault.proofs}
    signs = [
        each
        for each in run.happened
        if isinstance(each.event, Sign) and each.event.place not in used
    ]
    # What hangs once a collective has timed out is its end.
    timed_out = {each.process for each in signs if _means(each) == "waited"}
    signs = [e for e in signs if _means(e) != "process.stuck" or e.process not in timed_out]
    loose = [each for each in signs if each.process is None]
    peers = [fault for fault in faults if is_lost_peer(fault, loose)]
    effects = [*effects, *(Effect("peer-lost", fault.proofs[0]) for fault in peers)]
    faults = [reasoned(fault, loose) for fault in faults if fault not in peers]
    lost = [each for each in loose if _means(each) in ("waited", "peer-lost")]
    narrow = [each for each in loose if _means(each).startswith(NARROWER)]
    crashes = [f for f in faults if f.cause in ("process.abort", "process.segfault") and f.sure]
    words = [f for f in faults if f.process is None and f.exception is not None and f.sure]
    for crash in crashes:
        if "rank" in crash.sources and crash.cause == "process.segfault":
            continue
        if len(words) == 1 and len(crashes) == 1:
            faults = [f for f in faults if f not in (crash, words[0])]
            faults.append(_narrowed(crash, words[0].cause, words[0].proofs, words[0].exception))
        elif narrow:
            faults.remove(crash)
            proofs = tuple(proof(each) for each in narrow[:2])
            told = _narrowed(crash, _means(narrow[0]), proofs, None)
            if len(crashes) == 1 and crash.cause == "process.abort" and _are_last_words(narrow):
                told = msgspec.structs.replace(told, limit=CONFIRMED, rank_sure=False)
            faults.append(told)
        elif lost:
            faults.remove(crash)
            effects.append(Effect(_means(lost[0]), proof(lost[0]), crash.process, crash.at))
    taken = {each.place for fault in faults for each in fault.proofs}
    rest = [each for each in signs if each.event.place not in taken and each not in lost]
    effects += [Effect(_means(each), proof(each), each.process) for each in lost[:1] if not crashes]
    return [*faults, *_signs(rest, aborts=not lost)], effects


def _narrowed(
    crash: Fault, cause: str, proofs: tuple[Proof, ...], exception: ExceptionFacts | None
) -> Fault:
    return msgspec.structs.replace(
        crash,
        cause=cause,
        key=cause,
        sources=crash.sources | {"rank"},
        proofs=tuple(dict.fromkeys((*proofs, *crash.proofs))),
        exception=exception,
        # Nothing but the neighbourhood gives the words to the process that crashed.
        limit=LIKELY,
    )


# Of the one process that aborted.
def _are_last_words(signs: Sequence[Happened]) -> bool:
    one = len({_means(each) for each in signs}) == 1
    return one and all(is_last_word(_means(each), each.event.place.text) for each in signs)


def _means(each: Happened) -> str:
    return each.means or ""


# A line alone may be harmless: it counts only where nothing surer stands beside it, and a bare
# "terminate called" says less than any other.
def _signs(rest: Sequence[Happened], *, aborts: bool) -> list[Fault]:
    seen: dict[str, list[Happened]] = {}
    for each in rest:
        if _means(each) not in EFFECTS:
            seen.setdefault(_means(each), []).append(each)
    if len(seen) > 1 or not aborts:
        seen.pop("process.abort", None)
    return [
        Fault(
            cause=means,
            key=means,
            process=found[0].process,
            host=_host(found),
            sources=frozenset({"rank"}),
            proofs=tuple(dict.fromkeys(proof(each) for each in found[:3])),
            sure=False,
            limit=weaker(
                LIKELY if means.startswith("slurm.") else CONFIRMED,
                *(each.at_most for each in found),
            ),
            facts=(("what", "container"),) if _are_containers(found) else (),
        )
        for means, found in sorted(seen.items())
    ]


# What pyxis, enroot, Apptainer and Docker say as they start.
def _are_containers(found: Sequence[Happened]) -> bool:
    return all(
        isinstance(each.event, Sign) and each.event.signature in _CONTAINERS for each in found
    )


def _host(found: Sequence[Happened]) -> str | None:
    process = found[0].process
    return (process and process.host) or nccls_host(found)


# What a program raises after it went on from another error may be that one's.
def _with_doubts(run: Run, faults: list[Fault]) -> list[Fault]:
    began: dict[str, int] = {}
    for each in run.happened:
        if _means(each) == "recovered":
            place = each.event.place
            began[place.document] = min(began.get(place.document, place.offset), place.offset)
    return [
        msgspec.structs.replace(fault, limit=weaker(fault.limit, LIKELY))
        if fault.cause == "python.exception"
        and any(began.get(e.place.document, e.place.offset) < e.place.offset for e in fault.proofs)
        else fault
        for fault in faults
    ]


# Kernel lines that no rank of the job accounts for.
def _strange(told: Told, run: Run, ends: Sequence[Death], faults: Sequence[Fault]) -> list[Proof]:
    used = {each.place.text for fault in faults for each in fault.proofs}
    ours = {pid for death in ends for pid in (*death.process.pids, *death.worker_pids)}
    found: dict[str, Proof] = {}
    for each in run.happened:
        event = each.event
        if not isinstance(event, OomKill | Trap) or event.place.text in used:
            continue
        if isinstance(event, OomKill) and not is_of_job(event, told):
            continue
        if event.pid not in ours and in_window(event.at, told):
            found.setdefault(event.place.text, Proof(event.place, "kernel log", event.host))
    return list(found.values())
