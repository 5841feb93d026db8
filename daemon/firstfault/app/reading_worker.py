"""The program that reads a part of a large job's documents: `firstfault.app.reading_processes` starts it.

Run as ``python -I -m firstfault.app.reading_worker``. A message is its length (8 bytes, big
endian) and a pickle; both ends are the daemon's own. The first on standard input are the site's
signatures, each further one documents; the answer on standard output is what they tell, without
the documents. It ends where its input does.
"""

from __future__ import annotations

import pickle
import resource
import sys
from typing import IO

import msgspec

from firstfault.model.document import Document
from firstfault.runs.reading import read_document
from firstfault.signatures import use_compiled

_HEAD = 8
# A backstop for one that hangs and whose daemon was killed: it would never see its input's end.
_LONGEST_S = 900
_NOTHING = Document("", ())


def send(stream: IO[bytes], message: bytes) -> None:
    """Writes one message. Raises `OSError` where nobody reads."""
    stream.write(len(message).to_bytes(_HEAD, "big"))
    stream.write(message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message, None where there is no whole one."""
    head = stream.read(_HEAD)
    if len(head) < _HEAD:
        return None
    size = int.from_bytes(head, "big")
    message = stream.read(size)
    return message if len(message) == size else None


def main(source: IO[bytes], target: IO[bytes]) -> None:
    """Answers until its input ends."""
    site = receive(source)
    if site is None:
        return
    use_compiled(pickle.loads(site))  # noqa: S301 - of the daemon that started it
    while (message := receive(source)) is not None:
        documents: list[Document] = pickle.loads(message)  # noqa: S301 - the same
        found = [
            msgspec.structs.replace(read_document(document), document=_NOTHING)
            for document in documents
        ]
        send(target, pickle.dumps(found, pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (_LONGEST_S, _LONGEST_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main(sys.stdin.buffer, sys.stdout.buffer)
