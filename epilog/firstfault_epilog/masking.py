"""Secrets, masked before anything is written: each byte of one becomes ``*``.

As many bytes as before, so that offsets and line numbers stay right. What a secret is called
(``password=``, ``hf_``, ``Bearer``) is kept: a person sees that one stood there.

Formats: the prefixes that the services document for their tokens (docs/masking.md lists them);
RFC 7617 and RFC 6750 for ``Authorization``; RFC 7519 for JSON web tokens; RFC 3986, 3.2.1, for
``user:password@``; RFC 7468 for private keys. The daemon's ``report/masking.py`` has the same
forms for text; a test keeps them equal.
"""

import re
from typing import List, NamedTuple, Optional, Pattern, Tuple

# A word of at least this length at an edge that cuts a line may be part of a secret.
CUT_WORD_MIN = 8
CUT_WORD_MAX = 4096
KEY_MAX = 16 << 10


class Masked(NamedTuple):
    """``data`` with its secrets masked; ``found`` of them."""

    data: bytes
    found: int


# One way that a secret is written. One of `words` (lower case) must be there for the expression
# to be tried at all; `lowered` ones are tried on the data in lower case. The group is masked.
class _Form(NamedTuple):
    words: Tuple[bytes, ...]
    expression: Pattern[bytes]
    lowered: bool = False


def _form(words: str, expression: bytes) -> _Form:
    return _Form(tuple(words.encode("ascii").split()), re.compile(expression))


def _named(words: str, expression: bytes) -> _Form:
    return _form(words, expression)._replace(lowered=True)


# Where a word begins, also one behind a line break that JSON spells out.
_WORD_BEGIN = rb"(?:\b|(?<=\\[nrt]))"


# A token of a known service: its prefix, and then letters with at least one digit among them.
def _token(words: str, prefix: bytes) -> _Form:
    return _form(words, _WORD_BEGIN + prefix + rb"((?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{20,300})")


# Colours between a name and its value. Quotes, also escaped ones of JSON within a string; no
# value goes on behind a backslash.
_COLOR = rb"(?:\x1b\[[0-9;]{0,20}m){0,3}"
_QUOTE = rb"\\{0,2}[\"']?"
_IS = _QUOTE + _COLOR + rb"\s{0,3}[=:]\s{0,3}" + _COLOR + _QUOTE + _COLOR
_ANY = rb"[^\s\\\"',;&<>()\[\]{}*\x1b]"
# Long enough to be a key, of letters and digits: `pad_token=<pad>` and `max_tokens=2048` stay.
_KEY_LIKE = rb"((?=[^\s\"']{0,40}[0-9])(?=[^\s\"']{0,40}[a-z])[a-z0-9_+/=.%~-]{16,2000})"
_FORMS = (
    _form("hf_", _WORD_BEGIN + rb"hf_([A-Za-z0-9]{20,200})"),
    _form("api_org_", _WORD_BEGIN + rb"api_org_([A-Za-z0-9]{20,200})"),
    _token("sk-", rb"sk-"),
    _form("akia asia abia acca", _WORD_BEGIN + rb"(?:AKIA|ASIA|ABIA|ACCA)([A-Z0-9]{16})\b"),
    _form("ghp_ gho_ ghu_ ghs_ ghr_", _WORD_BEGIN + rb"gh[pousr]_([A-Za-z0-9]{20,300})"),
    _form("github_pat_", _WORD_BEGIN + rb"github_pat_([A-Za-z0-9_]{20,300})"),
    # GitLab: of persons, deployments, runners, triggers, feeds, builds, clusters, mail, SCIM.
    _form(
        "glpat- gldt- glrt glptt- glft- glcbt- glagent- glimt- glsoat- glffct- gloas-",
        _WORD_BEGIN
        + rb"gl(?:pat|dt|rt|rtr|ptt|ft|cbt|agent|imt|soat|ffct|oas)-([A-Za-z0-9_.-]{20,300})",
    ),
    _form("xox xapp-", _WORD_BEGIN + rb"(?:xox[a-z]|xapp)-([A-Za-z0-9-]{10,300})"),
    _form("hooks.slack", rb"hooks\.slack\.com/[a-z]{1,20}/([A-Za-z0-9/]{10,200})"),
    _form("/api/webhooks/", rb"/api/webhooks/[0-9]{5,25}/([A-Za-z0-9_-]{20,200})"),
    _form("webhook.office.com", rb"webhook\.office\.com/webhookb2/([A-Za-z0-9@/_-]{20,400})"),
    _form("aiza", _WORD_BEGIN + rb"AIza([A-Za-z0-9_-]{35})"),
    _form("ya29.", _WORD_BEGIN + rb"ya29\.([A-Za-z0-9_.-]{20,2000})"),
    _form("1//0", _WORD_BEGIN + rb"1//0([A-Za-z0-9_-]{40,300})"),
    _form("npm_", _WORD_BEGIN + rb"npm_([A-Za-z0-9]{36})\b"),
    _form("pypi-", _WORD_BEGIN + rb"pypi-([A-Za-z0-9_-]{50,400})"),
    _form("oy2", _WORD_BEGIN + rb"oy2([a-z0-9]{43})\b"),
    _token("rubygems_ dckr_", rb"(?:rubygems_|dckr_[po]at_)"),
    # Services that train, serve and watch models.
    _token(
        "wandb_v1_ nvapi- gsk_ r8_ pplx- xai- lsv2_ pcsk_ tgp_v1_ tvly-",
        rb"(?:wandb_v1_|nvapi-|gsk_|r8_|pplx-|xai-|lsv2_[a-z]{2}_|pcsk_|tgp_v1_|tvly-)",
    ),
    _form("dapi", _WORD_BEGIN + rb"dapi([0-9a-f]{32})"),
    # Clouds, networks and databases.
    _token(
        "do tskey- pul- pscale_ sbp_ akcp",
        rb"(?:do[oprs]_v1_|tskey-|pul-|pscale_[a-z]{2,5}_|sbp_|AKCp)",
    ),
    _form("q~", _WORD_BEGIN + rb"[A-Za-z0-9_~.-]{3}[0-9]Q~([A-Za-z0-9_~.-]{31,34})"),
    _form("hvs. hvb. hvr.", _WORD_BEGIN + rb"hv[sbr]\.([A-Za-z0-9_-]{24,400})"),
    _form(".atlasv1.", rb"\.atlasv1\.([A-Za-z0-9_-]{40,100})"),
    _form("dp.", _WORD_BEGIN + rb"dp\.[a-z]{2,5}\.([A-Za-z0-9._-]{40,100})"),
    # Payment, mail, chat, tracking and dashboards.
    _token("sk_ rk_ whsec_", rb"(?:[sr]k_(?:live|test)_|whsec_)"),
    _form("sg.", _WORD_BEGIN + rb"SG\.([A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64})"),
    _form("key-", _WORD_BEGIN + rb"key-([0-9a-f]{32})\b"),
    _form(":aa", _WORD_BEGIN + rb"[0-9]{8,10}:AA([A-Za-z0-9_-]{33})"),
    _token(
        "atatt3 atctt3 atbb pmak- sntry glsa_ glc_ nrak- shp lin_api_ ntn_ figd_ gocspx- ops_eyj",
        rb"(?:AT[AC]TT3|ATBB|PMAK-|sntry[su]_|glsa_|glc_|NRAK-|shp(?:at|ss|ca|pa)_|lin_api_|ntn_"
        rb"|figd_|GOCSPX-|ops_eyJ)",
    ),
    _form("age-secret-key-", _WORD_BEGIN + rb"AGE-SECRET-KEY-1([A-Z0-9]{20,100})"),
    _form("munge:", _WORD_BEGIN + rb"MUNGE:([A-Za-z0-9+/=]{20,4000})"),
    # The base64 of "-----BEGIN": keys in kubeconfig files and Kubernetes' secrets.
    _form("ls0tls1crudjti", _WORD_BEGIN + rb"LS0tLS1CRUdJTi([A-Za-z0-9+/=]{20,16000})"),
    _form(
        "eyj", rb"(?:(?<![\w-])|(?<=\\[nrt]))eyJ([\w-]{6,4000}\.[\w-]{6,4000}(?:\.[\w-]{0,2000})?)"
    ),
    # The password of a URL; the user's name is kept. The signature of one that is signed.
    _form("://", rb"://[^\s/?#@:\"'<>]{0,100}:([^\s/?#@\"'<>]{1,200})@"),
    _form("sig=", rb"[?&]sig=([A-Za-z0-9%+/=_-]{20,200})"),
    _named(
        "authorization",
        rb"authorization"
        + _IS
        + rb"(?:(?:bearer|basic|token|digest|negotiate)\s{1,3})?("
        + _ANY
        + rb"{4,2000})",
    ),
    _named("bearer", _WORD_BEGIN + rb"bearer\s{1,3}([a-z0-9._~+/=-]{16,2000})"),
    _named(
        "cookie",
        rb"\bcookie" + _IS + rb"([^\s\\\"',;=\x1b]{1,60}=[^\s\"'\x1b][^\r\n\"'\x1b]{7,4000})",
    ),
    # password=, PGPASSWORD=, "passwd": "x"
    _named(
        "passw passphrase", rb"(?:password|passwd|passphrase)" + _IS + rb"(" + _ANY + rb"{1,400})"
    ),
    # DB_PASS=, SMTP_PWD=, and ODBC's ;Pwd= (the working directory's PWD= is none of these).
    _form("_pass _pwd", rb"[A-Z0-9]_(?:PASS|PWD)" + _IS + rb"(" + _ANY + rb"{1,400})"),
    _named("pwd", rb";\s?pwd=([^\s;\"']{1,200})"),
    _named(
        "secret token key credential signature",
        rb"(?:secret|token|api[_-]?key|(?:access|secret|private|account)[_-]?key|credentials?"
        rb"|signature)" + _IS + _KEY_LIKE,
    ),
    # Command lines: --password x, --hf-token x, curl -u user:x, sshpass -p x, wandb login x.
    _named("--pass", rb"--pass(?:word|wd|phrase)?\s{1,3}[\"']?(" + _ANY + rb"{1,400})"),
    _named("--", rb"--[a-z0-9_-]{0,30}(?:token|secret|key)\s{1,3}[\"']?" + _KEY_LIKE),
    _form(
        "curl",
        rb"\bcurl\s[^\n]{0,300}?(?:-u|--user)[\s=]{0,3}[\"']?[^\s:\"']{1,100}:([^\s\"']{1,200})",
    ),
    _form("sshpass", _WORD_BEGIN + rb"sshpass\s{1,3}-p\s{0,3}[\"']?([^\s\"']{1,200})"),
    _form(
        "wandb login", _WORD_BEGIN + rb"wandb login (?:--?[a-z=.:/-]{1,60} ){0,4}([0-9a-f]{40})\b"
    ),
    # netrc(5), and the file of Docker's logins.
    _named(
        "machine",
        rb"\bmachine\s{1,3}[^\s]{1,100}\s{1,3}login\s{1,3}[^\s]{1,100}\s{1,3}password\s{1,3}([^\s]{1,200})",
    ),
    _form("auth", rb"\"auth\"\s{0,3}:\s{0,3}\"([A-Za-z0-9+/=]{12,2000})\""),
)
_KEY_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_TEXT = re.compile(rb"[A-Za-z0-9+/=]{8,}")
# What sets words off in JSON, too: a long line of it without blanks is not one word.
_WORD = rb"[^\s\"',;:(){}\[\]<>|]{%d,%d}" % (CUT_WORD_MIN, CUT_WORD_MAX)
_BREAK = re.compile(rb"[\s\"',;:(){}\[\]<>|]")
_FIRST_WORD = re.compile(_WORD)
_LAST_WORD = re.compile(_WORD + rb"\Z")


def masked(data: bytes) -> Masked:
    """``data`` with its secrets masked."""
    lower = data.lower()
    spans: List[Tuple[int, int]] = []
    for form in _FORMS:
        if any(word in lower for word in form.words):
            text = lower if form.lowered else data
            spans.extend(match.span(1) for match in form.expression.finditer(text))
    if b"private key" in lower:
        spans.extend(_keys(data))
    if not spans:
        return Masked(data, 0)
    result = bytearray(data)
    count = 0
    end = 0
    for begin, stop in sorted(spans):
        if stop > end:
            count += begin >= end
            end = stop
        result[begin:stop] = b"*" * (stop - begin)
    return Masked(bytes(result), count)


def edges_masked(data: bytes, cut_before: bool, cut_behind: bool) -> bytes:
    """``data`` with its first and last word masked where they are long and a line is cut there:
    half a secret is not seen for what it is."""
    if cut_before:
        match = _FIRST_WORD.match(data)
        if match is not None:
            data = b"*" * match.end() + data[match.end() :]
    if cut_behind:
        # The start of the last word, found from behind: only so much can be one.
        tail = data[-CUT_WORD_MAX:]
        found = _LAST_WORD.search(tail, _last_break(tail))
        if found is not None:
            data = data[: len(data) - len(found.group())] + b"*" * len(found.group())
    return data


def _last_break(tail: bytes) -> int:
    return max((match.end() for match in _BREAK.finditer(tail)), default=0)


# The text of private keys, also of one that is cut on either side.
def _keys(data: bytes) -> List[Tuple[int, int]]:
    spans: List[Tuple[int, int]] = []
    covered = 0
    for end in [*_KEY_END.finditer(data), None]:
        stop = len(data) if end is None else end.start()
        begin: Optional[int] = None
        for match in _KEY_BEGIN.finditer(data, covered, stop):
            begin = match.end()
        if begin is None and end is not None:
            begin = max(covered, stop - KEY_MAX)
        if begin is not None:
            stop = min(stop, begin + KEY_MAX)
            spans.extend(match.span() for match in _KEY_TEXT.finditer(data, begin, stop))
        covered = stop if end is None else end.end()
    return spans
