"""A room: who publishes, what a phone is sent, which votes count, and pictures that are made once."""

import csv
import io
import json
import random
import re
import socket
import sys
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from threading import Thread
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from starlette.exceptions import HTTPException

from app import contents
from app.room import __main__ as command
from app.room import room as rooms
from app.room import routes, server, votes
from app.room.pictures import MOST_KEPT, Pictures
from app.room.room import Room, Shown
from app.room.votes import Ballots, Bucket, Question, defused
from engine import Experiment

QUESTION = Question("step 1 of 2", "How often?", ("once", "twice", "never"))
TOLD = {"replies": ("no", "yes", "no"), "right": 1, "hands": (0, 0, 0)}  # with the answer
CHOSEN = {"question": QUESTION, "asked": QUESTION.text, "choices": QUESTION.choices}
ASKED = Shown("Reading", QUESTION.place, **CHOSEN, **TOLD)


@pytest.fixture
def clock():
    return Mock(return_value=0.0)


@pytest.fixture
def led(clock):
    """A room and the session that leads it, with the question on the screen."""
    room, session = Room(clock=clock), object()
    room.lead(session)
    room.publish(session, ASKED)
    return room, session


def state(room: Room) -> dict:
    return json.loads(room.stage.text)


def test_the_last_vote_of_each_phone_counts_and_hands_are_added(led):
    room, session = led
    draw, last = random.Random(5), {}
    for _ in range(200):
        phone, choice = f"phone {draw.randrange(60)}", draw.randrange(3)
        if phone not in last:
            room.enter(phone)
        if phone in last and draw.random() < 0.7:
            continue
        room._phones[phone].votes = Bucket(9, 1)
        room.vote(phone, state(room)["number"], choice)
        last[phone] = choice
    counts = room.publish(session, replace(ASKED, told=True, hands=(2, 0, 1)))
    witness = [sum(choice == each for choice in last.values()) for each in range(3)]
    assert counts == [witness[0] + 2, witness[1], witness[2] + 1]
    assert state(room)["votes"] == counts


def test_only_the_session_that_leads_publishes_and_the_last_to_begin_leads(led):
    room, first = led
    second = object()
    with pytest.raises(PermissionError):
        room.publish(second, Shown("mine"))
    room.lead(second)
    room.publish(second, Shown("mine"))
    with pytest.raises(PermissionError):
        room.publish(first, ASKED)
    assert state(room)["title"] == "mine"


def test_who_begins_to_lead_waits_for_what_is_being_published():
    first, second, led = object(), object(), []

    class Slow(Pictures):
        def want(self, wanted) -> None:
            beginning = Thread(target=room.lead, args=(second,))
            beginning.start()
            beginning.join(0.1)
            led.append(room.led_by(first))

    room = Room(Slow())
    room.lead(first)
    room.publish(first, replace(ASKED, picture={"page": "tiles"}))
    assert led == [True]


def test_what_is_shown_when_the_server_has_just_ended_is_no_error(led):
    room, session = led

    def ended(_) -> None:
        raise RuntimeError("Event loop is closed")

    room._loop = SimpleNamespace(is_closed=lambda: False, call_soon_threadsafe=ended)
    room.publish(session, Shown("the end"))
    assert state(room)["title"] == "the end"


def test_a_question_of_the_lecture_before_is_asked_anew_and_one_on_the_screen_is_not(led):
    room, first = led
    room.enter("phone")
    room.vote("phone", state(room)["number"], 1)
    for session, counts in ((object(), [0, 1, 0]), (object(), [0, 0, 0]), (first, [0, 0, 0])):
        room.lead(session)
        assert room.publish(session, ASKED) == counts
        room.publish(session, Shown("the end"))
    assert room.publish(first, ASKED) == [0, 0, 0]
    assert (state(room)["number"], room.enter("phone")[1]) == (3, {1: 1})
    assert [row[3] for row in csv.reader(io.StringIO(room.csv()))][1:] == ["0", "1", "0"] + ["0"] * 6


def test_a_full_room_forgets_who_left_and_refuses_while_all_are_here(led, monkeypatch):
    monkeypatch.setattr(rooms, "MOST_PHONES", 2)
    room, _ = led
    room.enter("a")
    room.enter("b")
    room.enter("b")  # in another window
    with pytest.raises(HTTPException):
        room.enter("c")
    room.leave("a")
    room.enter("c")
    assert room.heard().phones == 2


def test_a_full_room_takes_places_from_the_address_that_has_most(led, monkeypatch):
    monkeypatch.setattr(rooms, "MOST_PHONES", 6)
    room, _ = led
    streams = {f"script {each}": room.enter(f"script {each}", "10.0.0.9")[0] for each in range(6)}
    for phone in range(3):
        room.enter(f"phone {phone}", f"10.0.0.{phone}")
    with pytest.raises(HTTPException):
        room.enter("script 7", "10.0.0.9")
    assert [name for name, stream in streams.items() if room.stays(name, stream)] == list(streams)[:3]
    for name in streams:
        room.leave(name)
    assert room.heard().phones == 3
    assert all(room.stays(f"phone {phone}", 1) for phone in range(3))


def test_one_address_keeps_nobody_elses_votes_out(led, clock, monkeypatch):
    monkeypatch.setattr(rooms, "PLACE_VOTES", (10, 0.0))
    room, _ = led
    number = state(room)["number"]
    for each in range(10):
        room.enter(f"script {each}", "10.0.0.9")
        room.vote(f"script {each}", number, 0)
    room.enter("script", "10.0.0.9")
    with pytest.raises(HTTPException, match="429"):
        room.vote("script", number, 0)
    room.enter("phone", "10.0.0.1")
    room.vote("phone", number, 1)
    heard = room.heard()
    assert (heard.votes, heard.phones, heard.crowd, heard.pressed) == ([10, 1, 0], 12, 11, 10)


def test_an_address_gets_as_many_names_as_a_school_needs(clock):
    room = Room(clock=clock)
    names = [room.name("10.0.0.9") for _ in range(2 * rooms.MOST_PHONES)]
    assert len(set(names)) == len(names)
    assert room.name("10.0.0.9") == ""
    assert room.name("10.0.0.1")


def test_the_presenter_is_told_how_long_no_phone_has_come(led, clock):
    room, _ = led
    clock.return_value = 61.25
    assert (room.heard().waited, room.heard().phones) == (61.25, 0)
    room.enter("phone")
    room.leave("phone")
    assert (room.heard().waited, room.heard().phones) == (0, 0)


def test_the_phones_page_is_small_asks_for_nothing_and_names_what_it_runs():
    document, policy = routes.phone_page()
    assert not re.search(rb"https?:|//\w|@import|url\(", document)
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), document, re.S)
        assert f"{directive} 'sha256-{b64encode(sha256(text).digest()).decode()}';" in policy
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


def test_codes_addresses_and_who_reaches_them():
    codes = {rooms.new_code() for _ in range(200)}
    assert len(codes) == 200
    assert all(re.fullmatch("[2-9A-HJKMNP-Z]{6}", code) for code in codes)  # that nobody mistakes
    assert rooms.place_of("2001:db8:1:2:3::4") == rooms.place_of("2001:db8:1:2::9") == "2001:db8:1:2::/64"
    places = ("192.168.1.7", "192.168.1.8", "::ffff:192.168.1.7", "::ffff:192.168.1.8")
    assert len(set(map(rooms.place_of, places))) == 4
    reached = {"127.0.0.1": "machine", "192.168.1.7": "network", "10.0.0.2": "network", "8.8.8.8": "internet"}
    assert {address: server.reach(address) for address in reached} == reached


def test_what_is_shown_again_is_sent_to_nobody(led):
    room, session = led
    version = room.stage.version
    room.publish(session, replace(ASKED))
    room._refresh()  # as when a picture has been made that is not on the screen
    assert room.stage.version == version


@pytest.mark.parametrize("taken", ["--port", "--dashboard-port"])
def test_a_port_that_is_taken_is_said_before_the_room_is_open(monkeypatch, capsys, taken):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ports = {"--port": "0", "--dashboard-port": "1"} | {taken: str(port)}
        given = [word for pair in ports.items() for word in pair]
        monkeypatch.setattr(sys, "argv", ["room", "--address", "127.0.0.1", *given])
        monkeypatch.setattr(command, "_serve", pytest.fail)
        assert command.main() == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert f"cannot listen at 127.0.0.1:{port}: Address already in use" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--address", "here"], "address is 'here'; it must be an IP address of this machine"),
        (["--port", "70000"], "argument --port: it is 70000; it must be 0 to 65535"),
        (["--code", "k7p"], "code is 'K7P'; it must be 6 characters of 23456789ABCDEFGHJKMNPQRSTUVWXYZ"),
        (["--port", "abc"], "argument --port: it is 'abc'; it must be a whole number"),
    ],
)
def test_a_command_that_cannot_be_served_is_one_sentence(arguments, says, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["room", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"python -m app.room: {says}\n"


def test_so_many_at_once_and_so_many_per_second():
    now = [0.0]
    bucket = Bucket(3, 0.5, lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now[0] = 2.0
    assert [bucket.take() for _ in range(2)] == [True, False]


def test_the_oldest_question_is_forgotten_and_the_same_question_keeps_its_votes():
    ballots = Ballots()
    ballots.of(QUESTION, None).cast("phone", 0)
    for n in range(votes.MOST_QUESTIONS - 1):
        ballots.of(Question(f"step {n}", "?", ("a", "b")), None)
    assert ballots.of(QUESTION, None).counts == [1, 0, 0]
    ballots.of(Question("last", "?", ("a", "b")), None)
    assert ballots.of(QUESTION, None).counts == [0, 0, 0]
    assert len(ballots.every) == votes.MOST_QUESTIONS


def test_votes_of_one_question_take_so_much_memory_and_no_more(monkeypatch):
    monkeypatch.setattr(votes, "MOST_VOTERS", 2)
    monkeypatch.setattr(votes, "MOST_VOTES", 3)
    ballot = Ballots().of(QUESTION, None)
    for voter in "abc":
        ballot.cast(voter, 0, "one address")
    assert ballot.counts == [2, 0, 0]
    ballot.cast("c", 1, "one address")  # the same voter
    assert ballot.counts == [1, 1, 0]
    for voter in "de":
        ballot.cast(voter, 2, f"the address of {voter}")
    assert ballot.counts == [0, 1, 2], "the address that has most gives way"
    assert ballot.crowd == 1


def test_no_cell_of_the_votes_is_a_formula():
    ballots = Ballots()
    ballot = ballots.of(Question("=1+1", '@now, "quoted"', ("-2", "+3", "plain")), None)
    ballot.hands = (0, 0, 4)
    for voter, choice in enumerate((0, 1, 1, 2)):
        ballot.cast(f"{voter}", choice)
    rows = list(csv.reader(io.StringIO(ballots.sheet().removeprefix("\ufeff"))))
    counted = (["'-2", "1", "0"], ["'+3", "2", "0"], ["plain", "1", "4"])
    assert rows[1:] == [["'=1+1", '\'@now, "quoted"', *each] for each in counted]
    for formula in ("\t=1", " =1", "\u00a0\n@a", "\u200b=1", "\ufeff+1", "＝1", "\x00=1"):
        assert defused(formula) == f"'{formula}"
    assert defused("1 = 1") == "1 = 1"


def submit(kind: str, payload: dict) -> SimpleNamespace:
    """Stands in for the process: a picture is its request; what is asked to fail does."""
    made = None if payload.get("fails") else json.dumps(payload).encode()
    return SimpleNamespace(result=made, state="done" if made else "failed", wait=lambda seconds: True)


DRAWER = SimpleNamespace(submit=submit)


def test_a_picture_is_made_once_and_the_oldest_is_forgotten():
    pictures = Pictures(DRAWER)
    wishes = [{"page": "tiles", "number": number} for number in range(MOST_KEPT + 1)]
    for wish in wishes:
        pictures._keep(wish, pictures._make(wish))
    assert pictures.made(pictures.key(wishes[0])) is None
    assert json.loads(pictures.made(pictures.key(wishes[1]))) == wishes[1]
    pictures.want(wishes[-1])
    assert pictures._thread is None  # nothing was left to do


def test_phones_hear_of_a_picture_when_it_is_made_and_of_none_where_it_fails():
    pictures, session = Pictures(DRAWER), object()
    room = Room(pictures)
    room.lead(session)
    for wish, made in (({"page": "tiles"}, True), ({"fails": True}, False)):
        key = pictures.key(wish)
        assert not pictures.refused(key)
        pictures._keep(wish, pictures._make(wish))
        room.publish(session, Shown("a page", picture=wish))
        state = json.loads(room.stage.text)
        assert (state["picture"], state["making"]) == (key * made, False)
        assert room.picture(key) == (json.dumps(wish).encode() if made else None)


@pytest.mark.parametrize("page", ["speed", "agreement", "gpu"])
@pytest.mark.parametrize(("hardware", "gpu"), [("h200", "NVIDIA H200"), ("h100", "NVIDIA H100 80GB HBM3")])
def test_phones_see_the_recording_of_the_scenarios_gpu(page, hardware, gpu):
    drawn = contents.picture(page).of(Experiment.of(hardware=hardware))
    told = f"{drawn.html} {drawn.data}".replace("Recorded", "recorded")
    assert f"recorded on {gpu}, 20" in told
