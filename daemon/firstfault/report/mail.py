"""The report as a mail: a subject, a plain text, and the same in short as HTML.

The text is the terminal's report whole. The HTML is for who reads on a phone: no script, no picture,
nothing fetched, styles only at the elements (mail programs drop style sheets).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from firstfault.model import verdict as v
from firstfault.report import text
from firstfault.report import wording as w
from firstfault.report.outline import outline
from firstfault.report.page import page
from firstfault.report.sections import Limits

LIMITS = Limits(items=5, quote=800, phrase=400)
_SUBJECT_LIMIT = 180
_WIDTH = 78
_URL = re.compile(r"https?://[\x21-\x7e]{1,2000}")


class Letter(msgspec.Struct, frozen=True):
    """What a mail says; ``subject`` is one line without controls."""

    subject: str
    text: str
    html: str


def render(
    verdict: v.Verdict,
    *,
    report_url: str | None,
    delivery_id: str,
    changes: Sequence[str] = (),
) -> Letter:
    """The mail on ``verdict``.

    ``report_url`` is where the whole report is read (http or https; None: no link). ``changes`` are
    what a revision says differently from what the same reader was sent before.
    Raises ValueError for a ``report_url`` of another kind.
    """
    if report_url is not None and not _URL.fullmatch(report_url):
        raise ValueError(f"report_url must be an http or https URL, not {report_url!r}")
    said = outline(verdict, LIMITS)
    revised = [w.clean(change, LIMITS.phrase) for change in changes]
    job = f"{said.job}: {said.headline}"
    lines = [f"Revised: {'; '.join(revised)}", ""] if revised else []
    lines += [text.render(verdict, width=_WIDTH).rstrip("\n"), ""]
    lines += [f"The whole report: {report_url}"] if report_url is not None else []
    lines.append(f"firstfault, delivery {w.clean(delivery_id, 100)}")
    return Letter(
        subject=w.cut(f"Revised: {job}" if revised else job, _SUBJECT_LIMIT),
        text="\n".join(lines) + "\n",
        html=page("mail.html").render(
            said=said, revised=revised, report_url=report_url, delivery_id=w.clean(delivery_id, 100)
        ),
    )
