"""Scripts that a browser loads once and keeps: by an address with a hash of the text, not in a message."""

from __future__ import annotations

import gzip
from hashlib import sha256

FOLDER = "scripts"  # in the server's addresses
_packed: dict[str, bytes] = {}


def loader(name: str, script: str) -> str:
    """A module that is the script, loaded from this server; it stands for the script in every message.

    A module that a message brings has no address of its own, so the document's must lead to the script.
    """
    data = script.encode()
    file = f"{name}-{sha256(data).hexdigest()[:16]}.js"
    if file not in _packed:
        _packed[file] = gzip.compress(data, mtime=0)
    address = f'new URL("./{FOLDER}/{file}", document.baseURI)'
    return f"const loaded = await import({address});\nexport default loaded.default;\n"


def packed(file: str) -> bytes | None:
    """A script as gzip packs it; None where none has this name."""
    return _packed.get(file)
