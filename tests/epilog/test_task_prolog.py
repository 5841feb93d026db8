"""The TaskProlog: what slurmstepd runs as the job's user before each task."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.epilog.conftest import ROOT

SCRIPT = ROOT / "epilog" / "firstfault-task-prolog"
SHELLS = [("/bin/dash",), ("/bin/bash", "--posix"), ("/bin/busybox", "sh")]
GIVEN = {"PET_LOG_DIR", "PYTHONFAULTHANDLER", "FIRSTFAULT_RANK_LOGS_IN", "FIRSTFAULT_RANK_LOGS_SET"}


class Tasks:
    """A node with a folder for rank logs, and a user whose tasks start there."""

    def __init__(self, folder: Path, owner: pwd.struct_passwd) -> None:
        self.folder = folder
        self.base = folder / "ranks"
        self.owner = owner
        self.conf = folder / "epilog.conf"
        self.base.mkdir()
        self.base.chmod(0o1777)
        self.configure()

    def configure(self, **changes: str) -> None:
        """Writes epilog.conf; the disk under /tmp is taken as it is."""
        values = {"FIRSTFAULT_RANK_LOG_DIR": str(self.base), "FIRSTFAULT_RANK_LOG_ANY_FS": "1"}
        values |= {"FIRSTFAULT_RANK_LOG_FREE_MB": "1"} | changes
        lines = [f"{key}={value}\n" for key, value in values.items()]
        self.conf.write_text("".join(lines) + "# ---\n")

    def environment(self, **changes: str) -> dict[str, str]:
        """What a task of step 0 of job 12 on node n3 has."""
        variables = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "n3"}
        variables |= {"SLURM_JOB_UID": str(self.owner.pw_uid), "PATH": "/nowhere"}
        return variables | {"FIRSTFAULT_CONF": str(self.conf)} | changes

    def run(
        self, *argv: str, limits: str = "", variables: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the script as slurmstepd does, as the owner; ``limits`` are a shell's words."""
        command = list(argv) or [str(SCRIPT)]
        if limits:
            command = ["/bin/sh", "-c", f'{limits}; exec "$@"', "sh", *command]
        return subprocess.run(
            command,
            env=self.environment() if variables is None else variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            user=self.owner.pw_uid,
            group=self.owner.pw_gid,
            extra_groups=[],
        )

    def task(self, **changes: str) -> dict[str, str]:
        """The environment of a task, once slurmstepd has done what the script said."""
        variables = self.environment(**changes)
        done = self.run(variables=variables)
        assert (done.returncode, done.stderr) == (0, "")
        for line in done.stdout.splitlines():
            word, _, rest = line.partition(" ")
            if word == "export":
                name, _, value = rest.partition("=")
                variables[name] = value
            else:
                assert word == "unset"
                variables.pop(rest, None)
        return variables


@pytest.fixture
def tasks(owner: pwd.struct_passwd) -> Iterator[Tasks]:
    folder = Path(tempfile.mkdtemp(prefix="firstfault-tasks-"))
    folder.chmod(0o755)
    yield Tasks(folder, owner)
    shutil.rmtree(folder)


def given(task: dict[str, str]) -> set[str]:
    names = {name for name in task if name.startswith(("PET_", "PYTHON", "FIRSTFAULT_RANK"))}
    return names - {"FIRSTFAULT_RANK_LOGS"}


def test_a_task_that_asks_for_nothing_gets_a_folder_of_its_job_node_start_and_step(
    tasks: Tasks,
) -> None:
    first = tasks.task()
    batch = tasks.task(SLURM_STEP_ID="4294967291")
    unnumbered = tasks.task(SLURM_STEP_ID="")
    again = tasks.task(SLURM_RESTART_COUNT="2")

    assert given(first) == GIVEN
    assert first["PET_LOG_DIR"] == f"{tasks.base}/12.n3/0.0"
    assert batch["PET_LOG_DIR"] == f"{tasks.base}/12.n3/0.batch"
    assert unnumbered["PET_LOG_DIR"] == batch["PET_LOG_DIR"]
    assert again["PET_LOG_DIR"] == f"{tasks.base}/12.n3/2.0"
    info = os.stat(first["PET_LOG_DIR"])
    assert (info.st_uid, info.st_mode & 0o777) == (tasks.owner.pw_uid, 0o700)
    assert os.stat(tasks.base / "12.n3").st_mode & 0o777 == 0o700


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: Path(shell[0]).name)
def test_every_shell_gives_the_same(tasks: Tasks, shell: tuple[str, ...]) -> None:
    if not Path(shell[0]).exists():
        pytest.skip(f"{shell[0]} is not installed")
    tasks.configure(FIRSTFAULT_RANK_LOG_TEE="1")

    done = tasks.run(*shell, str(SCRIPT))

    assert done.stderr == ""
    assert "export PET_TEE=2\n" in done.stdout
    assert f"export PET_LOG_DIR={tasks.base}/12.n3/0.0\n" in done.stdout


def test_without_a_folder_in_the_configuration_nothing_is_given(tasks: Tasks) -> None:
    tasks.configure(FIRSTFAULT_RANK_LOG_DIR="")
    assert given(tasks.task()) == set()
    tasks.conf.unlink()
    assert given(tasks.task()) == set()


@pytest.mark.parametrize("name", ["PET_LOG_DIR", "PET_TEE", "PET_REDIRECTS"])
@pytest.mark.parametrize("value", ["", "0", "3", "/home/user/logs"])
def test_who_arranges_torchruns_logs_keeps_what_was_arranged(
    tasks: Tasks, name: str, value: str
) -> None:
    tasks.configure(FIRSTFAULT_RANK_LOG_TEE="1")

    task = tasks.task(**{name: value})

    assert task[name] == value
    assert given(task) == {name}


def test_a_users_fault_handler_stays(tasks: Tasks) -> None:
    assert tasks.task(PYTHONFAULTHANDLER="")["PYTHONFAULTHANDLER"] == ""


def test_the_flight_recorder_writes_there_under_both_names(tasks: Tasks) -> None:
    tasks.configure(FIRSTFAULT_RANK_LOG_FLIGHT_RECORDER="1")
    batch = tasks.task(SLURM_STEP_ID="4294967291")
    step = tasks.task(**{**batch, "SLURM_STEP_ID": "0"})
    tasks.configure(FIRSTFAULT_RANK_LOG_DIR="")
    back = tasks.task(**step)

    for name in ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"):
        assert step[name] == f"{tasks.base}/12.n3/0.0/nccl_trace_rank_"
    assert step["TORCH_NCCL_TRACE_BUFFER_SIZE"] == step["TORCH_FR_BUFFER_SIZE"] == "2000"
    assert step["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    assert [name for name in back if name.startswith("TORCH_")] == []


def test_of_two_names_for_one_thing_the_users_stays_alone(tasks: Tasks) -> None:
    tasks.configure(FIRSTFAULT_RANK_LOG_FLIGHT_RECORDER="1")

    task = tasks.task(TORCH_FR_BUFFER_SIZE="0", TORCH_NCCL_DEBUG_INFO_TEMP_FILE="/home/user/fr")

    assert task["TORCH_FR_BUFFER_SIZE"] == "0"
    assert task["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] == "/home/user/fr"
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE" not in task
    assert "TORCH_FR_DUMP_TEMP_FILE" not in task


def test_a_user_may_say_no(tasks: Tasks) -> None:
    assert given(tasks.task(FIRSTFAULT_RANK_LOGS="off")) == set()


def test_the_switch_turns_it_off(tasks: Tasks) -> None:
    (tasks.folder / "off").touch()

    assert given(tasks.task()) == set()


def test_a_task_within_a_task_and_a_job_from_a_job_get_folders_of_their_own(tasks: Tasks) -> None:
    tasks.configure(FIRSTFAULT_RANK_LOG_TEE="1")
    batch = tasks.task(SLURM_STEP_ID="4294967291")
    step = tasks.task(**{**batch, "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "n4"})
    other = tasks.task(**{**step, "SLURM_JOB_ID": "13"})

    assert step["PET_LOG_DIR"] == f"{tasks.base}/12.n4/0.0"
    assert other["PET_LOG_DIR"] == f"{tasks.base}/13.n4/0.0"
    assert given(step) == given(other) == GIVEN | {"PET_TEE"}


def test_what_the_user_changed_in_between_is_the_users(tasks: Tasks) -> None:
    batch = tasks.task(SLURM_STEP_ID="4294967291")

    step = tasks.task(**{**batch, "PET_LOG_DIR": "/home/user/logs"})

    assert step["PET_LOG_DIR"] == "/home/user/logs"


def test_what_was_given_elsewhere_is_taken_back_where_it_does_not_fit(tasks: Tasks) -> None:
    tasks.configure(FIRSTFAULT_RANK_LOG_TEE="1")
    batch = tasks.task(SLURM_STEP_ID="4294967291")
    tasks.configure(FIRSTFAULT_RANK_LOG_TEE="1", FIRSTFAULT_RANK_LOG_FREE_MB="9999999999")

    step = tasks.task(**{**batch, "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "n4"})

    assert given(step) == set()


@pytest.mark.parametrize(
    "state", ["missing", "a link", "not root's", "no sticky bit", "not writable", "a file"]
)
def test_a_folder_that_is_not_as_it_should_be_is_not_used(tasks: Tasks, state: str) -> None:
    if state in ("missing", "a link", "a file"):
        tasks.base.rmdir()
    if state == "a link":
        (tasks.folder / "elsewhere").mkdir()
        (tasks.folder / "elsewhere").chmod(0o1777)
        tasks.base.symlink_to(tasks.folder / "elsewhere")
    elif state == "not root's":
        os.chown(tasks.base, tasks.owner.pw_uid, tasks.owner.pw_gid)
    elif state == "no sticky bit":
        tasks.base.chmod(0o777)
    elif state == "not writable":
        tasks.base.chmod(0o1755)
    elif state == "a file":
        tasks.base.write_text("")

    assert given(tasks.task()) == set()


@pytest.mark.parametrize("level", ["12.n3", "12.n3/0.0"])
@pytest.mark.parametrize("kind", ["a folder", "a link to the victim's own", "a file"])
def test_what_another_user_has_put_there_before_is_not_used(
    tasks: Tasks, level: str, kind: str
) -> None:
    planted = tasks.base / level
    planted.parent.mkdir(exist_ok=True)
    planted.parent.chmod(0o1777)
    if kind == "a folder":
        planted.mkdir()
        planted.chmod(0o777)
    elif kind == "a file":
        planted.write_text("")
    else:
        own = tasks.folder / "own"
        (own / "0.0").mkdir(parents=True)
        for path in (own, own / "0.0"):
            os.chown(path, tasks.owner.pw_uid, tasks.owner.pw_gid)
        planted.symlink_to(own)

    assert given(tasks.task()) == set()


@pytest.mark.parametrize(
    "changes",
    [
        {"SLURM_JOB_ID": "../../etc"},
        {"SLURM_JOB_ID": "12\nexport LD_PRELOAD=/x"},
        {"SLURM_STEP_ID": "$(id)"},
        {"SLURMD_NODENAME": "../n3"},
        {"SLURMD_NODENAME": "n3\nexport LD_PRELOAD=/x"},
        {"SLURM_JOB_UID": "0"},
        {"SLURM_JOB_ID": ""},
    ],
)
def test_variables_that_would_lead_elsewhere_give_nothing(
    tasks: Tasks, changes: dict[str, str]
) -> None:
    assert given(tasks.task(**changes)) == set()
    assert list(tasks.base.iterdir()) == []


def test_an_empty_environment_ends_well(tasks: Tasks) -> None:
    done = tasks.run(variables={})

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "limits", ["ulimit -f 0", "ulimit -u 1", "ulimit -n 12", "ulimit -v 3000", "cd /; umask 777"]
)
def test_limits_of_the_job_do_not_fail_the_task(tasks: Tasks, limits: str) -> None:
    done = tasks.run(limits=limits)

    # A shell that cannot even load its library has not begun to run the script.
    assert done.returncode == 0 or limits.startswith("ulimit -v")
    assert "PET_LOG_DIR" not in done.stdout or Path(tasks.base / "12.n3/0.0/.written").exists()


def test_a_disk_in_memory_is_used_where_it_is_asked_for_alone(tasks: Tasks) -> None:
    with mounted(tasks, "tmpfs", "size=8m"):
        assert "PET_LOG_DIR" in tasks.task()
        tasks.configure(FIRSTFAULT_RANK_LOG_ANY_FS="0")
        assert given(tasks.task(SLURM_JOB_ID="13")) == set()


def test_a_full_disk_and_one_that_is_read_only_give_nothing(tasks: Tasks) -> None:
    tasks.configure(FIRSTFAULT_RANK_LOG_FREE_MB="0")
    with mounted(tasks, "tmpfs", "size=64k"):
        tasks.task()
        with contextlib.suppress(OSError):
            (tasks.base / "filler").write_bytes(b"x" * (64 << 10))
        assert given(tasks.task(SLURM_STEP_ID="1")) == set(), "a folder can be made, no file"
        subprocess.run(["/bin/mount", "-o", "remount,ro", tasks.base], check=True)
        assert given(tasks.task(SLURM_JOB_ID="13")) == set()


def test_too_little_room_gives_nothing(tasks: Tasks) -> None:
    tasks.configure(FIRSTFAULT_RANK_LOG_FREE_MB="64")
    with mounted(tasks, "tmpfs", "size=8m"):
        assert given(tasks.task()) == set()


@pytest.mark.parametrize(
    ("kind", "used"),
    [
        *((kind, True) for kind in ("ext2/ext3", "xfs", "btrfs", "zfs", "overlayfs")),
        *((kind, False) for kind in ("nfs", "fuseblk", "lustre", "gpfs", "smb2", "tmpfs")),
        *((kind, False) for kind in ("UNKNOWN (0x19830326)", "")),
    ],
)
def test_a_network_file_system_is_not_used(tasks: Tasks, kind: str, used: bool) -> None:
    """Its kind is what coreutils' stat says: here from a stand-in that says each of them."""
    fake = tasks.folder / "stat"
    fake.write_text(f'#!/bin/sh\n[ "$1" = -f ] && echo "900000/4096/{kind}" || echo 0/1777\n')
    script = tasks.folder / "firstfault-task-prolog"
    script.write_text(SCRIPT.read_text().replace("/usr/bin/stat", str(fake)))
    for path in (fake, script):
        path.chmod(0o755)
    tasks.configure(FIRSTFAULT_RANK_LOG_ANY_FS="0")

    done = tasks.run(str(script))

    assert (done.returncode, done.stderr) == (0, "")
    assert ("PET_LOG_DIR" in done.stdout) is used


def test_a_hanging_or_missing_program_is_not_needed_by_later_tasks_of_a_step(tasks: Tasks) -> None:
    tasks.task()
    script = tasks.folder / "firstfault-task-prolog"
    text = SCRIPT.read_text().replace("/usr/bin/stat", "/nowhere/stat")
    script.write_text(text.replace("/bin/mkdir", "/nowhere/mkdir"))
    script.chmod(0o755)

    assert "PET_LOG_DIR" in tasks.run(str(script)).stdout
    other = tasks.run(str(script), variables=tasks.environment(SLURM_JOB_ID="13"))
    assert (other.returncode, other.stdout, other.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: Path(shell[0]).name)
def test_sourced_it_leaves_the_sites_own_script_as_it_was(
    tasks: Tasks, shell: tuple[str, ...]
) -> None:
    if not Path(shell[0]).exists():
        pytest.skip(f"{shell[0]} is not installed")
    site = (
        "set -euC; set -- one 'two three'; IFS=:; trap 'echo trapped' EXIT; umask 027; cd /usr\n"
        f"before=$-\n. {SCRIPT}\nafter=$-\n"
        'echo "print $#:$2:$IFS:$(umask):$PWD:$([ "$before" = "$after" ] && echo same)"\n'
    )

    done = tasks.run(*shell, "-c", site)

    assert (done.returncode, done.stderr) == (0, "")
    assert "export PET_LOG_DIR=" in done.stdout
    assert "print 2:two three:::0027:/usr:same\ntrapped\n" in done.stdout


def test_twenty_tasks_at_once_get_the_same_folder(tasks: Tasks) -> None:
    running = [
        subprocess.Popen(
            [SCRIPT],
            env=tasks.environment(SLURM_PROCID=str(number)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=tasks.owner.pw_uid,
            group=tasks.owner.pw_gid,
            extra_groups=[],
        )
        for number in range(20)
    ]
    said = {process.communicate(timeout=30) for process in running}

    assert [process.returncode for process in running] == [0] * 20
    assert len(said) == 1
    assert f"export PET_LOG_DIR={tasks.base}/12.n3/0.0\n" in said.pop()[0]


def test_the_shell_checker_finds_nothing() -> None:
    checker = shutil.which("shellcheck")
    if checker is None:
        pytest.skip("shellcheck is not installed")

    found = subprocess.run([checker, "--shell=dash", SCRIPT], capture_output=True, text=True)

    assert found.stdout == ""


class mounted:
    """A file system in place of the folder for rank logs; the test skips where it cannot be had."""

    def __init__(self, tasks: Tasks, kind: str, options: str) -> None:
        self.base = tasks.base
        self.argv = ["/bin/mount", "-t", kind, "-o", f"{options},mode=1777", "none", tasks.base]

    def __enter__(self) -> None:
        if subprocess.run(self.argv, check=False).returncode != 0:
            pytest.skip("mounting is not allowed here")

    def __exit__(self, *_: object) -> None:
        subprocess.run(["/bin/umount", self.base], check=True)
