"""A room: what the presenter shows, the phones that follow, and their votes."""

import asyncio
import ipaddress
import json
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from app.room.pictures import Pictures
from app.room.votes import Ballot, Ballots, Bucket, Question, Vote

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # nothing that reads as something else
CODE_LENGTH = 6
MOST_PHONES = 1000
MOST_STREAMS = 3  # of one phone: windows of its browser, and connections that are lost and not yet missed
PHONE_VOTES = (5, 1.0)  # of one phone: at once, and per second after that
# of one address, behind which there may be a school: votes, and names that its browsers are given
PLACE_VOTES, PLACE_NAMES = (600, 200.0), (2 * MOST_PHONES, 5.0)
MOST_PLACES = 4096  # addresses whose votes are counted in time; the oldest is forgotten


def is_code(text: str) -> bool:
    """Whether a room can have it."""
    return len(text) == CODE_LENGTH and set(text) <= set(ALPHABET)


def new_code() -> str:
    """Six characters that are read aloud and typed without mistakes."""
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


@dataclass(frozen=True)
class Shown:
    """What the presenter shows: everything that a phone needs to know."""

    title: str  # of the page, or of the tour's step
    place: str = ""  # which page or step of how many
    scenario: str = ""  # in one line
    picture: Mapping[str, Any] = field(default_factory=dict)  # what `pictures` needs to make it, if any
    ahead: tuple[Mapping[str, Any], ...] = ()  # pictures that are likely to come next, the nearest first
    question: Question | None = None
    asked: str = ""  # the question's text in HTML, and below it the choices
    choices: tuple[str, ...] = ()
    draws: bool = False  # whether it is answered by drawing on the picture; then there are no choices
    told: bool = False  # whether the answer is shown; from then on no vote counts
    right: int = -1  # the choice that is right
    replies: tuple[str, ...] = ()  # what is said of each choice, in HTML
    hands: tuple[int, ...] = ()  # votes by choice that the presenter counted with keys


@dataclass
class Place:
    """An address that phones join from, and what all of them together may ask."""

    votes: Bucket
    names: Bucket


def place_of(address: str) -> str:
    """What counts as one address: of the newer kind, a network that one household or one machine has."""
    with suppress(ValueError):
        if (found := ipaddress.ip_address(address)).version == 6 and not found.ipv4_mapped:
            return str(ipaddress.ip_network((found, 64), strict=False))
    return address


@dataclass
class Phone:
    """A browser that has joined, from an address."""

    votes: Bucket
    place: str = ""
    streams: int = 0  # that are open
    opened: int = 0  # that ever were


class Heard(NamedTuple):
    """What the presenter is told of the room."""

    shown: Shown
    phones: int  # that are here
    crowd: int  # of them from the address that has most
    waited: float  # s that no phone has come since the room was first led; 0 once one has
    votes: list[int]  # by choice of the question on the screen, of phones and hands
    pressed: int  # of phones, from the address that has most


class Board:
    """The newest text for all who wait in the loop; who is slow misses what was overtaken."""

    def __init__(self):
        self.text, self.version, self.closed = "", 0, False
        self._changed = asyncio.Event()

    def put(self, text: str, *, closed: bool = False) -> None:
        """Show a text to all who wait; the same again is nothing new."""
        if text == self.text and not closed:
            return
        self.text, self.closed, self.version = text, closed, self.version + 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, version: int, seconds: float) -> bool:
        """Wait for a later version, at most so long; whether there is one."""
        if self.version == version:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        return self.version != version


class Room:
    """What phones see and do. The presenter's script publishes from any thread; the rest runs in one loop."""

    def __init__(
        self, pictures: Pictures | None = None, clock: Callable[[], float] = time.monotonic, code: str = ""
    ):
        self.code = code or new_code()
        self.address, self.port, self.reach = "", 0, "machine"  # where phones find it, and who can
        self.stage = Board()  # for phones
        self._clock, self._lock = clock, threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pictures = pictures
        self._phones: dict[str, Phone] = {}
        self._places: OrderedDict[str, Place] = OrderedDict()
        self.secret = secrets.token_hex()  # by which names are signed: nobody else makes one
        self._ballots = Ballots()
        self._ballot: Ballot | None = None  # of the question on the screen
        self._leader: object | None = None
        self._since: float | None = None  # when it was first led
        self._moment: Any = None  # of the presenter's picture
        self._joined = False  # whether any phone ever has
        self._shown = Shown("The lecture has not begun", "This page follows it by itself.")
        if pictures is not None:
            pictures.when_made = self._refresh

    @property
    def link(self) -> str:
        """What a phone opens."""
        return f"http://{self.address}:{self.port}/{self.code}"

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve from a loop on."""
        self._loop = loop
        self._refresh()

    def close(self) -> None:
        """Let every stream end."""
        self._put(self.stage.text, closed=True)

    # The presenter's side, from any thread.

    def lead(self, session: object) -> None:
        """Let a session publish from now on, and no other."""
        with self._lock:
            self._leader = session
            self._since = self._since or self._clock()

    def led_by(self, session: object) -> bool:
        """Whether it is this session that publishes."""
        return self._leader is session

    @property
    def led(self) -> bool:
        """Whether a session publishes whose window is there."""
        return self._leader is not None

    def left_by(self, session: object) -> None:
        """A session's window is gone: whoever presents next may lead."""
        with self._lock:
            if self.led_by(session):
                self._leader = None

    def publish(self, session: object, shown: Shown) -> list[int]:
        """Show something to all phones; votes by choice of its question, of phones and hands, in return.

        Raises PermissionError where another session leads.
        """
        with self._lock:
            if not self.led_by(session):
                raise PermissionError("another session leads the room")
            if self._pictures is not None and shown.picture:
                for picture in (*reversed(shown.ahead), shown.picture):  # the newest wish is served first
                    self._pictures.want(picture)
            question, stands = shown.question, shown.question == self._shown.question
            self._ballot = self._ballots.of(question, session, stands=stands) if question else None
            if self._ballot:
                self._ballot.hands = shown.hands
            if shown.picture != self._shown.picture:
                self._moment = None
            changed, self._shown = shown != self._shown, shown
            counts = self._counts()
        if changed:
            self._refresh()
        return counts

    def move(self, moment: Any) -> None:
        """Have the phones' picture show a moment that the presenter's shows; it says itself what that is."""
        with self._lock:
            self._moment = moment
        self._refresh()

    def csv(self) -> str:
        """All questions with their votes, as a file."""
        with self._lock:
            return self._ballots.sheet()

    def curves(self) -> list[Vote]:
        """What the phones have drawn for the question on the screen."""
        with self._lock:
            return self._ballot.chosen if self._shown.draws and self._ballot else []

    # The phones' side, in the loop.

    def name(self, place: str = "") -> str:
        """A name for a browser; empty where an address has had very many."""
        with self._lock:
            return secrets.token_urlsafe(16) if self._place(place).names.take() else ""

    def _place(self, place: str) -> Place:
        if place not in self._places and len(self._places) == MOST_PLACES:
            self._places.popitem(last=False)
        made = Place(Bucket(*PLACE_VOTES, self._clock), Bucket(*PLACE_NAMES, self._clock))
        return self._places.setdefault(place, made)

    def enter(self, phone: str, place: str = "") -> tuple[int, dict[int, Vote]]:
        """A phone opens a stream: which of its streams it is, and its votes so far. Raises HTTPException."""
        with self._lock:
            known = self._phones.get(phone)
            if known is None:
                self._make_room(place)
                known = self._phones[phone] = Phone(Bucket(*PHONE_VOTES, self._clock), place)
            known.streams += 1
            known.opened += 1
            self._joined = True
            return known.opened, self._ballots.mine(phone)

    def stays(self, phone: str, stream: int) -> bool:
        """Whether a stream goes on: the room is open, and it is one of its phone's latest."""
        known = self._phones.get(phone)
        return not self.stage.closed and known is not None and stream > known.opened - MOST_STREAMS

    def leave(self, phone: str) -> None:
        """A stream of a phone has ended."""
        with self._lock:
            if phone in self._phones:  # its place may have been given to another
                self._phones[phone].streams -= 1

    def vote(self, phone: str, number: int, choice: Vote) -> None:
        """Count a vote, or a curve, for the question on the screen; raises HTTPException."""
        with self._lock:
            known = self._phones.get(phone)
            if known is None:
                raise HTTPException(403)
            if not (known.votes.take() and self._place(known.place).votes.take()):
                raise HTTPException(429)
            ballot, shown = self._ballot, self._shown
            if ballot is None or shown.told or ballot.number != number:
                raise HTTPException(409)
            drawn = isinstance(choice, tuple)
            if drawn != shown.draws or (not drawn and choice >= len(ballot.question.choices)):
                raise HTTPException(400)
            ballot.cast(phone, choice, known.place)

    def picture(self, key: str) -> bytes | None:
        """A picture that has been made, compressed."""
        return self._pictures.made(key) if self._pictures else None

    def _make_room(self, place: str) -> None:
        """Where all are taken, forget the oldest that has left, or the latest of the address that has most.

        Raises HTTPException where that is the address that asks.
        """
        if len(self._phones) < MOST_PHONES:
            return
        gone = next((name for name, phone in self._phones.items() if not phone.streams), None)
        if gone is None:
            held = Counter(phone.place for phone in self._phones.values())
            crowd, most = held.most_common(1)[0]
            if held[place] + 1 >= most:
                raise HTTPException(503)
            gone = next(name for name in reversed(self._phones) if self._phones[name].place == crowd)
        del self._phones[gone]

    def _counts(self) -> list[int]:
        """Votes by choice of the question on the screen, of phones and hands."""
        return [phones + hands for _, phones, hands in self._ballot.rows] if self._ballot else []

    def _refresh(self) -> None:
        """Send everything to all phones."""
        with self._lock:
            shown, pictures = self._shown, self._pictures
            key = pictures.key(shown.picture) if pictures and shown.picture else ""
            ready = bool(key) and pictures.made(key) is not None
            told = ("title", "place", "scenario", "asked", "choices", "draws", "told")
            state = {name: getattr(shown, name) for name in told} | {
                "number": self._ballot.number if self._ballot else 0,
                "picture": key if ready else "",
                "moment": self._moment,
                "making": bool(key) and not ready and not pictures.refused(key),
            }
            if shown.told:
                state |= {"right": shown.right, "replies": shown.replies, "votes": self._counts()}
            self._put(json.dumps(state, ensure_ascii=False))

    def heard(self) -> Heard:
        """How many phones are here, how they vote, and how long nobody has come."""
        with self._lock:
            here = Counter(phone.place for phone in self._phones.values() if phone.streams)
            alone = self._since is not None and not self._joined
            waited = self._clock() - self._since if alone else 0.0
            pressed = self._ballot.crowd if self._ballot else 0
            crowd = max(here.values(), default=0)
            return Heard(self._shown, here.total(), crowd, waited, self._counts(), pressed)

    def _put(self, text: str, *, closed: bool = False) -> None:
        """Show the phones a text, in the loop that its readers run in."""
        put = partial(self.stage.put, text, closed=closed)
        if self._loop is None:
            return put()
        try:
            self._loop.call_soon_threadsafe(put)
        except RuntimeError:  # the loop has ended, maybe just now: nobody reads there any more
            put()
