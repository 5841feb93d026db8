"""What an exception stands for, and how much it is worth."""

from __future__ import annotations

import re
from collections.abc import Sequence

from firstfault.model.event import Frame, Traceback
from firstfault.model.verdict import CONFIRMED, LIKELY, POSSIBLE, ExceptionFacts, weaker
from firstfault.signatures import Signature, meaning_of_exception

# What these say may as well be the loss of a peer, of a worker or of a store.
_BROKEN_LINK = re.compile(
    r"(?:^|\.)(?:ConnectionResetError|BrokenPipeError|ConnectionRefusedError|ConnectionError|"
    r"ConnectionAbortedError|EOFError|TimeoutError|Dist(?:Network|Store|Backend)?Error)$"
)
# Torn: how the worker ended is not told.
_WORKER = re.compile(r"DataLoader worker \(pid")
_CAUGHT = re.compile(r"Caught \w{1,100} in \w{1,60} (?:worker process|replica) \d")
_IN_COLLECTIVE = re.compile(r"/torch/distributed/(?:distributed_c10d|c10d_logger)\.py$")
_COLLECTIVE_WORDS = re.compile(
    r"\b(?:NCCL|nccl[A-Z]\w+|[Gg]loo|c10d|TCPStore|ProcessGroup\w*|process group)\b"
    r"|Timeout waiting for key|Store is closed"
)
# The program's own misuse, in whichever rank.
_MISUSE = re.compile(r"default process group twice|Default process group has not been initialized")
_C10D_TYPES = re.compile(r"(?:^|\.)(?:RuntimeError|Dist\w*Error)$")
_SHORT_WRITE = "storage.short-write"
# Frames of installed packages and of Python itself: the user's own frame is the last other one.
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python3|^<|/python3\.\d+/|/bin/(?:torchrun|accelerate)$"
)

# Lines of long messages that tell what is so in this case: torch, nn/modules/module.py and
# csrc/distributed/c10d/reducer.cpp, NCCLUtils.cpp.
_TELLING = re.compile(
    r"did not receive grad|^(?:Missing|Unexpected) key|^size mismatch|^Last error|^nccl[A-Z]\w+: "
    r"|^(?:Cuda|CUDA) failure"
)
# What torch says with every such error.
_ADVICE = re.compile(
    r"CUDA kernel errors might be|For debugging consider|Compile with |Search for [`']cuda|Device-side asser"
    r"|In addition, you can set|making sure all |If you already have done|Exception raised from "
)
_MOST_LINES, _LONGEST_LINE = 4, 200
# Whole sentences in quotes; a path or a name is none.
_QUOTE = re.compile(r"(?<![\w\]])(['\"`])(?=[^'\"`\s]{1,40} [^'\"`\s]{1,40} )[^'\"`]{1,400}\1")
# Words of a sentence, before others.
_SENTENCE = re.compile(r"(?:[A-Za-z'-]{1,40}[,:;]? ){3}")


def own_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's own code, else the innermost of all."""
    for frame in reversed(frames):
        if not _LIBRARY.search(frame.file):
            return frame
    return frames[-1] if frames else None


def cause_of(event: Traceback, means: str | None) -> str:
    """The cause that an exception stands for; ``means`` is what a signature says of it.

    An error out of the depth of a collective whose words no signature knows is the collective's,
    not the program's.
    """
    if means is not None and means != "launcher":
        return means
    return "collective.error" if is_collectives(event) else "python.exception"


def is_collectives(event: Traceback) -> bool:
    """Whether an error came out of the depth of a collective: mostly another rank's fault.

    Its frames or its words tell so.
    """
    if _MISUSE.search(event.message):
        return False
    inner = event.frames[-1].file if event.frames else ""
    depth = _IN_COLLECTIVE.search(inner) or _COLLECTIVE_WORDS.search(event.message)
    return bool(depth and _C10D_TYPES.search(event.type))


def meaning_of_chain(event: Traceback) -> Signature | None:
    """What is known of an exception; of a write that was cut short, what its chain says of it.

    torch's writer raises anew as it is closed, behind the error that the file system gave.
    """
    own = meaning_of_exception(event.type, event.message)
    if own is None or own.id != _SHORT_WRITE:
        return own
    chain = (meaning_of_exception(kind, message) for kind, message in event.causes)
    told = (each for each in chain if each is not None and each.id != _SHORT_WRITE)
    return next((each for each in told if each.means.startswith("storage.")), own)


def worth(event: Traceback, said: Signature | None, *, cut: bool) -> str:
    """The most that an exception is worth as the cause of a failure; ``said``: what knows it."""
    if cut:
        return POSSIBLE
    if _CAUGHT.match(event.message):
        # What a worker raised stands below that, and is lost.
        return LIKELY if said is None else weaker(LIKELY, said.at_most)
    if said is not None:
        # An envelope in a rank's own words: what was in it is not told.
        limit = POSSIBLE if said.means == "launcher" else said.at_most
        doubt = _is_quoted(event, said) or _is_retold(event, said)
        return weaker(limit, LIKELY) if doubt else limit
    unclear = (
        is_collectives(event) or _BROKEN_LINK.search(event.type) or _WORKER.match(event.message)
    )
    return POSSIBLE if unclear else CONFIRMED


# A message may quote another program's words; an assertion may tell what it expected.
def _is_quoted(event: Traceback, said: Signature) -> bool:
    bare = _QUOTE.sub("''", event.message)
    if bare == event.message:
        return False
    left = meaning_of_exception(event.type, bare)
    return left is None or left.means != said.means


# Several words of a program's own before the telling ones: it may tell of another run.
def _is_retold(event: Traceback, said: Signature) -> bool:
    inner = event.frames[-1].file if event.frames else "<"
    head = f"{event.type}: "
    if _LIBRARY.search(inner) or not event.message:
        return False
    match = re.search(said.pattern, head + event.message)
    before = event.message[: max(0, match.start() - len(head))] if match else ""
    return bool(_SENTENCE.match(before))


def same_key(event: Traceback, means: str | None) -> str:
    """Equal for exceptions that are one failure in several ranks.

    The program's own are told by type and place, what a signature knows by what it means.
    """
    if means is not None:
        return f"{event.type} {means}"
    frame = own_frame(event.frames)
    return f"{event.type} {f'{frame.file}:{frame.line}' if frame else event.message[:80]}"


def exception_facts(event: Traceback) -> ExceptionFacts:
    """Type, message and the user's own place of an exception."""
    frame = own_frame(event.frames)
    return ExceptionFacts(
        type=event.type or None,
        message=event.message or None,
        file=frame.file if frame else None,
        line=frame.line if frame else None,
    )


def said_more(event: Traceback) -> tuple[tuple[str, str], ...]:
    """The fact "more": the message's further lines, those that tell the case first; or nothing."""
    own = [line for line in event.more if line and not _ADVICE.match(line)]
    lines = ([line for line in own if _TELLING.search(line)] or own)[:_MOST_LINES]
    return (("more", "\n".join(line[:_LONGEST_LINE] for line in lines)),) if lines else ()
