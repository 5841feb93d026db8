"""What is never written: secrets, and the logs of those who said no."""

from __future__ import annotations

import base64
import json
import time

import pytest

from firstfault_epilog import masking
from tests.epilog.node import Node, file_of, oom_block

# Made here; none was ever in force. Put together so that no scanner takes them for real ones.
ALNUM = "q7Wz" * 10
SECRETS = [
    ("login with hf_{}", "hf" + "_" + ALNUM[:34]),
    ("key {}", "sk" + "-proj-" + ALNUM),
    ("aws {}", "AK" + "IA" + "QZ7W" * 4),
    ("git clone with {}", "gh" + "p_" + ALNUM[:36]),
    ("slack {}", "xo" + "xb-1234-" + ALNUM[:24]),
    ("gitlab {}", "glp" + "at-" + ALNUM[:20]),
    ("jwt {}", "ey" + "J" + ALNUM[:20] + "." + ALNUM[:30] + "." + ALNUM[:20]),
    ("db password={} ok", "tr0ub4dor"),
    ('"password": "{}"', "tr0ub4dor"),
    ('{{"message": "\\"passwd\\": \\"{}\\"\\nValueError: x"}}', "tr0ub4dor"),
    ("mysql --password {} -h db", "tr0ub4dor"),
    ("PGPASSWORD={}", "x"),
    ("Authorization: Bearer {}", "abc.def-1"),
    ("authorization: Basic {}", "dXNlcjpwYXNz"),
    ("ConnectionError: https://bob:{}@pypi.example/simple", "tr0ub4dor"),
    ("WANDB_API_KEY={}", ALNUM),
    ("aws_secret_access_key = {}", ALNUM),
    ("?X-Amz-Signature={}&b=1", "0123456789abcdef" * 4),
]

HARMLESS = [
    "num_tokens=2048 max_tokens=4096 pad_token=<pad> tokens/s 4821",
    "tcp://10.0.0.5:29500 and file://host:1/x@y",
    "SyntaxError: Unexpected token: something",
    "KeyError: 'api_key'",
    "wrong password for bob",
    "tokenizer=meta-llama/Llama-2-70b-hf loaded",
    "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms",
    "RuntimeError: NCCL communicator was aborted on rank 3. key=default_pg/0//1",
    'File "/home/u/secret_project/train.py", line 12, in <module>',
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_becomes_asterisks_and_all_else_stays(text: str, secret: str) -> None:
    line = text.replace("hf_{}", "{}").format(secret)

    found = masking.masked(line.encode())

    shown = found.data.decode()
    assert len(shown) == len(line) and found.found == 1
    assert secret not in shown and secret[-4:] not in (shown if len(secret) > 4 else "")
    begin = line.index(secret)
    assert shown[:begin] == line[:begin]
    assert shown[begin + len(secret) :] == line[begin + len(secret) :]


@pytest.mark.parametrize("line", HARMLESS)
def test_what_is_no_secret_stays(line: str) -> None:
    assert masking.masked(line.encode()) == masking.Masked(line.encode(), 0)


def key_text(lines: int = 20, prefix: str = "") -> tuple[str, str]:
    body = "".join(f"{prefix}{'MIIq7Wz+/' * 7}\n" for _ in range(lines))
    name = "RSA PRIVATE" + " KEY"
    return f"{prefix}-----BEGIN {name}-----\n", body + f"{prefix}-----END {name}-----\n"


@pytest.mark.parametrize("prefix", ["", "[rank3]: "])
def test_a_private_keys_text_is_masked_also_where_an_end_of_it_is_cut_off(prefix: str) -> None:
    head, rest = key_text(prefix=prefix)
    after = f"{prefix}Traceback (most recent call last):\n"

    for data in (head + rest + after, rest + after, (head + rest)[:700]):
        shown = masking.masked(data.encode()).data.decode()

        assert "MIIq7Wz" not in shown and "+/MII" not in shown
        assert len(shown) == len(data)
        assert after not in data or after in shown


def test_half_a_secret_at_the_edge_of_an_excerpt_is_masked() -> None:
    data = b"q7Wzq7Wz in the middle\nand h" + b"f_q7Wzq7"

    assert masking.edges_masked(data, True, True) == b"******** in the middle\nand *********"
    assert masking.edges_masked(data, False, False) == data
    line = b'q7Wz0000":1,"error":"CUDA error: x","more":"q7Wz0000'
    shown = masking.edges_masked(line, True, True)
    assert shown == b'********":1,"error":"CUDA error: x","more":"********'
    blank = b"one word at the end "
    assert masking.edges_masked(blank, True, True) == blank


@pytest.mark.parametrize(
    "unit",
    ["password=", "token=", "eyJaaaaaaaa.", "://a:", "-----BEGIN PRIVATE KEY-----", "secret   ",
     "authorization: bearer ", "sk-", "a1" * 50 + "token=", "\\", '"', "-----END PRIVATE KEY-----"],
)  # fmt: skip
def test_a_hostile_line_costs_little(unit: str) -> None:
    data = (unit * 70_000)[: 64 << 10].encode()
    before = time.process_time()

    masking.masked(data)

    assert time.process_time() - before < 1


def test_nothing_that_is_masked_is_in_the_record_and_places_stay_right(node: Node) -> None:
    token = "hf" + "_" + ALNUM
    output = f"loading\nHTTPError: 401 for {token}\nlast line\n"
    (node.folder / "slurm-12.out").write_text(output)
    node.kmsg.write_text(f"12,1,1000000,-;daemon: segfault password={ALNUM}\n")
    long = b"x" * 150_000 + b" " + (token * 300).encode() + b" CUDA error " + b"y" * 150_000
    folder = node.folder / "ranks/12_x/attempt_0/0"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_bytes(long)
    node.end_job(SLURM_JOB_COMMENT=f"token={ALNUM}", SLURM_JOB_START_TIME="1")

    node.collect()

    raw = node.raw_records()[0]
    (record,) = node.records()
    texts = [json.dumps(json.loads(raw)).encode()]
    for file in json.loads(raw)["files"]:
        texts += [base64.b64decode(e["base64"]) for e in file["excerpts"] if "base64" in e]
    assert not any(ALNUM[:12].encode() in text for text in texts)
    expected = output.replace(token, "hf_" + "*" * len(ALNUM)).encode()
    assert file_of(record, "slurm-12.out") == expected
    assert any("masked" in note for note in record.notes)


def test_masking_can_be_turned_off(node: Node) -> None:
    (node.folder / "slurm-12.out").write_text("password=tr0ub4dor\n")
    node.configure(FIRSTFAULT_MASK_SECRETS="0")
    node.end_job()

    node.collect()

    assert file_of(node.records()[0], "slurm-12.out") == b"password=tr0ub4dor\n"


@pytest.mark.parametrize(
    ("settings", "variables", "reason"),
    [
        ({}, {"SLURM_JOB_COMMENT": "llama run 3, FirstFault=off; x"}, "opt-out"),
        (
            {"FIRSTFAULT_OPT_OUT_WORD": "no-logs"},
            {"SLURM_JOB_COMMENT": "no-logs"},
            "opt-out",
        ),
        ({"FIRSTFAULT_FACTS_ONLY_ACCOUNTS": "med bio"}, {"SLURM_JOB_ACCOUNT": "bio"}, "site"),
        ({"FIRSTFAULT_FACTS_ONLY_PARTITIONS": "safe"}, {"SLURM_JOB_PARTITION": "safe"}, "site"),
    ],
)
def test_who_says_no_gives_facts_alone(
    node: Node, settings: dict[str, str], variables: dict[str, str], reason: str
) -> None:
    (node.folder / "slurm-12.out").write_text("ValueError: private\n")
    node.kmsg.write_text(oom_block(12, 700, 1, 1_000_000))
    node.configure(**settings)
    node.end_job(
        SLURM_JOB_START_TIME="1", SLURM_JOB_STDOUT=f"{node.folder}/slurm-%j.out", **variables
    )

    done = node.collect()

    assert (done.returncode, done.stderr) == (0, "")
    (record,) = node.records()
    assert record.files == ()
    assert record.environment["SLURM_JOB_EXIT_CODE"] == "256"
    assert "SLURM_JOB_COMMENT" not in record.environment
    assert str(node.folder).encode() not in node.raw_records()[0].replace(
        str(node.kmsg).encode(), b""
    )
    assert {row.reason for row in record.coverage} == {reason}
    assert any(note.startswith("facts only") for note in record.notes)


@pytest.mark.parametrize(
    ("settings", "comment"),
    [({}, "firstfault=offline"), ({}, "on"), ({"FIRSTFAULT_OPT_OUT_WORD": ""}, "firstfault=off")],
)
def test_only_the_word_itself_opts_out(node: Node, settings: dict[str, str], comment: str) -> None:
    (node.folder / "slurm-12.out").write_text("ValueError: x\n")
    node.configure(**settings)
    node.end_job(SLURM_JOB_COMMENT=comment)

    node.collect()

    assert file_of(node.records()[0], "slurm-12.out") == b"ValueError: x\n"


def test_what_the_queue_and_a_record_hold_is_for_root_and_the_spools_group_alone(
    node: Node,
) -> None:
    node.end_job()
    modes = [path.stat().st_mode & 0o077 for path in (node.queue / "ready", *node.waiting())]

    node.collect()

    assert modes == [0, 0]
    (path,) = node.spool.glob("*.json.gz")
    assert path.stat().st_mode & 0o777 == 0o640
    assert all(
        (node.queue / name).stat().st_mode & 0o077 == 0 for name in ("claimed", "quarantine")
    )
