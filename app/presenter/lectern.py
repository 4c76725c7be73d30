"""The lecturer's window, and what the presented window tells it."""

from collections.abc import Mapping
from pathlib import Path

from app.canvas.moving import Component
from app.room import screen

HERE = Path(__file__).parent
WINDOW = Component("lectern", HERE / "lectern.html")
TELLER = Component("lectern_teller", HERE / "lectern.js")


def show() -> None:
    """The lecturer's window, alone on its page."""
    WINDOW.mount(key="lectern", data={"own": True})
    screen.lectern()


def tell(shown: Mapping[str, str | int]) -> None:
    """Tell a lecturer's window in the same browser what is shown: now, next and place; of a step more."""
    TELLER.mount(key="lectern_teller", data=dict(shown), height=0)
