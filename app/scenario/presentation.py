"""Whether the page is shown to a room, and how large its type is there."""

from app import scenario

USUAL_TYPE, ROOM_TYPE = 14, 19  # px of the page's type: without a presenter, and the least with one


def presenting() -> bool:
    """Whether the page is shown to a room."""
    return scenario.place("present") == "true"


def lecturing() -> bool:
    """Whether this is the lecturer's own window."""
    return scenario.place("presenter") == "true"


def turn() -> None:
    """Begin or end the presentation, without the audience's link."""
    _kept()["begun"] = not presenting()
    scenario.go(present="" if presenting() else "true", audience="")


def begun() -> bool:
    """Whether the reader has begun the presentation here, rather than a link."""
    return bool(_kept().get("begun"))


def turn_link() -> None:
    """Show the audience's link, or take it away."""
    scenario.go(audience="" if scenario.place("audience") else "true")


def type_size() -> float:
    """px of the page's type while it is shown to a room, as the browser last said."""
    return float(scenario.told("type") or ROOM_TYPE)


def _kept() -> dict[str, bool]:
    return scenario.kept("presenter", {})
