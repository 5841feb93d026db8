"""A site's own signatures: a folder of TOML files, made to count beside the package's."""

from __future__ import annotations

from pathlib import Path

from firstfault.signatures import SignatureError, use_site


def install(folder: Path) -> int:
    """Makes the signatures of ``folder``'s ``*.toml`` files count in this process; their number.

    Raises `SignatureError`, which names the file, for what cannot be read or is not sound; then
    nothing is changed.
    """
    texts = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.suffix == ".toml":
                texts[str(path)] = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise SignatureError(f"{folder}: a file is not UTF-8: {error}") from error
    except OSError as error:
        raise SignatureError(f"{error.filename or folder}: {error.strerror}") from error
    return use_site(texts)
