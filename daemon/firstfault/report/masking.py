"""Secrets in what a verdict says, masked for whoever reads it: each character of one is ``*``.

The nodes mask what they collect; this is the second time, for logs that came another way
(``explain``, Slurm's own answers, older collectors) and for the patterns that a site adds. What a
secret is called (``password=``, ``hf_``, ``Bearer``) is kept: a person sees that one stood there.

The forms are those of the collector's ``masking.py``, for text; a test keeps them equal. Formats:
see there. docs/masking.md lists the kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from ahocorasick_rs import BytesAhoCorasick

from firstfault.model.texts import mapped

KEY_MAX = 16 << 10

# What a report is found and coloured by: never a secret, whatever a site's pattern matches.
# fmt: off
_KEPT = frozenset((
    "schema", "id", "job", "array_task", "cluster", "cause", "domain", "confidence", "role",
    "outcome", "fingerprint", "ranks",
))
# fmt: on

T = TypeVar("T")


# One way that a secret is written. One of `words` (lower case) must be there for the expression
# to be tried at all; `lowered` ones are tried on the text in lower case. The group is masked.
class _Form(NamedTuple):
    words: tuple[str, ...]
    expression: re.Pattern[str]
    lowered: bool = False


# ASCII: what counts as a blank or a word's end is what it is to the collector.
def _form(words: str, expression: str) -> _Form:
    return _Form(tuple(words.split()), re.compile(expression, re.ASCII))


def _named(words: str, expression: str) -> _Form:
    return _form(words, expression)._replace(lowered=True)


# Where a word begins, also one behind a line break that JSON spells out.
_WORD_BEGIN = r"(?:\b|(?<=\\[nrt]))"


# A token of a known service: its prefix, and then letters with at least one digit among them.
def _token(words: str, prefix: str) -> _Form:
    return _form(words, _WORD_BEGIN + prefix + r"((?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{20,300})")


# Colours between a name and its value. Quotes, also escaped ones of JSON within a string; no
# value goes on behind a backslash.
_COLOR = r"(?:\x1b\[[0-9;]{0,20}m){0,3}"
_QUOTE = r"\\{0,2}[\"']?"
_IS = _QUOTE + _COLOR + r"\s{0,3}[=:]\s{0,3}" + _COLOR + _QUOTE + _COLOR
_ANY = r"[^\s\\\"',;&<>()\[\]{}*\x1b]"
# Long enough to be a key, of letters and digits: `pad_token=<pad>` and `max_tokens=2048` stay.
_KEY_LIKE = r"((?=[^\s\"']{0,40}[0-9])(?=[^\s\"']{0,40}[a-z])[a-z0-9_+/=.%~-]{16,2000})"
_FORMS = (
    _form("hf_", _WORD_BEGIN + r"hf_([A-Za-z0-9]{20,200})"),
    _form("api_org_", _WORD_BEGIN + r"api_org_([A-Za-z0-9]{20,200})"),
    _token("sk-", r"sk-"),
    _form("akia asia abia acca", _WORD_BEGIN + r"(?:AKIA|ASIA|ABIA|ACCA)([A-Z0-9]{16})\b"),
    _form("ghp_ gho_ ghu_ ghs_ ghr_", _WORD_BEGIN + r"gh[pousr]_([A-Za-z0-9]{20,300})"),
    _form("github_pat_", _WORD_BEGIN + r"github_pat_([A-Za-z0-9_]{20,300})"),
    # GitLab: of persons, deployments, runners, triggers, feeds, builds, clusters, mail, SCIM.
    _form(
        "glpat- gldt- glrt glptt- glft- glcbt- glagent- glimt- glsoat- glffct- gloas-",
        _WORD_BEGIN
        + r"gl(?:pat|dt|rt|rtr|ptt|ft|cbt|agent|imt|soat|ffct|oas)-([A-Za-z0-9_.-]{20,300})",
    ),
    _form("xox xapp-", _WORD_BEGIN + r"(?:xox[a-z]|xapp)-([A-Za-z0-9-]{10,300})"),
    _form("hooks.slack", r"hooks\.slack\.com/[a-z]{1,20}/([A-Za-z0-9/]{10,200})"),
    _form("/api/webhooks/", r"/api/webhooks/[0-9]{5,25}/([A-Za-z0-9_-]{20,200})"),
    _form("webhook.office.com", r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/_-]{20,400})"),
    _form("aiza", _WORD_BEGIN + r"AIza([A-Za-z0-9_-]{35})"),
    _form("ya29.", _WORD_BEGIN + r"ya29\.([A-Za-z0-9_.-]{20,2000})"),
    _form("1//0", _WORD_BEGIN + r"1//0([A-Za-z0-9_-]{40,300})"),
    _form("npm_", _WORD_BEGIN + r"npm_([A-Za-z0-9]{36})\b"),
    _form("pypi-", _WORD_BEGIN + r"pypi-([A-Za-z0-9_-]{50,400})"),
    _form("oy2", _WORD_BEGIN + r"oy2([a-z0-9]{43})\b"),
    _token("rubygems_ dckr_", r"(?:rubygems_|dckr_[po]at_)"),
    # Services that train, serve and watch models.
    _token(
        "wandb_v1_ nvapi- gsk_ r8_ pplx- xai- lsv2_ pcsk_ tgp_v1_ tvly-",
        r"(?:wandb_v1_|nvapi-|gsk_|r8_|pplx-|xai-|lsv2_[a-z]{2}_|pcsk_|tgp_v1_|tvly-)",
    ),
    _form("dapi", _WORD_BEGIN + r"dapi([0-9a-f]{32})"),
    # Clouds, networks and databases.
    _token(
        "do tskey- pul- pscale_ sbp_ akcp",
        r"(?:do[oprs]_v1_|tskey-|pul-|pscale_[a-z]{2,5}_|sbp_|AKCp)",
    ),
    _form("q~", _WORD_BEGIN + r"[A-Za-z0-9_~.-]{3}[0-9]Q~([A-Za-z0-9_~.-]{31,34})"),
    _form("hvs. hvb. hvr.", _WORD_BEGIN + r"hv[sbr]\.([A-Za-z0-9_-]{24,400})"),
    _form(".atlasv1.", r"\.atlasv1\.([A-Za-z0-9_-]{40,100})"),
    _form("dp.", _WORD_BEGIN + r"dp\.[a-z]{2,5}\.([A-Za-z0-9._-]{40,100})"),
    # Payment, mail, chat, tracking and dashboards.
    _token("sk_ rk_ whsec_", r"(?:[sr]k_(?:live|test)_|whsec_)"),
    _form("sg.", _WORD_BEGIN + r"SG\.([A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64})"),
    _form("key-", _WORD_BEGIN + r"key-([0-9a-f]{32})\b"),
    _form(":aa", _WORD_BEGIN + r"[0-9]{8,10}:AA([A-Za-z0-9_-]{33})"),
    _token(
        "atatt3 atctt3 atbb pmak- sntry glsa_ glc_ nrak- shp lin_api_ ntn_ figd_ gocspx- ops_eyj",
        r"(?:AT[AC]TT3|ATBB|PMAK-|sntry[su]_|glsa_|glc_|NRAK-|shp(?:at|ss|ca|pa)_|lin_api_|ntn_"
        r"|figd_|GOCSPX-|ops_eyJ)",
    ),
    _form("age-secret-key-", _WORD_BEGIN + r"AGE-SECRET-KEY-1([A-Z0-9]{20,100})"),
    _form("munge:", _WORD_BEGIN + r"MUNGE:([A-Za-z0-9+/=]{20,4000})"),
    # The base64 of "-----BEGIN": keys in kubeconfig files and Kubernetes' secrets.
    _form("ls0tls1crudjti", _WORD_BEGIN + r"LS0tLS1CRUdJTi([A-Za-z0-9+/=]{20,16000})"),
    _form(
        "eyj", r"(?:(?<![\w-])|(?<=\\[nrt]))eyJ([\w-]{6,4000}\.[\w-]{6,4000}(?:\.[\w-]{0,2000})?)"
    ),
    # The password of a URL; the user's name is kept. The signature of one that is signed.
    _form("://", r"://[^\s/?#@:\"'<>]{0,100}:([^\s/?#@\"'<>]{1,200})@"),
    _form("sig=", r"[?&]sig=([A-Za-z0-9%+/=_-]{20,200})"),
    _named(
        "authorization",
        r"authorization"
        + _IS
        + r"(?:(?:bearer|basic|token|digest|negotiate)\s{1,3})?("
        + _ANY
        + r"{4,2000})",
    ),
    _named("bearer", _WORD_BEGIN + r"bearer\s{1,3}([a-z0-9._~+/=-]{16,2000})"),
    _named(
        "cookie",
        r"\bcookie" + _IS + r"([^\s\\\"',;=\x1b]{1,60}=[^\s\"'\x1b][^\r\n\"'\x1b]{7,4000})",
    ),
    # password=, PGPASSWORD=, "passwd": "x"
    _named("passw passphrase", r"(?:password|passwd|passphrase)" + _IS + r"(" + _ANY + r"{1,400})"),
    # DB_PASS=, SMTP_PWD=, and ODBC's ;Pwd= (the working directory's PWD= is none of these).
    _form("_pass _pwd", r"[A-Z0-9]_(?:PASS|PWD)" + _IS + r"(" + _ANY + r"{1,400})"),
    _named("pwd", r";\s?pwd=([^\s;\"']{1,200})"),
    _named(
        "secret token key credential signature",
        r"(?:secret|token|api[_-]?key|(?:access|secret|private|account)[_-]?key|credentials?"
        r"|signature)" + _IS + _KEY_LIKE,
    ),
    # Command lines: --password x, --hf-token x, curl -u user:x, sshpass -p x, wandb login x.
    _named("--pass", r"--pass(?:word|wd|phrase)?\s{1,3}[\"']?(" + _ANY + r"{1,400})"),
    _named("--", r"--[a-z0-9_-]{0,30}(?:token|secret|key)\s{1,3}[\"']?" + _KEY_LIKE),
    _form(
        "curl",
        r"\bcurl\s[^\n]{0,300}?(?:-u|--user)[\s=]{0,3}[\"']?[^\s:\"']{1,100}:([^\s\"']{1,200})",
    ),
    _form("sshpass", _WORD_BEGIN + r"sshpass\s{1,3}-p\s{0,3}[\"']?([^\s\"']{1,200})"),
    _form(
        "wandb login", _WORD_BEGIN + r"wandb login (?:--?[a-z=.:/-]{1,60} ){0,4}([0-9a-f]{40})\b"
    ),
    # netrc(5), and the file of Docker's logins.
    _named(
        "machine",
        r"\bmachine\s{1,3}[^\s]{1,100}\s{1,3}login\s{1,3}[^\s]{1,100}\s{1,3}password\s{1,3}([^\s]{1,200})",
    ),
    _form("auth", r"\"auth\"\s{0,3}:\s{0,3}\"([A-Za-z0-9+/=]{12,2000})\""),
)
_WORDS = sorted({word for form in _FORMS for word in form.words})
# The forms of each word, by their index.
_OF_WORD = [[i for i, form in enumerate(_FORMS) if word in form.words] for word in _WORDS]
_SEARCH = BytesAhoCorasick([word.encode("ascii") for word in _WORDS])
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.ASCII)
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.ASCII)
_KEY_TEXT = re.compile(r"[A-Za-z0-9+/=]{8,}", re.ASCII)
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}

# A site's own patterns, as long as this process lives.
_site: tuple[re.Pattern[str], ...] = ()


def use_site(patterns: Sequence[re.Pattern[str]]) -> None:
    """Makes a site's own patterns count beside the forms above, in this process.

    Of a pattern with groups the first one is masked, else all that it matches.
    """
    global _site
    _site = tuple(patterns)


def masked(value: T) -> T:
    """``value``, a verdict or any frozen value of texts, with the secrets in them masked."""
    return mapped(value, masked_text, _KEPT)


def masked_text(text: str) -> str:
    """``text`` with its secrets masked; without its colours, where one of them is coloured."""
    if "\x1b" in text:
        # No form shows a colour: what stands beside it must not hide a secret.
        plain = _SGR.sub("", text)
        shown = _masked(plain)
        return text if shown is plain else shown
    return _masked(text)


def _masked(text: str) -> str:
    spans = sorted(_spans(text))
    if not spans:
        return text
    parts: list[str] = []
    end = 0
    for begin, stop in spans:
        if stop > end:
            begin = max(begin, end)
            parts += (text[end:begin], "*" * (stop - begin))
            end = stop
    return "".join((*parts, text[end:]))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    # Only ASCII: other letters may have another length in lower case.
    lower = text.lower() if text.isascii() else text.translate(_LOWER)
    for form in _forms_in(lower):
        shown = lower if form.lowered else text
        yield from (match.span(1) for match in form.expression.finditer(shown))
    if "private key" in lower:
        yield from _keys(text)
    for own in _site:
        group = min(own.groups, 1)
        yield from (m.span(group) for m in own.finditer(text) if m.end(group) > m.start(group))


# The forms of which a word is there: most texts have none, and are looked through once.
def _forms_in(lower: str) -> list[_Form]:
    # A log's bytes that are no text are lone surrogates here.
    data = lower.encode("utf-8", "surrogatepass")
    words = {word for word, _, _ in _SEARCH.find_matches_as_indexes(data, overlapping=True)}
    return [_FORMS[index] for index in sorted({i for word in words for i in _OF_WORD[word]})]


# The text of private keys, also of one that is cut on either side.
def _keys(text: str) -> Iterator[tuple[int, int]]:
    covered = 0
    ends: Iterable[re.Match[str] | None] = (*_KEY_END.finditer(text), None)
    for end in ends:
        stop = len(text) if end is None else end.start()
        begins = [match.end() for match in _KEY_BEGIN.finditer(text, covered, stop)]
        begin = begins[-1] if begins else None
        if begin is None and end is not None:
            begin = max(covered, stop - KEY_MAX)
        if begin is not None:
            until = min(stop, begin + KEY_MAX)
            yield from (match.span() for match in _KEY_TEXT.finditer(text, begin, until))
        covered = stop if end is None else end.end()
