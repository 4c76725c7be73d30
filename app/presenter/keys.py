"""Keys for a page's buttons: a lecturer moves on without a pointer."""

from collections.abc import Mapping
from pathlib import Path

from app.canvas.moving import Component

KEYS = Component("page_keys", Path(__file__).with_name("keys.js"))
FULL_SCREEN, DOWN, UP = "full screen", "down", "up"  # what a key may do besides pressing a button


def bind(buttons: Mapping[str, str], *, key: str) -> None:
    """Let keys, named as browsers name them, press the buttons in containers of these keys."""
    KEYS.mount(key=key, data=dict(buttons), height=0)
