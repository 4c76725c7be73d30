"""The presenter's side of the room: what is published, and what the presenter sees of the phones."""

from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import segno
import streamlit as st

from app import contents, scenario
from app import room as rooms
from app.canvas.moving import Component
from app.contents import HOME
from app.gallery.phone import LINK
from app.markup import inline
from app.room.room import Room, Shown
from app.scenario import presentation
from app.scenario.offers import CSV, offer
from engine.experiment import described

LIVE = Component("room_live", Path(__file__).with_name("live.html"))
PATIENCE = 60  # s without a phone after which it is said what may stand in the way
ALONE = (
    "No phone can join: the room listens on this machine alone. Start it again with --address and the "
    "address that this machine has in its network.",
)


def opened() -> bool:
    """Whether this process has a room."""
    return rooms.current() is not None


def offer_votes() -> None:
    """Let the votes be taken home from any page."""
    if (room := rooms.current()) is not None:
        offer("Votes of the room", room.csv, CSV)


def publish(shown: Shown) -> list[int] | None:
    """Show something to the phones: votes by choice in return; None where this session leads no room."""
    room = rooms.current()
    if room is None or not _leads(room):
        return None
    with suppress(PermissionError):  # another window has begun to lead just now
        return room.publish(scenario.kept("room window", None), shown)
    return None


def curves() -> list[tuple[int, ...]]:
    """What the phones have drawn for the question on the screen; nothing where this session leads no room."""
    room = rooms.current()
    return room.curves() if room is not None and _leads(room) else []


def publish_page(name: str, title: str, place: str) -> None:
    """Show a page of the dashboard to the phones, with the scenario's picture where it has one."""
    if not opened():
        return
    experiment = scenario.current()
    asked, last = scenario.own_values(name), scenario.kept("measured here", {})
    if (last.get("page"), last.get("of")) == (name, experiment):
        asked["measured"] = last["found"]
    picture = {"page": name, "values": scenario.url_values(experiment), "asked": asked}
    said = "" if name == HOME else described(experiment)  # that page shows a recording, whatever the scenario
    publish(Shown(title, place, said, picture if contents.picture(name) else {}))


def step_down() -> None:
    """Ask for the lead no longer: beginning to present again asks anew."""
    scenario.kept("room session", []).clear()


def _gone(window: object) -> None:
    if (room := rooms.current()) is not None:
        room.left_by(window)


@st.cache_resource(scope="session", on_release=_gone, show_spinner=False)
def _came(_window: object) -> object:
    """The window, while it stays connected."""
    return _window


def badge() -> None:
    """One line: the code, the phones, the votes."""
    if opened():
        with st.container(key="room_badge"):
            _live("badge")


def join() -> None:
    """How a phone joins: the code to scan, the address to type, and what to do where none comes."""
    st.markdown("**Join with your phone** (a closes this)")
    _live("join")


def lectern() -> None:
    """The room in the lecturer's own window."""
    if opened():
        _live("lectern")


def words(text: str) -> str:
    """A line of Markdown as HTML without links: a phone stays where it is."""
    return LINK.sub("", inline(text))


def trouble(room: Room) -> tuple[str, ...]:
    """What may keep phones out, and what to do."""
    if room.reach == "machine":
        return ALONE
    return (
        "No phone has joined yet. Try the address on one phone; if it does not open:",
        "The phone may be in another network. It must be in this machine's Wi-Fi, with mobile data off.",
        "The Wi-Fi may keep its devices apart, as those for guests often do. Let the phones and this machine "
        "join a hotspot, then start the room again, because its address changes.",
        f"This machine's firewall may refuse port {room.port}. Allow it for the lecture: Windows asks at the "
        f"start, on Linux run sudo ufw allow {room.port}/tcp, on macOS allow Python in the firewall.",
    )


def _leads(room: Room) -> bool:
    """Whether this session publishes: the one whose reader began to present last."""
    session, window = scenario.kept("room session", []), scenario.kept("room window", object())
    _came(window)
    # a link that presents takes the lead from nobody: who presses p does, and whoever finds no one there
    if not room.led or (not session and presentation.begun()):
        session[:] = [window]
        room.lead(window)
    return room.led_by(window)


def _live(view: str) -> None:
    room = rooms.current()
    data = {
        "view": view,
        "code": room.code,
        "link": room.link,
        "qr": "" if view == "badge" else _qr(room.link),
        "patience": PATIENCE,
        "trouble": trouble(room),
        "leads": view == "lectern" or _leads(room),
    }
    LIVE.mount(key=f"live_{view}", data=data)


@lru_cache(maxsize=1)
def _qr(link: str) -> str:
    """The address as a QR code, dark on light in every theme, as scanners want it."""
    return segno.make(link, error="m").svg_inline(border=3, dark="#000", light="#fff", omitsize=True)
