"""Asking sacct: a program of its own stands in for it."""

from __future__ import annotations

import datetime as dt
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firstfault.slurm.command import run
from firstfault.slurm.facts import FactsError
from firstfault.slurm.sacct import Sacct, find
from tests.fakes.sacct import SacctProgram

# Answers as sacct does: offers the columns of 22.05, prints them with the delimiter it is given.
SACCT = r"""#!/bin/sh
if [ "$1" = --helpformat ]; then
  echo "Account AllocCPUS Cluster DerivedExitCode End ExitCode JobID JobIDRaw JobName"
  echo "NodeList Partition Reason Start State Submit Timelimit TimelimitRaw UID User WorkDir"
  exit 0
fi
for argument in "$@"; do
  case $argument in
    --delimiter=*) d=${argument#--delimiter=} ;;
    --format=*) printf '%s\n' "${argument#--format=}" | sed "s/,/$d/g; s/\$/$d/" ;;
    --jobs=*) jobs=${argument#--jobs=} ;;
  esac
done
printf '%s\n' "$@" > "$0.arguments"
env > "$0.environment"
for job in $(echo "$jobs" | tr , ' '); do
  [ "$job" = 99 ] && continue
  printf "$job_$d" | sed "s/.*/$job$d$job$d/" | tr -d '\n'
  printf "c1${d}alice${d}1001${d}ml${d}main${d}FAILED${d}1:0${d}1:0${d}n[1-2]${d}"
  printf "2026-11-30T15:56:00${d}2026-11-30T15:56:07${d}2026-11-30T15:56:29${d}3${d}00:03:00${d}"
  printf "None${d}/home/a${d}a|b\n8|8|COMPLETED${d}\n"
done
"""


def program(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sacct"
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_one_question_brings_all_jobs(tmp_path: Path) -> None:
    path = program(tmp_path, SACCT)

    found = Sacct(path, 10).facts(["13", "12", "99", "12"])

    assert sorted(found) == ["12", "13"]
    (facts,) = found["12"]
    assert (facts.state, facts.user, facts.uid, facts.cluster) == ("FAILED", "alice", 1001, "c1")
    assert facts.name == "a|b\n8|8|COMPLETED"
    arguments = Path(f"{path}.arguments").read_text().splitlines()
    assert "--jobs=12,13,99" in arguments
    assert "--duplicates" in arguments
    assert "TZ=UTC" in Path(f"{path}.environment").read_text()


def test_a_job_id_that_is_not_a_number_is_never_passed_on(tmp_path: Path) -> None:
    with pytest.raises(FactsError, match="not a job id"):
        Sacct(program(tmp_path, SACCT), 10).facts(["--help"])


def test_a_failure_is_told_with_what_sacct_said(tmp_path: Path) -> None:
    path = program(tmp_path, "#!/bin/sh\necho 'slurm_persist_conn_open: refused' >&2\nexit 1\n")

    with pytest.raises(FactsError, match=r"status 1: slurm_persist_conn_open: refused"):
        Sacct(path, 10).facts(["12"])


END = dt.datetime(2026, 11, 30, 15, 56, 29, tzinfo=dt.UTC)


def row(job: str, state: str, ended: str = "2026-11-30T15:56:29", **more: str) -> dict[str, str]:
    known = {"JobID": job, "JobIDRaw": job, "State": state, "ExitCode": "1:0", "JobName": "x"}
    return known | {"Start": "2026-11-30T15:00:00", "End": ended, "NodeList": "n1"} | more


def test_a_window_is_asked_for_in_utc_and_gives_bad_ends_within_it(tmp_path: Path) -> None:
    sacct = SacctProgram(tmp_path / "bin")
    sacct.know(
        {
            "1": [row("1", "FAILED")],
            "2": [row("2", "CANCELLED by 0")],
            "3": [row("3", "COMPLETED")],
            "4": [row("4", "FAILED", "2026-11-30T16:56:29")],
            "5": [row("5", "RUNNING", "Unknown")],
            "6": [row("6_1", "NODE_FAIL"), row("6_2", "OUT_OF_MEMORY")],
        }
    )
    hour = dt.timedelta(hours=1)

    found = Sacct(sacct.path, 20).ended(END - hour, END)

    assert [facts.id for facts in found] == ["1", "2", "6_1", "6_2"]
    asked = sacct.asked()[-1]
    assert "--starttime=2026-11-30T14:56:29" in asked
    assert "--endtime=2026-11-30T15:56:29" in asked
    assert "--allocations" in asked


# As 22.05.8 had it for up to five seconds of a job that ended within them.
END_ALONE = {"JobName": "allocation", "User": "root", "UID": "0", "Partition": "", "Account": ""}


def test_a_job_of_which_accounting_has_the_end_alone_is_not_known_yet(tmp_path: Path) -> None:
    sacct = SacctProgram(tmp_path / "bin")
    again = row("2", "FAILED", Partition="main", JobName="allocation")
    sacct.know({"1": [row("1", "FAILED", **END_ALONE)], "2": [again]})

    assert list(Sacct(sacct.path, 20).facts(["1", "2"])) == ["2"]


def test_an_end_whose_beginning_never_came_is_nobodys(tmp_path: Path) -> None:
    sacct = SacctProgram(tmp_path / "bin")
    sacct.know({"1": [row("1", "FAILED", **END_ALONE)]})
    hour = dt.timedelta(hours=1)

    (facts,) = Sacct(sacct.path, 20).ended(END - hour, END)

    assert (facts.state, facts.nodes) == ("FAILED", "n1")
    assert (facts.name, facts.user, facts.uid) == (None, None, None)


def test_all_configured_clusters_are_asked_about(tmp_path: Path) -> None:
    sacct = SacctProgram(tmp_path / "bin")
    Sacct(sacct.path, 20, ("c1", "c2")).facts(["1"])

    assert "--clusters=c1,c2" in sacct.asked()[-1]


def test_other_tasks_of_an_array_are_no_answer(tmp_path: Path) -> None:
    sacct = SacctProgram(tmp_path / "bin")
    tasks = [row("7_0", "FAILED", JobIDRaw="8"), row("7_1", "FAILED", JobIDRaw="7")]
    sacct.know({"7": tasks})

    found = Sacct(sacct.path, 20).facts(["7"])

    assert [facts.id for facts in found["7"]] == ["7_1"]
    assert list(found) == ["7"]


@pytest.mark.parametrize(
    ("behaviour", "said"), [("garbage", "helpformat"), ("fail", "Connection refused")]
)
def test_what_is_no_answer_is_an_error_and_the_next_question_may_succeed(
    tmp_path: Path, behaviour: str, said: str
) -> None:
    program = SacctProgram(tmp_path / "bin")
    program.know({"1": [row("1", "FAILED")]})
    asked = Sacct(program.path, 20)
    program.behave(behaviour)
    with pytest.raises(FactsError, match=said):
        asked.facts(["1"])

    program.behave("ok")
    assert asked.facts(["1"])["1"][0].state == "FAILED"
    program.behave(behaviour)
    with pytest.raises(FactsError):
        asked.facts(["1"])


def test_a_table_that_is_cut_off_is_no_answer(tmp_path: Path) -> None:
    path = program(tmp_path, SACCT + "printf 14\n")

    with pytest.raises(FactsError, match="does not end as a table"):
        Sacct(path, 10).facts(["12"])


def test_a_window_of_too_many_ends_is_asked_for_in_parts(tmp_path: Path) -> None:
    inner = SacctProgram(tmp_path / "bin")
    inner.know({"1": [row("1", "FAILED")]})
    text = f"""#!/bin/sh
case "$*" in
  *--starttime=2026-11-30T15:00:00*--endtime=2026-11-30T16:00:00*) exec /usr/bin/yes ;;
esac
exec {inner.path} "$@"
"""
    begin = END.replace(minute=0, second=0)

    found = Sacct(program(tmp_path, text), 30).ended(begin, begin + dt.timedelta(hours=1))

    assert [facts.id for facts in found] == ["1"]


def test_long_command_lines_of_a_user_hide_no_job(tmp_path: Path) -> None:
    text = SACCT.replace("UID User WorkDir", "SubmitLine UID User WorkDir").replace(
        "for job in $(echo",
        'case $* in *SubmitLine*) exec /usr/bin/yes "sbatch --wrap=x";; esac\nfor job in $(echo',
    )
    asked = Sacct(program(tmp_path, text), 30)

    assert "SubmitLine" in asked.fields()
    assert asked.facts(["12"])["12"][0].state == "FAILED"


def test_never_more_than_one_sacct_runs(tmp_path: Path) -> None:
    text = SACCT.replace(
        "printf '%s\\n' \"$@\"",
        'mkdir "$0.running" || exit 9\nsleep 0.2\nrmdir "$0.running"\nprintf \'%s\\n\' "$@"',
    )
    assert "mkdir" in text
    asked = Sacct(program(tmp_path, text), 30)
    with ThreadPoolExecutor(5) as threads:
        answers = list(threads.map(asked.facts, [["12"]] * 5))

    assert all("12" in answer for answer in answers)


def test_garbage_is_no_answer(tmp_path: Path) -> None:
    path = program(tmp_path, "#!/bin/sh\nhead -c 1000 /dev/urandom\n")

    with pytest.raises(FactsError, match="does not name JobID"):
        Sacct(path, 10).facts(["12"])


def test_a_missing_program_is_told_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(FactsError, match=r"Set slurm\.sacct"):
        Sacct(tmp_path / "absent", 10).facts(["12"])


def test_a_hanging_program_is_killed_with_its_children(tmp_path: Path) -> None:
    path = program(tmp_path, f"#!/bin/sh\nsleep 100 &\necho $! > {tmp_path}/child\nsleep 100\n")
    begun = time.monotonic()

    with pytest.raises(FactsError, match=r"no end after 0\.5 s"):
        Sacct(path, 0.5).facts(["12"])

    assert time.monotonic() - begun < 60
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        state = _state(child)
        if state in (None, "Z"):
            break
        time.sleep(0.02)
    assert state in (None, "Z")


def test_endless_output_is_cut_off() -> None:
    output = run(["/usr/bin/yes"], {}, 10, 100_000)

    assert output.stopped == "more than 100000 bytes of output"
    assert output.status is None


def test_output_and_status_of_a_command_are_returned() -> None:
    output = run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], dict(os.environ), 10, 1000)

    assert (output.status, output.stdout, output.stderr) == (3, b"out\n", b"err\n")


def test_a_configured_path_is_taken_as_it_is() -> None:
    assert find("/opt/slurm/bin/sacct") == Path("/opt/slurm/bin/sacct")


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None
