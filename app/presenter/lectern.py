"""The lecturer's window, and what the presented window tells it."""

from collections.abc import Mapping
from pathlib import Path

from app import scenario
from app.canvas.moving import Component
from app.room import screen

WINDOW = Component("lectern", Path(__file__).with_name("lectern.html"))


def show() -> None:
    """The lecturer's window, alone on its page."""
    WINDOW.mount(key="lectern", data={"own": True})
    screen.lectern()


def tell(shown: Mapping[str, str | int]) -> None:
    """Tell a lecturer's window in the same browser what is shown: now, next and place; of a step more."""
    told().update(shown)


def told() -> dict[str, str | int]:
    """What this run shows of itself there; the frame tells it the browser."""
    return scenario.kept_in_run("lectern", {})
