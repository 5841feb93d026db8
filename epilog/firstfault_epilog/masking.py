"""Secrets, masked before anything is written: each byte of one becomes ``*``.

As many bytes as before, so that offsets and line numbers stay right. What a secret is called
(``password=``, ``hf_``, ``Bearer``) is kept: a person sees that one stood there.

Formats: the prefixes that GitHub, GitLab, Hugging Face, OpenAI, Anthropic, AWS, Google, Slack,
npm and PyPI document for their tokens; RFC 7617 and RFC 6750 for ``Authorization``; RFC 7519 for
JSON web tokens; RFC 3986, 3.2.1, for ``user:password@``; RFC 7468 for private keys.
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


# Quotes, also escaped ones of JSON within a string; no value goes on behind a backslash.
_QUOTE = rb"\\{0,2}[\"']?"
_IS = _QUOTE + rb"\s{0,3}[=:]\s{0,3}" + _QUOTE
_ANY = rb"[^\s\\\"',;&<>()\[\]{}*]"
_FORMS = (
    _form("hf_", rb"\bhf_([A-Za-z0-9]{20,200})"),
    _form("sk-", rb"\bsk-([A-Za-z0-9_-]{20,300})"),
    _form("akia asia", rb"\b(?:AKIA|ASIA)([A-Z0-9]{16})\b"),
    _form("ghp_ gho_ ghu_ ghs_ ghr_", rb"\bgh[pousr]_([A-Za-z0-9]{20,300})"),
    _form("github_pat_", rb"\bgithub_pat_([A-Za-z0-9_]{20,300})"),
    _form("glpat-", rb"\bglpat-([A-Za-z0-9_-]{20,100})"),
    _form("xox xapp-", rb"\b(?:xox[a-z]|xapp)-([A-Za-z0-9-]{10,300})"),
    _form("hooks.slack", rb"hooks\.slack\.com/[a-z]{1,20}/([A-Za-z0-9/]{10,200})"),
    _form("aiza", rb"\bAIza([A-Za-z0-9_-]{35})"),
    _form("npm_", rb"\bnpm_([A-Za-z0-9]{36})\b"),
    _form("pypi-", rb"\bpypi-([A-Za-z0-9_-]{50,400})"),
    _form("eyj", rb"\beyJ([\w-]{6,4000}\.[\w-]{6,4000}(?:\.[\w-]{0,2000})?)"),
    # The password of a URL; the user's name is kept.
    _form("://", rb"://[^\s/?#@:\"'<>]{0,100}:([^\s/?#@\"'<>]{1,200})@"),
    _named(
        "authorization",
        rb"authorization"
        + _IS
        + rb"(?:(?:bearer|basic|token|digest|negotiate)\s{1,3})?("
        + _ANY
        + rb"{4,2000})",
    ),
    _named("bearer", rb"\bbearer\s{1,3}([a-z0-9._~+/=-]{16,2000})"),
    # password=, PGPASSWORD=, "passwd": "x", --password x
    _named(
        "passw passphrase",
        rb"(?:password|passwd|passphrase)(?:"
        + _IS
        + rb"|\s(?<=--password\s)|\s(?<=--passwd\s))("
        + _ANY
        + rb"{1,400})",
    ),
    # What is long enough to be a key: `pad_token=<pad>` and `max_tokens=2048` stay.
    _named(
        "secret token key credential signature",
        rb"(?:secret|token|api[_-]?key|(?:access|secret|private|account)[_-]?key|credentials?"
        rb"|signature)(?:"
        + _IS
        + rb"|\s(?<=--token\s)|\s(?<=-key\s))"
        + rb"((?=[^\s\"']{0,40}[0-9])(?=[^\s\"']{0,40}[a-z])[a-z0-9_+/=.%~-]{16,2000})",
    ),
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
