"""What is masked in verdicts, and what stays as it is.

The secrets are made here, each in the form that its service documents; none was ever in force.
They are put together so that no scanner takes them for real ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from firstfault.model import verdict as v
from firstfault.report import masking
from firstfault_epilog import masking as on_nodes
from tests.report import verdicts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "masking.md").read_text("utf-8")

MIXED = "q7WzR2" * 60
HEX = "0a1b2c3d4e5f6789" * 8
UPPER = "QZ7W4K" * 20
SMALL = "q7wz4k" * 20

# Kind, a line with {} where the secret stands, the secret's own prefix, the rest of it.
SECRETS = [
    ("Hugging Face, of a user", "HF_TOKEN is {}", "hf" + "_", MIXED[:34]),
    ("Hugging Face, of an organisation", "loaded with {}", "api" + "_org_", MIXED[:34]),
    ("OpenAI", "Incorrect API key provided: {}.", "sk" + "-proj-", MIXED[:120]),
    ("Anthropic", "x-key {}", "sk" + "-ant-api03-", MIXED[:95]),
    ("AWS, access key", "user {} is not authorized", "AK" + "IA", UPPER[:16]),
    ("AWS, temporary", "user {} is not authorized", "AS" + "IA", UPPER[:16]),
    ("AWS, secret key", "aws_secret_access_key = {}", "", MIXED[:40]),
    ("AWS, session", "AWS_SESSION_TOKEN={}", "", MIXED[:300]),
    ("AWS, signed URL", "GET /b/k?X-Amz-Date=1&X-Amz-Signature={}&x=1", "", HEX[:64]),
    ("GitHub, classic", "git clone https://{}@github.example/x", "gh" + "p_", MIXED[:36]),
    ("GitHub, application", "as {}", "gh" + "s_", MIXED[:36]),
    ("GitHub, fine-grained", "as {}", "github" + "_pat_", MIXED[:22] + "_" + MIXED[:59]),
    ("GitLab, of a person", "remote: {} is wrong", "glp" + "at-", MIXED[:20]),
    ("GitLab, deployment", "remote: {} is wrong", "gld" + "t-", MIXED[:20]),
    ("GitLab, runner", "registered {}", "glr" + "t-", "t1_" + MIXED[:24]),
    ("Slack, bot", "slack {}", "xo" + "xb-", "1234567890-" + MIXED[:24]),
    ("Slack, application", "slack {}", "xa" + "pp-", "1-A0-" + HEX[:64]),
    ("Slack, webhook", "POST https://hooks.slack.com/services/{}", "", "T0/B0/" + MIXED[:24]),
    (
        "Discord, webhook",
        "POST https://discord.com/api/webhooks/123456789012345678/{}",
        "",
        MIXED[:68],
    ),
    ("Teams, webhook", "https://x.webhook.office.com/webhookb2/{}", "", HEX[:32] + "@" + HEX[:32]),
    ("Telegram, bot", "bot {}", "123456789:A" + "A", MIXED[:33]),
    ("Google, API key", "key={}", "AI" + "za", MIXED[:35]),
    ("Google, OAuth access", "got {}", "ya" + "29.", MIXED[:120]),
    ("Google, OAuth refresh", "refresh with {}", "1/" + "/0", MIXED[:50]),
    ("Google, OAuth client", "client {}", "GOC" + "SPX-", MIXED[:28]),
    ("Azure, storage", "DefaultEndpointsProtocol=https;AccountKey={};x=1", "", MIXED[:86] + "=="),
    ("Azure, signed URL", "https://a.example/c?sv=2024&sig={}&se=1", "", MIXED[:40] + "%3D"),
    ("Azure, client", "client {} was refused", "aB18" + "Q~", MIXED[:34]),
    ("npm", "//registry.example/:_x={}", "np" + "m_", MIXED[:36]),
    ("PyPI", "twine upload {}", "py" + "pi-", "AgEIcHlwaS5vcmc" + MIXED[:120]),
    ("RubyGems", "gem push {}", "ruby" + "gems_", HEX[:48]),
    ("NuGet", "dotnet push {}", "oy" + "2", SMALL[:43]),
    ("Docker Hub", "docker login {}", "dckr" + "_pat_", MIXED[:27]),
    ("Docker, file of logins", '{{"auths":{{"r.example":{{"auth": "{}"}}}}}}', "", MIXED[:40]),
    ("Weights & Biases, by name", "WANDB_API_KEY={}", "", HEX[:40]),
    ("Weights & Biases, at a login", "$ wandb login --relogin {}", "", HEX[:40]),
    ("Weights & Biases, v1", "wandb: {}", "wandb" + "_v1_", MIXED[:60]),
    ("Neptune and Comet, by name", "NEPTUNE_API_TOKEN: {}", "", "ey" + MIXED[:90] + "=="),
    ("LangSmith", "tracing {}", "lsv2" + "_pt_", HEX[:32] + "_" + HEX[:10]),
    ("NVIDIA NGC", "ngc {}", "nv" + "api-", MIXED[:64]),
    ("Groq", "using {}", "gs" + "k_", MIXED[:52]),
    ("Replicate", "using {}", "r" + "8_", MIXED[:37]),
    ("Perplexity", "using {}", "pp" + "lx-", MIXED[:48]),
    ("xAI", "using {}", "xa" + "i-", MIXED[:80]),
    ("Pinecone", "using {}", "pc" + "sk_", MIXED[:60]),
    ("Databricks", "using {}", "da" + "pi", HEX[:32]),
    ("DigitalOcean", "using {}", "dop" + "_v1_", HEX[:64]),
    ("Tailscale", "tailscale up --authkey {}", "ts" + "key-", "auth-" + MIXED[:40]),
    ("Pulumi", "using {}", "pu" + "l-", HEX[:40]),
    ("PlanetScale", "using {}", "pscale" + "_tkn_", MIXED[:43]),
    ("Supabase", "using {}", "sb" + "p_", HEX[:40]),
    ("Artifactory", "using {}", "AK" + "Cp", MIXED[:69]),
    ("HashiCorp Vault", "VAULT {}", "hv" + "s.", MIXED[:95]),
    ("Terraform Cloud", "using {}", "abcdefgh0123.atlas" + "v1.", MIXED[:67]),
    ("Doppler", "using {}", "dp" + ".pt.", MIXED[:43]),
    ("Stripe", "using {}", "sk" + "_live_", MIXED[:24]),
    ("SendGrid", "using {}", "S" + "G.", MIXED[:22] + "." + MIXED[:43]),
    ("Mailgun", "using {}", "ke" + "y-", HEX[:32]),
    ("Atlassian", "using {}", "ATA" + "TT3", "xFfGF0" + MIXED[:180]),
    ("Bitbucket", "using {}", "AT" + "BB", MIXED[:32]),
    ("Postman", "using {}", "PM" + "AK-", HEX[:24] + "-" + HEX[:34]),
    ("Sentry", "using {}", "sntr" + "yu_", HEX[:64]),
    ("Grafana", "using {}", "gl" + "sa_", MIXED[:32] + "_" + HEX[:8]),
    ("New Relic", "using {}", "NR" + "AK-", UPPER[:27]),
    ("Shopify", "using {}", "shp" + "at_", HEX[:32]),
    ("Linear", "using {}", "lin" + "_api_", MIXED[:40]),
    ("Notion", "using {}", "nt" + "n_", MIXED[:46]),
    ("Figma", "using {}", "fi" + "gd_", MIXED[:40]),
    ("1Password", "using {}", "op" + "s_eyJ", MIXED[:200]),
    ("Datadog, by name", "DD_API_KEY={}", "", HEX[:32]),
    ("age", "identity {}", "AGE-SECRET" + "-KEY-1", UPPER[:58]),
    ("MUNGE", "munge: {}:", "MUN" + "GE:", "AwQDAAA" + MIXED[:120] + "=="),
    ("kubeconfig", "client-key-data: {}", "LS0t" + "LS1CRUdJTi", MIXED[:200]),
    ("JSON web token", "SLURM_JWT={}", "ey" + "J", f"{MIXED[:20]}.{MIXED[:60]}.{MIXED[:43]}"),
    ("Authorization: Basic", "Authorization: Basic {}", "", "dXNlcjpwYXNz"),
    ("Authorization: Bearer", "> authorization: Bearer {}", "", "abc.def-1"),
    ("Cookie", "> Cookie: {}", "", "session=" + MIXED[:40]),
    ("URL", "cannot reach postgresql://bob:{}@db:5432/x", "", "tr0ub4dor"),
    ("password=", "db password={} ok", "", "tr0ub4dor"),
    ("password, in JSON", '{{"password": "{}"}}', "", "tr0ub4dor"),
    ("password, in colours", "password=\x1b[32m'{}'\x1b[0m", "", "tr0ub4dor"),
    ("PGPASSWORD=", "PGPASSWORD={}", "", "x"),
    ("_PASS=", "SMTP_PASS={} ./send", "", "tr0ub4dor"),
    ("ODBC", "Driver=x;Uid=bob;Pwd={};Server=y", "", "tr0ub4dor"),
    ("--password", "mysql --password {} -h db", "", "tr0ub4dor"),
    ("--hf-token", "python train.py --hf-token {} --lr 1", "", MIXED[:37]),
    ("--api_key", "python train.py --api_key {} --lr 1", "", MIXED[:37]),
    ("curl -u", "curl -s -u bob:{} https://x.example", "", "tr0ub4dor"),
    ("sshpass", "sshpass -p {} ssh n4", "", "tr0ub4dor"),
    ("netrc", "machine api.wandb.example login user password {}", "", "tr0ub4dor"),
]  # fmt: skip

HARMLESS = [
    "Rank 5 on n4 was killed by the kernel: ranks 0-4,6-16383 lost a peer",
    "HEAD is now at 3b18e512dba79e4c8300dd08aeb37f8e728b8dad fix loader",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "GPU-3b1f7e52-8a4c-4c1e-9d1e-0f2c8a7b6d5e and 3b1f7e52-8a4c-4c1e-9d1e-0f2c8a7b6d5e",
    "ncclUniqueId 0x3a5f2b1c9d8e7f60 comm 0x55d0c8a1b2f0 commHash 0x8d5f0a1b2c3d4e5f",
    "NCCL INFO comm 0x5581 rank 3 nranks 8 cudaDev 3 busId 1b000 commId 0x9fbc6d2e8a3b1c04",
    "num_tokens=2048 max_tokens=4096 pad_token=<pad> tokens/s 4821",
    "KeyError: 'model.layers.0.self_attn.q_proj.weight' token_type_ids=(8, 2048)",
    'File "/home/u/secret_project/site-packages/torch/_ops.py", line 12, in <module>',
    "/scratch/u1/run-2026-11-30/checkpoint-0012000/pytorch_model-00001-of-00008.safetensors",
    "tcp://10.0.0.5:29500 and file://host:1/x@y and https://example.org:8443/a?b=1@c",
    "PWD=/home/alice/run1 OLDPWD=/home/alice first_pass=12ms backward_pass: 31ms",
    "Unexpected key(s) in state_dict: key-value cache; sk-learn-contrib-some-long-name",
    "module xai-org/grok-1 pplx-7b-online nvapi glsa_ hvs. dapi SG.1 cookie: none",
    "login node01 password prompt timed out",
    "tokenizer=meta-llama/Llama-2-70b-hf loaded; signature=(Tensor a, Tensor b)",
    "wrong password for bob; curl -s https://pypi.example/simple",
    "PCI 0000:1b:00.0, mlx5_0:1, 10.0.0.4<35122>, fe80::1%ib0, slurm_n4/uid_1001/job_4242/step_0",
]


@pytest.mark.parametrize(("kind", "line", "prefix", "rest"), SECRETS)
def test_a_secret_of_this_kind_is_masked_and_the_line_stays(
    kind: str, line: str, prefix: str, rest: str
) -> None:
    whole = line.format(prefix + rest)
    plain = re.sub(r"\x1b\[\d*m", "", whole)

    shown = masking.masked_text(whole)

    assert len(shown) == len(plain)
    assert rest[-8:] not in shown and "*" in shown
    begin = plain.index(prefix + rest)
    assert shown[:begin] == plain[:begin]
    end = begin + len(prefix) + len(rest)
    assert shown[end:].strip("*") == plain[end:].strip("*")


@pytest.mark.parametrize(("kind", "line", "prefix", "rest"), SECRETS)
def test_the_nodes_mask_each_kind_too(kind: str, line: str, prefix: str, rest: str) -> None:
    whole = line.format(prefix + rest)

    shown = on_nodes.masked(whole.encode()).data.decode()

    assert len(shown) == len(whole)
    assert rest[-8:] not in shown and "*" in shown


def test_nodes_and_daemon_know_the_same_forms() -> None:
    there = [
        (
            tuple(word.decode() for word in form.words),
            form.expression.pattern.decode(),
            form.lowered,
        )
        for form in on_nodes._FORMS
    ]
    here = [(form.words, form.expression.pattern, form.lowered) for form in masking._FORMS]

    assert here == there
    for name in ("_KEY_BEGIN", "_KEY_END", "_KEY_TEXT"):
        assert getattr(masking, name).pattern == getattr(on_nodes, name).pattern.decode()
    assert masking.KEY_MAX == on_nodes.KEY_MAX


@pytest.mark.parametrize("line", HARMLESS)
def test_what_is_no_secret_stays(line: str) -> None:
    assert masking.masked_text(line) == line
    assert on_nodes.masked(line.encode()).found == 0


def lines_of(folder: str) -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / "tests" / folder).rglob("*")):
        if path.is_file():
            for line in path.read_text("utf-8", "surrogateescape").split("\n"):
                yield path, line


@pytest.mark.parametrize("folder", ["healthy", "cases"])
def test_nothing_in_real_logs_is_taken_for_a_secret(folder: str) -> None:
    found = [
        (path.name, line) for path, line in lines_of(folder) if masking.masked_text(line) != line
    ]

    assert found == []


def test_the_text_of_a_private_key_is_masked_also_where_an_end_of_it_is_cut_off() -> None:
    name = "OPENSSH PRIVATE" + " KEY"
    head, body = f"-----BEGIN {name}-----\n", f"{MIXED[:64]}\n" * 20
    end = f"-----END {name}-----\n"

    for text in (head + body + end + "after", body + end + "after", head + body):
        shown = masking.masked_text(text)

        assert "q7Wz" not in shown and len(shown) == len(text)
        assert shown.endswith("after") == text.endswith("after")
    assert "q7Wz" not in masking.masked_text((head + body + end).replace("\n", "\\n"))


def test_letters_of_other_lengths_in_lower_case_move_no_mask() -> None:
    assert masking.masked_text("İİİ PASSWORD=tr0ub4dor é") == "İİİ PASSWORD=********* é"


def test_every_text_of_a_verdict_is_masked_and_nothing_else_of_it_changes() -> None:
    token = "hf" + "_" + MIXED[:34]
    spoiled = msgspec.convert(
        _with_every_text(msgspec.to_builtins(verdicts.CGROUP_OOM), f" {token}"), v.Verdict
    )

    shown = masking.masked(spoiled)

    texts = v.encode(shown).decode()
    left = [line for line in texts.splitlines() if MIXED[:34] in line]
    assert {re.sub(r'^\s*"(\w+)".*', r"\1", line) for line in left} <= masking._KEPT
    assert texts.count("hf" + "_" + "*" * 34) > 40
    assert masking.masked(verdicts.CGROUP_OOM) is verdicts.CGROUP_OOM


def _with_every_text(value: object, more: str) -> object:
    if isinstance(value, str):
        try:
            msgspec.convert(value, type=__import__("datetime").datetime)
        except msgspec.ValidationError:
            return value + more
        return value
    if isinstance(value, dict):
        return {key: _with_every_text(each, more) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_every_text(each, more) for each in value]
    return value


@pytest.fixture
def own_patterns() -> Iterator[None]:
    yield
    masking.use_site(())


@pytest.mark.usefixtures("own_patterns")
def test_a_site_adds_patterns_of_its_own() -> None:
    masking.use_site([re.compile(r"\bproject-[0-9]{4}\b"), re.compile(r"(?i)badge no (\d{6})")])

    assert masking.masked_text("project-1234, Badge No 123456") == "************, Badge No ******"
    masking.use_site(())
    assert masking.masked_text("project-1234") == "project-1234"


@pytest.mark.parametrize("form", masking._FORMS, ids=lambda form: form.words[0])
def test_what_looks_like_a_form_again_and_again_comes_to_an_end(form: masking._Form) -> None:
    # The form is tried at each place: where it cost the square of the length, this took an hour.
    for filling in ("", "a1", "-", ".", " ", ":"):
        unit = form.words[0].upper() if form.expression.pattern.isupper() else form.words[0]
        text = (unit + filling) * ((1 << 17) // len(unit + filling))

        assert len(masking.masked_text(text)) == len(text)


def test_the_page_of_what_is_masked_names_each_service() -> None:
    missing = [kind for kind, *_ in SECRETS if kind.split(",")[0] not in PAGE]

    assert missing == []
