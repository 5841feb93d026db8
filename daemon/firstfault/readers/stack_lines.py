"""Single lines of Python's tracebacks: headers, frames, exceptions, what joins two of them.

Formats as in CPython 3.6 to 3.14, Lib/traceback.py and Lib/threading.py.
"""

from __future__ import annotations

import functools
import re

from firstfault.model.event import Frame

HEADER = "Traceback (most recent call last):"
_LINKS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
# A SyntaxError's own place has no function.
_FRAME = re.compile(
    r'\s{0,200}File "(?P<file>[^"]{1,4096})", line (?P<line>\d{1,9})(?:, in (?P<name>.{1,200}))?$'
)
_INNER_FRAME = re.compile(
    r'File "(?P<file>[^"]{1,4096})", line (?P<line>\d{1,9}), in (?P<name>[\w<>.]{1,200})'
)
# "ray.exceptions.RayTaskError(ValueError): ..." names the class that it stands for.
_EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,100}\.){0,12}[A-Za-z_]\w{0,100}(?:\([A-Za-z_]\w{0,100}\))?)"
    r"(?::|: (?P<message>.*))?$",
    re.DOTALL,
)
# What other writers' lines begin with: "INFO: ...", "step: 7 ...".
_LEVELS = frozenset(
    {"CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTE", "Note", "WARN", "WARNING"}
)
# A program's own hook logs what nobody caught.
_BARE = re.compile(
    r"(?:.{0,200}\b[Uu]n(?:caught|handled) (?:[Ee]xception:? )?)?"
    r"((?:[\w.]{1,200}\.)?[A-Z]\w{0,100}(?:Error|Exception|Interrupt)): (.*)$",
    re.DOTALL,
)
# Each such line has one of these.
BARE_WORDS = ("Error: ", "Exception: ")
_ERROR_NAME = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Failure|Fault|Expired|Iteration)"
    r"(?:Group|s)?(?:\(\w{1,101}\))?$"
)
# What torch.compile says below each of its errors: torch/_dynamo/exc.py of torch 2.0 to 2.13.
_DYNAMO = (
    r"Set (?:TORCH_LOGS=|TORCHDYNAMO_VERBOSE=|torch\._dynamo\.config\.verbose)|"
    r"You can suppress this exception and fall back to eager by setting:"
)
_USER_CODE = "from user code:"
# A message that Python or torch ends with such lines goes on in them.
_GOES_ON = re.compile(
    r"\s{1,8}(?!\s|\d{1,3}%)|Exception raised from |frame #\d|CUDA kernel errors might |For debugging consider "
    r"passing |Compile with `TORCH_USE_CUDA_DSA`|Device-side assertion|Search for `cuda|"
    rf"Last error:|nccl[A-Z]\w{{1,40}}: |{_DYNAMO}"
)
# What an interpreter and its libraries say as they shut down.
_SHUTDOWN = re.compile(
    r"Exception ignored |\s{1,8}(?!\s|\d{1,3}%)|\[?[IW]\d{4} \d\d:|\[rank\d{1,7}\]:\[[WI]|wandb: |terminate called |"
    r"[^\s:]{1,300}:\d{1,7}: (?:User|Resource|Future|Deprecation|Runtime)Warning: |frame #\d|"
    rf"Exception raised from |Segmentation fault|Aborted|Killed|[-=*_]{{3,}}$|{_DYNAMO}"
)
_THREAD = re.compile(r"Exception in thread .{0,300}:$")
_CHILD = re.compile(r"Process [\w-]{1,100}:$")
_SPAWNED = re.compile(r"-- Process (\d{1,6}) terminated with the following error:$")
_HARMLESS = re.compile(r"Exception ignored |--- Logging error ---$")
_STACK = ("Stack (most recent call last):", "Call stack:")
# "2026-11-30 10:00:00,000 INFO train: ...", "[2026-11-30 10:00:00] ERROR - ...", "ERROR:train:...".
_LOG_HEAD = 120
_LOG = re.compile(
    r"(?:\[?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d.{0,60}?[\s\[|])?"
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b[\]:|\s]"
)
# What programs say that have caught an exception and printed it.
_HANDLED_IN = 300
_HANDLED = re.compile(
    r"(?i)\b(?:fall(?:ing|s)? ?back\b|retry(?:ing)?\b|trying again|will try|skipp(?:ing|ed)\b"
    r"|ignor(?:ing|ed)\b|continu(?:ing|ed)\b|going on\b|proceeding\b|resum(?:ing|ed)\b"
    r"|recover(?:ing|ed)\b|instead\b|reducing\b|disabl(?:ing|ed)\b|anew\b|from scratch\b|rebuild(?:ing)?\b)"
)


def header_count(text: str) -> int:
    """How many tracebacks begin at ``text``'s end: writers without a lock glue theirs."""
    return text.count(HEADER) if text.endswith(HEADER) else 0


def frame(text: str, *, anywhere: bool = False) -> Frame | None:
    """The frame that a line names; ``anywhere``: also behind another writer's characters."""
    match = _FRAME.match(text)
    if match is None and anywhere:
        match = _INNER_FRAME.search(text)
    if match is None:
        return None
    return _shared(match["file"], int(match["line"]), (match["name"] or "<module>").strip())


# The ranks of a job have the same stacks: of each frame one value, whoever names it.
@functools.lru_cache(maxsize=4096)
def _shared(file: str, line: int, name: str) -> Frame:
    return Frame(file, line, name)


def parse_exception(text: str) -> tuple[str, str] | None:
    """Type and message of a traceback's last line, None for any other text.

    A type is a class's name: it has a capital, or a module before it (``zlib.error``).
    """
    match = _EXCEPTION.match(text.strip())
    if match is None or match["type"] in _LEVELS:
        return None
    if match["type"].islower() and "." not in match["type"]:
        return None
    return match["type"], match["message"] or ""


def bare_exception(text: str) -> tuple[str, str] | None:
    """Type and message of a line that is an exception's even without a traceback before it."""
    match = _BARE.match(text) if ": " in text else None
    return None if match is None else (match[1], match[2])


def names_error(kind: str) -> bool:
    """Whether a type is called as errors are: other words before a colon are not."""
    return bool(_ERROR_NAME.search(kind)) or kind.endswith(".error")


def is_link(text: str) -> bool:
    """Whether a line (stripped) says that the traceback before it led to the next."""
    return text in _LINKS


def spawned_index(text: str) -> int | None:
    """The process whose error torch.multiprocessing.spawn repeats below this line.

    torch/multiprocessing/spawn.py, ``ProcessContext.join``.
    """
    match = _SPAWNED.match(text)
    return None if match is None else int(match[1])


def goes_on(text: str) -> bool:
    """Whether a line behind an exception's is surely of its message."""
    return bool(_GOES_ON.match(text))


def begins_user_code(text: str) -> bool:
    """Whether below a line (stripped) torch.compile shows where it was in the user's own code."""
    return text == _USER_CODE


def is_shutdown(text: str) -> bool:
    """Whether a line is what a process may still say as it ends."""
    return bool(_SHUTDOWN.match(text))


def was_handled(text: str) -> bool:
    """Whether a line behind an exception says that its program goes on without what failed."""
    return bool(_HANDLED.search(text[:_HANDLED_IN]))


def is_log(text: str, *, levels: str = "INFO|DEBUG|WARNING") -> bool:
    """Whether a line is one of Python's logging, of one of ``levels``."""
    match = _LOG.match(text[:_LOG_HEAD])
    return match is not None and match[1] in levels.split("|")


def is_agents(text: str) -> bool:
    """Whether a line is of torch's agent: its ranks' tracebacks are written by then."""
    return "torch/distributed/elastic/" in text or "torch.distributed.elastic." in text


def of_thread(lead: str) -> bool:
    """Whether the line before a traceback says that a thread died of it."""
    return bool(_THREAD.search(lead[-400:]))


def of_child(lead: str) -> bool:
    """Whether the line before a traceback names a process of multiprocessing."""
    return bool(_CHILD.match(lead))


def is_harmless(lead: str) -> bool:
    """Whether the line before a traceback says that its exception was ignored."""
    return bool(_HARMLESS.match(lead))


def is_stack(lead: str) -> bool:
    """Whether a stack without an exception follows a line."""
    return lead in _STACK
