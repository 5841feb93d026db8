"""What trainers print of their losses; built from their format strings with invented values."""

from __future__ import annotations

from functools import partial

import pytest

from firstfault.readers.metrics import MetricsReader
from tests.readers.logs import line
from tests.readers.steps import steps

MEGATRON = (
    " iteration  {n}/  5000 | consumed samples:  64 | lm loss: {loss} | loss scale: 1.0 | "
    "grad norm: {norm} | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
HF = "{{'loss': {loss}, 'grad_norm': {norm}, 'learning_rate': 1e-05, 'epoch': 0.{n}}}"
BAR = "Steps:   1%|#     | {n}/2000 [00:26<1:01:23,  1.85s/it, lr=0.0001, step_loss={loss}]"
FAIRSEQ = "| epoch 00{n} | loss {loss} | ppl 31.65 | gnorm {norm} | clip 0% | wall 23080"
PLAIN = "Epoch {n} loss {loss} grad_norm={norm}"
FORMS = (MEGATRON, HF, BAR, FAIRSEQ, PLAIN)


def sign(*texts: str) -> str | None:
    reader = MetricsReader()
    for each in texts:
        reader.feed(line(each))
    found = reader.flush()
    return found[0].place.text if found else None


def reports(form: str, losses: list[str], norms: list[str] | None = None) -> list[str]:
    pairs = zip(losses, norms or losses, strict=True)
    return [form.format(n=n, loss=loss, norm=norm) for n, (loss, norm) in enumerate(pairs)]


@pytest.mark.parametrize("form", FORMS)
def test_a_loss_that_is_nan_to_the_end_is_told_by_its_first_report(form: str) -> None:
    texts = reports(form, ["2.5", "nan", "nan", "nan"])

    assert sign(*texts) == texts[1]


@pytest.mark.parametrize("form", FORMS)
def test_a_loss_that_is_finite_again_tells_nothing(form: str) -> None:
    assert sign(*reports(form, ["nan", "nan", "nan", "nan", "2.5", "nan"])) is None


@pytest.mark.parametrize("form", FORMS)
def test_few_reports_tell_nothing(form: str) -> None:
    assert sign(*reports(form, ["2.5", "nan", "nan"])) is None


def test_a_gradient_alone_needs_more_reports() -> None:
    norms = ["nan"] * 5

    assert sign(*reports(HF, ["2.5"] * 4, norms[:4])) is None
    assert sign(*reports(HF, ["2.5"] * 5, norms)) is not None


def test_a_gradient_whose_step_was_made_needs_no_more() -> None:
    assert sign(*reports(MEGATRON, ["2.5"] * 3, ["nan"] * 3)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "Epoch 3 val_loss nan",
        "Epoch 3 best loss: nan",
        "Epoch 3 | valid loss nan",
        "nan_loss: 3",
        "abort_on_nan=False, loss=0.3",
        "2 loss functions, nanosecond clock",
        "df.loss.fillna(nan)",
    ],
)
def test_other_words_tell_nothing(text: str) -> None:
    assert sign(*[text] * 9) is None


def test_fairseqs_scale_that_sinks_to_nothing_is_told() -> None:
    sinking = ["| WARNING: overflow detected, setting loss scale to: " + each for each in
               ("64.0", "0.25", "0.0039", "0.0019", "0.00097")]  # fmt: skip

    assert sign(*sinking) == sinking[2]
    assert sign(*sinking[:2] * 9) is None


def test_a_hostile_line_is_gone_through_once() -> None:
    for each in (
        "nan loss " * 8_000,
        "loss=" * 13_000 + "nan",
        "nan" + "9" * 65_000,
        "loss -\t" * 9_000 + "nan",
    ):
        # What is searched of a line is cut: so many lines of Python however long it is.
        steps(partial(sign, *[each] * 20), 200_000)
