"""What an exit code of the program's own is worth."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.model.fault import Fault
from firstfault.model.verdict import CONFIRMED, LIKELY, UNKNOWN

# A shell's own exit codes begin here (not executable, not found, 128 plus a signal); Python's own
# end there (an exception, a usage error).
_FIRST_SHELL_CODE = 126
_LAST_PYTHON_CODE = 2


# An exit code of the program's own, from processes whose streams were read and hold no reason.
# Python's code for an exception is 1: where the streams were not read, its words were lost.
def worth_of_exit(unnamed: Sequence[Fault]) -> str:
    """How sure it is that the program ended itself: processes of one exit code, without a reason."""
    places = {dict(fault.facts).get("heard") for fault in unnamed}
    heard = None not in places
    code = dict(unnamed[0].facts).get("exit_code", "")
    if not code.isdigit() or not 0 < int(code) < _FIRST_SHELL_CODE:
        return UNKNOWN
    if int(code) == 1 and not heard:
        return UNKNOWN
    return CONFIRMED if places == {"itself"} and int(code) > _LAST_PYTHON_CODE else LIKELY
