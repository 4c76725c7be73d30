"""Keys for a page's buttons: a lecturer moves on without a pointer."""

from collections.abc import Mapping

from app import scenario

FULL_SCREEN, DOWN, UP = "full screen", "down", "up"  # what a key may do besides pressing a button


def bind(buttons: Mapping[str, str]) -> None:
    """Let keys, named as browsers name them, press the buttons in containers of these keys."""
    bound().update(buttons)


def bound() -> dict[str, str]:
    """The keys of this run's page, with what they press; the frame tells them the browser."""
    return scenario.kept_in_run("keys", {})
