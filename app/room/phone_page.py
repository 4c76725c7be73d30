"""The page that a phone opens: one small document, and the policy by which a browser runs nothing else."""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent


@lru_cache(maxsize=1)
def page() -> tuple[bytes, str]:
    """The document, and its Content-Security-Policy, which names its style and its script by their hashes."""
    text, style, script = ((HERE / f"phone.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    document = text.replace("/* style */", style).replace("/* script */", script)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; connect-src 'self'; "
        "frame-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return document.encode(), policy


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
