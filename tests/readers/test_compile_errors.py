"""torch.compile's errors, whose message goes on in lines of their own."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made

ADVICE = [
    "",
    'Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for more information',
    "",
    "You can suppress this exception and fall back to eager by setting:",
    "    import torch._dynamo",
    "    torch._dynamo.config.suppress_errors = True",
    "",
]
NEWER = [
    "",
    "Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you're "
    'reporting a bug to PyTorch). For even more developer context, set TORCH_LOGS="+dynamo"',
    "",
]
USER_CODE = [
    "",
    "from user code:",
    '   File "/home/eve/run/net.py", line 5, in forward',
    "    y = f(x)",
]
FAILED = "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"
MISSING = "RuntimeError: Cannot find a working triton installation."
FAKE = "torch._dynamo.exc.TorchRuntimeError: Failed running call_function <built-in function add>(*(), **{}):"


@pytest.mark.parametrize("advice", [ADVICE, NEWER, []])
def test_a_backends_failure_is_told_whatever_advice_follows(advice: list[str]) -> None:
    verdict = made.judged(made.console(made.raised(FAILED), [MISSING, *advice]))

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.library", v.LIKELY)
    assert verdict.exception.type == "torch._dynamo.exc.BackendCompilerFailed"


@pytest.mark.parametrize("advice", [ADVICE, NEWER, []])
def test_where_it_was_in_the_users_code_is_no_traceback_of_its_own(advice: list[str]) -> None:
    lines = ["The size of tensor a (3) must match the size of tensor b (4)", *USER_CODE, *advice]
    verdict = made.judged(made.console(made.raised(FAKE), lines))

    assert verdict.cause.id == "python.exception"
    assert verdict.exception.type == "torch._dynamo.exc.TorchRuntimeError"


def test_a_traceback_behind_the_users_code_is_read() -> None:
    unsupported = "torch._dynamo.exc.Unsupported: call_function print"
    verdict = made.judged(
        made.console(
            made.hooked(0, [*made.raised(unsupported), *USER_CODE, *ADVICE]),
            made.hooked(
                1, made.raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate")
            ),
        )
    )

    assert {verdict.cause.id, *(each.cause for each in verdict.alternatives)} >= {"memory.gpu-oom"}
