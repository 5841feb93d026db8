"""The node's configuration, epilog.conf: read alike by the Epilog's shell and by Python."""

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from firstfault_epilog import address

DEFAULT_PATH = "/etc/firstfault/epilog.conf"


class Settings(NamedTuple):
    """What epilog.conf says; docs/collector.md describes each key.

    Times in seconds. ``kernel_offset_s`` and ``boot_id`` go with a file that stands in for
    /dev/kmsg and are None otherwise.
    """

    queue: str = "/run/firstfault/queue"
    start: str = "auto"
    python: str = "/usr/bin/python3"
    pyz: str = "/usr/lib/firstfault/firstfault-epilog.pyz"
    spool: str = "/var/spool/firstfault"
    kernel_log: str = "/dev/kmsg"
    kernel_offset_s: Optional[float] = None
    boot_id: Optional[str] = None
    rank_logs: Tuple[str, ...] = ("/tmp/torchelastic_*/*_*",)  # noqa: S108 (torchrun's default)
    max_job_age_s: float = 86400.0
    read_deadline_s: float = 20.0
    allow_root_jobs: bool = False
    mask_secrets: bool = True
    opt_out_word: str = "firstfault=off"
    facts_only_accounts: Tuple[str, ...] = ()
    facts_only_partitions: Tuple[str, ...] = ()
    step_logs: Tuple[str, ...] = ()
    dumps: Tuple[str, ...] = (
        "/tmp/nccl_trace_rank_*",  # noqa: S108 (torch's default, as is the next)
        "%h/.cache/torch/comm_lib_trace_rank_*",
    )
    rank_log_dir: Optional[str] = None
    rank_log_days: float = 7.0
    rank_log_mb: float = 20480.0
    daemon: Optional[str] = None
    sign: str = "auto"
    key_file: Optional[str] = None
    munge_socket: Optional[str] = None
    ca_file: Optional[str] = None
    keep_mb: float = 256.0
    pending_after_s: float = 600.0
    pending_ask_s: float = 15.0
    pending_ttl_s: float = 3600.0
    pending_max: int = 1000


KEYS = (
    "FIRSTFAULT_QUEUE",
    "FIRSTFAULT_START",
    "FIRSTFAULT_PYTHON",
    "FIRSTFAULT_PYZ",
    "FIRSTFAULT_RANK_LOG_DIR",
    "FIRSTFAULT_RANK_LOG_TEE",
    "FIRSTFAULT_RANK_LOG_FLIGHT_RECORDER",
    "FIRSTFAULT_RANK_LOG_ANY_FS",
    "FIRSTFAULT_RANK_LOG_FREE_MB",
    "FIRSTFAULT_SPOOL",
    "FIRSTFAULT_KERNEL_LOG",
    "FIRSTFAULT_KERNEL_OFFSET_S",
    "FIRSTFAULT_BOOT_ID",
    "FIRSTFAULT_RANK_LOGS",
    "FIRSTFAULT_STEP_LOGS",
    "FIRSTFAULT_FLIGHT_RECORDER",
    "FIRSTFAULT_MAX_JOB_AGE",
    "FIRSTFAULT_READ_DEADLINE_S",
    "FIRSTFAULT_ALLOW_ROOT_JOBS",
    "FIRSTFAULT_MASK_SECRETS",
    "FIRSTFAULT_OPT_OUT_WORD",
    "FIRSTFAULT_FACTS_ONLY_ACCOUNTS",
    "FIRSTFAULT_FACTS_ONLY_PARTITIONS",
    "FIRSTFAULT_RANK_LOG_DAYS",
    "FIRSTFAULT_RANK_LOG_MB",
    "FIRSTFAULT_DAEMON",
    "FIRSTFAULT_SIGN",
    "FIRSTFAULT_KEY_FILE",
    "FIRSTFAULT_MUNGE_SOCKET",
    "FIRSTFAULT_CA_FILE",
    "FIRSTFAULT_KEEP_MB",
    "FIRSTFAULT_PENDING_AFTER_S",
    "FIRSTFAULT_PENDING_ASK_S",
    "FIRSTFAULT_PENDING_TTL_S",
    "FIRSTFAULT_PENDING_MAX",
)
# The shell of the Epilog and of the TaskProlog stops reading at this line.
STUB_END = "# ---"
STUB_KEYS = KEYS[:9]
# Of a folder of which the shell makes names that need no quoting.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/-]*\Z")


def read(path: str) -> Tuple[Settings, List[str]]:
    """The settings in the file ``path`` and what is wrong with them, a sentence each.

    A wrong value leaves its default in force. A missing file is all defaults.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(1 << 20).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return Settings(), []
    except OSError as error:
        return Settings(), [f"{path}: cannot be read ({error.strerror}): the defaults are used"]
    values, faults = parse(text)
    settings, wrong = of(values)
    return settings, [f"{path}: {fault}" for fault in faults + wrong]


def parse(text: str) -> Tuple[Dict[str, str], List[str]]:
    """The KEY=VALUE lines of ``text`` and what is wrong with them. The last of a key counts."""
    values: Dict[str, str] = {}
    faults = []
    ended = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(STUB_END):
            ended = True
        if not line.strip() or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals or key not in KEYS:
            faults.append(f"line {number}: {key[:60]!r} is not a key that is known")
            continue
        if ended and key in STUB_KEYS:
            faults.append(f"line {number}: {key} must stand above the line {STUB_END!r}")
        if value != value.strip() or value[:1] in ("'", '"'):
            faults.append(f"line {number}: {key}: blanks and quotes are part of the value")
        values[key] = value
    return values, faults


def of(values: Dict[str, str]) -> Tuple[Settings, List[str]]:
    """The settings that ``values`` (as from `parse`) give, and what is wrong with them."""
    faults: List[str] = []
    default = Settings()

    def path(key: str, fallback: str) -> str:
        value = values.get(key) or fallback
        if not value.startswith("/"):
            faults.append(f"{key}: {value[:80]!r} is not an absolute path: {fallback} is used")
            return fallback
        return value

    def number(key: str, fallback: Optional[float]) -> Optional[float]:
        try:
            value = float(values[key]) if values.get(key) else fallback
        except ValueError:
            faults.append(f"{key}: {values[key][:40]!r} is not a number: {fallback} is used")
            return fallback
        return value

    def length(key: str, fallback: float) -> float:
        value = number(key, fallback)
        if value is None or not 0 <= value < 1e9:
            faults.append(f"{key}: {values[key][:40]!r} is not 0 or more: {fallback:g} is used")
            return fallback
        return value

    start = values.get("FIRSTFAULT_START") or default.start
    if start not in ("auto", "systemd", "detach"):
        faults.append(f"FIRSTFAULT_START: {start[:40]!r} is not one of auto, systemd, detach")
    sign = values.get("FIRSTFAULT_SIGN") or default.sign
    if sign not in ("auto", "munge", "key"):
        faults.append(
            f"FIRSTFAULT_SIGN: {sign[:40]!r} is not one of auto, munge, key: auto is used"
        )
        sign = default.sign
    daemon = values.get("FIRSTFAULT_DAEMON") or None
    if daemon is not None:
        try:
            address.parse(daemon)
        except ValueError as error:
            faults.append(f"FIRSTFAULT_DAEMON: {error}: nothing is sent, all is kept")

    keep_mb = number("FIRSTFAULT_KEEP_MB", default.keep_mb) or 0.0
    if not keep_mb > 0:
        faults.append(
            f"FIRSTFAULT_KEEP_MB: {keep_mb:g} would keep nothing: {default.keep_mb:g} is used"
        )
        keep_mb = default.keep_mb

    # What cannot be used is kept: the key or the authority that was meant is not replaced by none.
    def optional_path(key: str) -> Optional[str]:
        value = values.get(key) or None
        if value is not None and not value.startswith("/"):
            faults.append(f"{key}: {value[:80]!r} is not an absolute path")
        return value

    def switch(key: str, fallback: bool) -> bool:
        value = values.get(key) or str(int(fallback))
        if value not in ("0", "1"):
            faults.append(f"{key}: {value[:40]!r} is not 0 or 1: {int(fallback)} is used")
            return fallback
        return value == "1"

    def words(key: str) -> Tuple[str, ...]:
        return tuple(values.get(key, "").split())

    def globs(key: str, fallback: Tuple[str, ...], starts: Tuple[str, ...]) -> Tuple[str, ...]:
        if key not in values:
            return fallback
        found = tuple(pattern for pattern in words(key) if pattern.startswith(starts))
        if len(found) < len(words(key)):
            faults.append(
                f"{key}: a pattern that does not start with {' or '.join(starts)} is left out"
            )
        return found

    own = ("/", "%w/", "%h/")
    settings = Settings(
        rank_log_dir=_rank_log_dir(values, faults),
        rank_log_days=number("FIRSTFAULT_RANK_LOG_DAYS", None) or default.rank_log_days,
        rank_log_mb=number("FIRSTFAULT_RANK_LOG_MB", None) or default.rank_log_mb,
        queue=path("FIRSTFAULT_QUEUE", default.queue),
        start=start,
        python=path("FIRSTFAULT_PYTHON", default.python),
        pyz=path("FIRSTFAULT_PYZ", default.pyz),
        spool=path("FIRSTFAULT_SPOOL", default.spool),
        kernel_log=path("FIRSTFAULT_KERNEL_LOG", default.kernel_log),
        kernel_offset_s=number("FIRSTFAULT_KERNEL_OFFSET_S", None),
        boot_id=values.get("FIRSTFAULT_BOOT_ID") or None,
        rank_logs=globs("FIRSTFAULT_RANK_LOGS", default.rank_logs, ("/",)),
        step_logs=globs("FIRSTFAULT_STEP_LOGS", default.step_logs, own),
        dumps=globs("FIRSTFAULT_FLIGHT_RECORDER", default.dumps, own),
        max_job_age_s=number("FIRSTFAULT_MAX_JOB_AGE", None) or default.max_job_age_s,
        read_deadline_s=number("FIRSTFAULT_READ_DEADLINE_S", None) or default.read_deadline_s,
        allow_root_jobs=switch("FIRSTFAULT_ALLOW_ROOT_JOBS", False),
        mask_secrets=switch("FIRSTFAULT_MASK_SECRETS", True),
        opt_out_word=values.get("FIRSTFAULT_OPT_OUT_WORD", default.opt_out_word),
        facts_only_accounts=words("FIRSTFAULT_FACTS_ONLY_ACCOUNTS"),
        facts_only_partitions=words("FIRSTFAULT_FACTS_ONLY_PARTITIONS"),
        daemon=daemon,
        sign=sign,
        key_file=optional_path("FIRSTFAULT_KEY_FILE"),
        munge_socket=optional_path("FIRSTFAULT_MUNGE_SOCKET"),
        ca_file=optional_path("FIRSTFAULT_CA_FILE"),
        keep_mb=keep_mb,
        pending_after_s=length("FIRSTFAULT_PENDING_AFTER_S", default.pending_after_s),
        pending_ask_s=length("FIRSTFAULT_PENDING_ASK_S", default.pending_ask_s),
        pending_ttl_s=length("FIRSTFAULT_PENDING_TTL_S", default.pending_ttl_s),
        pending_max=int(length("FIRSTFAULT_PENDING_MAX", default.pending_max)),
    )
    return settings, faults


# The other keys of this folder are the TaskProlog's alone: what it would not take is said here.
def _rank_log_dir(values: Dict[str, str], faults: List[str]) -> Optional[str]:
    for name in ("TEE", "FLIGHT_RECORDER", "ANY_FS"):
        key = f"FIRSTFAULT_RANK_LOG_{name}"
        if values.get(key, "0") not in ("", "0", "1"):
            faults.append(f"{key}: {values[key][:40]!r} is not 0 or 1: 0 is used")
    room = values.get("FIRSTFAULT_RANK_LOG_FREE_MB") or "0"
    if not re.match(r"[0-9]{1,10}\Z", room):
        faults.append(f"FIRSTFAULT_RANK_LOG_FREE_MB: {room[:40]!r} is not a number: 1024 is used")
    folder = values.get("FIRSTFAULT_RANK_LOG_DIR") or None
    if folder is not None and not _PLAIN_PATH.match(folder):
        faults.append(
            f"FIRSTFAULT_RANK_LOG_DIR: {folder[:80]!r} is not an absolute path of letters, digits "
            "and . _ - / alone: no rank gets logs of its own"
        )
        return None
    return folder
