"""Files that visitors brought, kept by what they hold while this server runs, and for what it starts."""

import atexit
import hashlib
import os
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import gettempdir

FOLDER = "ATTENTION_TILES_KEPT"  # in the environment: where they lie
MOST_KEPT = 32  # of a kind
os.environ.setdefault(FOLDER, str(Path(gettempdir(), f"attention-tiles-{token_hex(8)}")))


def keep_file(data: bytes, suffix: str) -> str:
    """Keep a file, and forget the oldest of its kind beyond MOST_KEPT; the key that it is found by."""
    key, folder = hashlib.sha256(data).hexdigest()[:12], Path(os.environ[FOLDER])
    if not folder.is_dir():
        folder.mkdir(mode=0o700)
        atexit.register(rmtree, folder, ignore_errors=True)
    if not (written := kept_file(key, suffix)).is_file():
        written.write_bytes(data)
    oldest = sorted(folder.glob(f"*{suffix}"), key=lambda path: path.stat().st_mtime)
    for path in oldest[:-MOST_KEPT]:
        path.unlink(missing_ok=True)
    return key


def kept_file(key: str, suffix: str) -> Path:
    """Where it lies, if it is still there."""
    return Path(os.environ[FOLDER], key + suffix)
