"""The live room: phones of an audience follow the presenter and vote, on a socket of their own.

`python -m app.room` opens one beside the dashboard; without it the pages find none. A room is what the
presenter's session last published (`room`), votes (`votes`) and pictures (`pictures`), all in memory; phones
reach it through `routes` alone, which `server` puts on the second socket; `screen` is the presenter's side.
"""

from app.room.room import Room

_open: list[Room] = []  # the one room of this process, if there is one


def set_current(room: Room | None) -> None:
    """Let the pages of this process find a room, or none."""
    _open[:] = [room] if room else []


def current() -> Room | None:
    """The room that is open in this process."""
    return _open[0] if _open else None
