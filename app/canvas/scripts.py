"""Scripts, and what they read, that a browser loads once and keeps: by an address with a hash of the text."""

import gzip
from hashlib import sha256

FOLDER = "scripts"  # in the server's addresses
_packed: dict[str, bytes] = {}


def loader(name: str, script: str) -> str:
    """A module that is the script, loaded from this server; it stands for the script in every message.

    A module that a message brings has no address of its own, so the document's must lead to the script.
    """
    there = f'new URL("{address(name, script, "js")}", document.baseURI)'
    return f"const loaded = await import({there});\nexport default loaded.default;\n"


def address(name: str, text: str, kind: str) -> str:
    """Where a text is to be found from now on, from the document's own address."""
    data = text.encode()
    file = f"{name}-{sha256(data).hexdigest()[:16]}.{kind}"
    if file not in _packed:
        _packed[file] = gzip.compress(data, mtime=0)
    return f"./{FOLDER}/{file}"


def packed(file: str) -> bytes | None:
    """A script as gzip packs it; None where none has this name."""
    return _packed.get(file)
