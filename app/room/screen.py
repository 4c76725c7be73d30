"""The presenter's side of the room: what is published, and what the presenter sees of the phones."""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from html import escape

import segno
import streamlit as st

from app import contents, scenario, serving
from app import room as rooms
from app.contents import HOME
from app.figures.units import counted
from app.gallery.phone import LINK
from app.markup import inline
from app.room.room import Heard, Room, Shown
from app.scenario import presentation
from app.scenario.offers import CSV, offer
from engine.experiment import described

LOOK = 1.0  # s between two looks at the phones
CROWD = 10  # phones of one address that are told
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
        return room.publish(_window(), shown)
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


def leading() -> bool:
    """Whether the phones follow this window."""
    room = rooms.current()
    return presentation.presenting() and room is not None and room.led_by(_window())


def badge() -> None:
    """One line: the code, the phones, the votes."""
    if (room := rooms.current()) is not None:
        _leads(room)  # before the page publishes
        with st.container(key="room_badge"):
            _look(
                lambda room: (
                    f"Room {room.code} · {'no phone yet: press a' if _alone(room) else _counted(room)}"
                )
            )


def join() -> None:
    """How a phone joins: the code to scan, the address to type, and what to do where none comes."""
    st.markdown("**Join with your phone** (a closes this)")
    _look(_joining)


def lectern() -> None:
    """The room in the lecturer's own window."""
    if opened():
        _look(_voting)


def _look(drawn: Callable[[Room], str]) -> None:
    """What is drawn of the room as HTML, again and again."""
    st.fragment(lambda: st.html(drawn(rooms.current())), run_every=LOOK)()


def _joining(room: Room) -> str:
    first, *others = trouble(room) if _alone(room) else [""]
    said = f"<p>{first}</p><ul>{''.join(f'<li>{each}</li>' for each in others)}</ul>"
    return _link(room, f"<p>{_counted(room)}</p><div class='trouble'>{said}</div>")


def _voting(room: Room) -> str:
    """The histogram, for the lecturer alone: it grows before the answer is shown."""
    heard, rows = room.heard(), ""
    if serving.at_hand():
        for index, (name, votes) in enumerate(zip(heard.shown.choices, heard.votes, strict=False)):
            share, kind = votes / max(1, sum(heard.votes)), "right" * (index == heard.shown.right)
            rows += (
                f"<li class='{kind}' style='--share:{share:.0%}'><span>{name}</span><span>{votes}</span></li>"
            )
    return _link(room, f"<p>{_told(heard)}</p><ol>{rows}</ol>", "lecturer")


def _link(room: Room, below: str, kind: str = "") -> str:
    """The address as a QR code and in letters, above more."""
    link = f"{escape(room.link.removesuffix(room.code))}<b>{room.code}</b>"
    return f"<div class='join {kind}'>{_qr(room.link)}<div><p class='link'>{link}</p>{below}</div></div>"


def _alone(room: Room) -> bool:
    """Whether something seems to keep the phones out."""
    return room.heard().waited >= PATIENCE


def _counted(room: Room) -> str:
    """How many are here and have voted, or that another window hears it."""
    if not room.led_by(_window()):
        return "another window leads the room; p twice leads it from here"
    return _told(room.heard())


def _told(heard: Heard) -> str:
    """Phones and votes, for who sits at the machine; a class behind one access point looks like a script."""
    told = [(heard.phones, "phone", heard.crowd)]
    if heard.shown.question:
        told.append((sum(heard.votes), "vote", heard.pressed))
    return " · ".join(
        counted(many, noun) + f" ({crowd:,} from one address)" * (crowd >= CROWD)
        for many, noun, crowd in told * serving.at_hand()
    )


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


def _window() -> object:
    """This window, by which the room knows it."""
    return scenario.kept("room window", object())


def _leads(room: Room) -> bool:
    """Whether this session publishes: the one whose reader began to present last."""
    session, window = scenario.kept("room session", []), _window()
    _came(window)
    # a link that presents takes the lead from nobody: who presses p does, and whoever finds no one there
    if not room.led or (not session and presentation.begun()):
        session[:] = [window]
        room.lead(window)
    return room.led_by(window)


@lru_cache(maxsize=1)
def _qr(link: str) -> str:
    """The address as a QR code, dark on light in every theme, as scanners want it."""
    drawing = segno.make(link, error="m").svg_data_uri(border=3, dark="#000", light="#fff", omitsize=True)
    return f'<img alt="QR code of the room\'s address" src="{drawing}">'
