"""sacct's text as facts: `sacct -P` with any delimiter, `-p`, and the aligned table.

Written from the outputs of 22.05.8 and 25.11.6 and sacct(1). `-P` escapes nothing: a job's name
may hold the delimiter or a newline. Such rows are put together again where the free text is the
last column; a caller that wants certainty gives sacct a delimiter that no user can know.
Times without a zone are taken with the offset that the caller gives.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence

import msgspec

from firstfault.model.line import LOCAL, zone_of
from firstfault.model.slurm import ExitCode, JobFacts, StepFacts
from firstfault.readers.sacct_json import looks_like_json, parse_json
from firstfault.readers.stdio import asked_for

__all__ = [
    "STATES",
    "base_state",
    "duration_s",
    "exit_code",
    "gpus_of",
    "looks_like_json",
    "looks_like_text",
    "moment",
    "parse_json",
    "parse_records",
    "parse_text",
]

STATES = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "COMPLETING",
    "CONFIGURING",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PENDING",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "REQUEUED",
    "RESIZING",
    "REVOKED",
    "RUNNING",
    "STOPPED",
    "SUSPENDED",
    "TIMEOUT",
)

# Every column that sacct(1) names, 21.08 to 25.11.
_COLUMNS = """
account admincomment alloccpus allocnodes alloctres associd avecpu avecpufreq avediskread
avediskwrite averss avevmsize blockid cluster comment constraints consumedenergy
consumedenergyraw container cputime cputimeraw dbindex derivedexitcode elapsed elapsedraw
eligible end exitcode extra failednode flags gid group jobid jobidraw jobname layout licenses
maxdiskread maxdiskreadnode maxdiskreadtask maxdiskwrite maxdiskwritenode maxdiskwritetask
maxpages maxpagesnode maxpagestask maxrss maxrssnode maxrsstask maxvmsize maxvmsizenode
maxvmsizetask mcslabel mincpu mincpunode mincputask ncpus nnodes nodelist ntasks partition
planned plannedcpu plannedcpuraw priority qos qosraw qosreq reason reqcpufreq reqcpufreqgov
reqcpufreqmax reqcpufreqmin reqcpus reqmem reqnodes reqtres reservation reservationid reserved
resvcpu resvcpuraw restarts sluid start state stderr stdin stdout submit submitline suspended
systemcomment systemcpu timelimit timelimitraw totalcpu tresusageinave tresusageinmax
tresusageinmaxnode tresusageinmaxtask tresusageinmin tresusageinminnode tresusageinmintask
tresusageintot tresusageoutave tresusageoutmax tresusageoutmaxnode tresusageoutmaxtask
tresusageoutmin tresusageoutminnode tresusageoutmintask tresusageouttot uid user usercpu
wckey wckeyid workdir
"""
_FIELDS = frozenset(_COLUMNS.split())
_JOB_ID = re.compile(
    r"(?P<job>[0-9]+(?:_(?:[0-9]+|\[[^\]]*\]))?(?:\+[0-9]+)?)(?:\.(?P<step>[A-Za-z0-9+_]+))?"
)
_CUSTOM = re.compile(r"(?P<first>JobID|JobIDRaw)(?P<delimiter>[^A-Za-z0-9].*?)(?=[A-Z])")
# The aligned table cuts "4242.batch" where the job's number is long.
_CUT_STEPS = {
    f"{name[:length]}+": name
    for name in ("batch", "extern", "interactive")
    for length in range(1, len(name))
}
_TRES = re.compile(r"(?:^|,)([a-z]+(?:/[^=,]+)?)=([0-9]{1,9})(?=,|$)")
_RULE = re.compile(r"-+(?: +-+)+ *")

Row = dict[str, str]


def looks_like_text(head: str) -> bool:
    """True when ``head`` (the first few KiB of a file) holds the header of a sacct table."""
    return _find_header(head.splitlines()[:40]) is not None


def parse_text(text: str, utc_offset_s: int | None = 0) -> list[JobFacts]:
    """The jobs in a sacct table with a header, in its order; every incarnation is one.

    ``utc_offset_s`` is local time minus UTC of who ran sacct (None: not known). Rows that are not a job's or a
    step's are left out; a text without a header gives an empty list.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    found = _find_header(lines)
    if found is None:
        return []
    index, names, delimiter = found
    if delimiter is None:
        rows = _aligned(names, lines[index + 1], lines[index + 2 :])
    else:
        rows = _delimited(names, delimiter, lines[index + 1 :])
    return _jobs(rows, zone_of(utc_offset_s))


def parse_records(text: str, delimiter: str) -> list[JobFacts]:
    """The jobs in the output of `sacct --parsable --delimiter=...`, its times in UTC.

    Each record ends with the delimiter, the header too: where that is a text that no user can
    know, a newline in a job's name or path is as good as any other character. Raises ValueError
    for what is no such output, or is cut off.
    """
    end = delimiter + "\n"
    if not text.endswith(end):
        raise ValueError("it does not end as a table of sacct does")
    header, *records = text[: -len(end)].split(end)
    names = [name.lower() for name in header.split(delimiter)]
    if not _known(names):
        raise ValueError(f"no header of sacct: {header[:80]!r}")
    rows = [dict(zip(names, record.split(delimiter), strict=False)) for record in records]
    return _jobs([row for row in rows if len(row) == len(names)], dt.UTC)


def base_state(text: str) -> tuple[str | None, int | None]:
    """("CANCELLED", 1001) of "CANCELLED by 1001"; a state cut to "OUT_OF_ME+" is made whole."""
    words = text.split()
    if not words:
        return None, None
    state = words[0].upper()
    if state.endswith("+"):
        whole = [known for known in STATES if known.startswith(state[:-1])]
        state = whole[0] if len(whole) == 1 else state
    by_uid = int(words[2]) if len(words) == 3 and words[1] == "by" and words[2].isdigit() else None
    return state, by_uid


def _find_header(lines: Sequence[str]) -> tuple[int, list[str], str | None] | None:
    for index, line in enumerate(lines):
        if "JobID" not in line or len(line) > 8192:
            continue
        following = lines[index + 1] if index + 1 < len(lines) else ""
        header = _header(line, following)
        if header is not None:
            return index, *header
    return None


def _header(line: str, following: str) -> tuple[list[str], str | None] | None:
    """The columns (lower case) and the delimiter, None for an aligned table."""
    if _RULE.fullmatch(following.strip()) and _known(line.split()):
        return [name.lower() for name in line.split()], None
    custom = _CUSTOM.match(line)
    delimiter = "|" if "|" in line else custom["delimiter"] if custom else None
    if delimiter is None or not delimiter.strip(" "):
        return None
    names = line.split(delimiter)
    if names and not names[-1]:
        names.pop()  # sacct -p ends its lines with the delimiter
    return ([name.strip().lower() for name in names], delimiter) if _known(names) else None


def _known(names: Sequence[str]) -> bool:
    lower = [name.strip().lower() for name in names]
    known = sum(name in _FIELDS for name in lower)
    return (
        len(lower) >= 2
        and ("jobid" in lower or "jobidraw" in lower)
        and known * 4 >= len(lower) * 3
    )


def _aligned(names: Sequence[str], rule: str, lines: Sequence[str]) -> list[Row]:
    spans = [match.span() for match in re.finditer("-+", rule)]
    if len(spans) != len(names):
        return []
    return [
        {name: line[start:end].strip() for name, (start, end) in zip(names, spans, strict=True)}
        for line in lines
    ]


def _delimited(names: Sequence[str], delimiter: str, lines: Sequence[str]) -> list[Row]:
    rows: list[list[str]] = []
    place = names.index("jobid") if "jobid" in names else names.index("jobidraw")
    for line in lines:
        cells = line.split(delimiter)
        starts = len(cells) >= len(names) and _JOB_ID.fullmatch(cells[place].strip())
        if starts:
            head = cells[: len(names) - 1]
            last = cells[len(names) - 1 :]
            if last and last[-1] == "" and len(cells) > len(names):
                last = last[:-1]  # sacct -p
            rows.append([*head, delimiter.join(last)])
        elif rows and line:
            rows[-1][-1] += "\n" + line  # a newline in the free text of the last column
    return [dict(zip(names, row, strict=True)) for row in rows]


def _jobs(rows: Sequence[Row], zone: dt.timezone) -> list[JobFacts]:
    jobs: list[JobFacts] = []
    steps: list[list[StepFacts]] = []
    for row in rows:
        match = _JOB_ID.fullmatch(row.get("jobid") or row.get("jobidraw") or "")
        if match is None:
            continue
        if match["step"] is None:
            jobs.append(_job(match["job"], row, zone))
            steps.append([])
            continue
        at = next((i for i in range(len(jobs) - 1, -1, -1) if jobs[i].id == match["job"]), None)
        if at is None:
            jobs.append(JobFacts(id=match["job"]))
            steps.append([])
            at = len(jobs) - 1
        steps[at].append(_step(match["step"], row, zone))
    return [
        msgspec.structs.replace(job, steps=tuple(own)) for job, own in zip(jobs, steps, strict=True)
    ]


def _job(job_id: str, row: Row, zone: dt.timezone) -> JobFacts:
    state, by_uid = base_state(row.get("state", ""))
    uid, restarts = row.get("uid", ""), row.get("restarts", "")
    return JobFacts(
        id=job_id,
        raw_id=_text(row, "jobidraw"),
        cluster=_text(row, "cluster"),
        name=_text(row, "jobname"),
        user=_text(row, "user"),
        uid=int(uid) if uid.isdigit() else None,
        account=_text(row, "account"),
        partition=_text(row, "partition"),
        state=state,
        by_uid=by_uid,
        reason=_text(row, "reason"),
        exit_code=exit_code(row.get("exitcode", "")),
        derived_exit_code=exit_code(row.get("derivedexitcode", "")),
        nodes=_nodes(row),
        submitted_at=moment(row.get("submit", ""), zone),
        started_at=moment(row.get("start", ""), zone),
        ended_at=moment(row.get("end", ""), zone),
        time_limit_s=_limit(row),
        work_dir=_text(row, "workdir"),
        restarts=int(restarts) if restarts.isdigit() and len(restarts) < 10 else None,
        failed_node=_text(row, "failednode"),
        stdout=_text(row, "stdout"),
        stderr=_text(row, "stderr"),
        gpus=gpus_of(_tres(row.get("alloctres", ""))),
    )


def gpus_of(tres: Mapping[str, int]) -> int | None:
    """How many GPUs are among trackable resources ("gres/gpu", "gres/gpu:a100"), None where none
    is named: a cluster that does not account for GPUs names none of any job."""
    if "gres/gpu" in tres:
        return tres["gres/gpu"]
    typed = [count for name, count in tres.items() if name.startswith("gres/gpu:")]
    return sum(typed) if typed else None


def _tres(text: str) -> dict[str, int]:
    """Of "billing=8,cpu=8,gres/gpu=4,mem=64G,node=2" what is a plain count (slurm.conf(5))."""
    return {name: int(count) for name, count in _TRES.findall(text)}


def _step(step_id: str, row: Row, zone: dt.timezone) -> StepFacts:
    state, by_uid = base_state(row.get("state", ""))
    stdout, stderr = asked_for(row.get("submitline", ""))
    return StepFacts(
        id=_CUT_STEPS.get(step_id, step_id),
        name=_text(row, "jobname"),
        state=state,
        by_uid=by_uid,
        exit_code=exit_code(row.get("exitcode", "")),
        nodes=_nodes(row),
        started_at=moment(row.get("start", ""), zone),
        ended_at=moment(row.get("end", ""), zone),
        stdout=_text(row, "stdout") or stdout,
        stderr=_text(row, "stderr") or stderr,
    )


def _text(row: Row, name: str) -> str | None:
    value = row.get(name, "").strip()
    return None if value in ("", "None", "Unknown") else value


def _nodes(row: Row) -> str | None:
    value = _text(row, "nodelist")
    return None if value in (None, "None assigned") or value.endswith("+") else value


def exit_code(text: str) -> ExitCode | None:
    """ "1:0" as Slurm's commands print it."""
    match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text.strip())
    return ExitCode(int(match[1]), int(match[2])) if match else None


def moment(text: str, zone: dt.timezone) -> dt.datetime | None:
    """A time as Slurm's commands print it; without a zone of its own it is of ``zone``."""
    text = text.strip()
    if re.fullmatch(r"[0-9]{9,11}", text):  # SLURM_TIME_FORMAT=%s
        return dt.datetime.fromtimestamp(int(text), dt.UTC)
    try:
        value = dt.datetime.fromisoformat(text)
        if value.tzinfo is None:
            value = value.replace(tzinfo=zone)
        return value if value.tzinfo is LOCAL else value.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None  # "Unknown", "None", or SLURM_TIME_FORMAT=relative


def _limit(row: Row) -> int | None:
    raw = row.get("timelimitraw", "").strip()
    if re.fullmatch("[0-9]{1,9}", raw):
        return int(raw) * 60
    return duration_s(row.get("timelimit", ""))


def duration_s(text: str) -> int | None:
    """Seconds of "[D-]HH:MM:SS", or "MM:SS" of a short one; None for "UNLIMITED"."""
    match = re.fullmatch(
        r"(?:([0-9]{1,6})-)?(?:([0-9]{1,4}):)?([0-9]{1,2}):([0-9]{2})(?:\.[0-9]{1,3})?",
        text.strip(),
    )
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
