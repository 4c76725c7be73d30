"""What the room's own socket answers: to phones, to wrong requests, and to everything else."""

import asyncio
import gzip
import http.client
import json
import socket
import sys
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import ModuleType

import pytest
from itsdangerous import TimestampSigner
from starlette.exceptions import HTTPException
from starlette.requests import Request

from app.room import server
from app.room.pictures import Pictures
from app.room.room import MOST_STREAMS, Room, Shown
from app.room.routes import presenter_route
from app.room.votes import Question
from tests import room_load
from tests.app.room.test_room import ASKED as CHOSEN
from tests.app.room.test_room import QUESTION

ASKED = replace(CHOSEN, picture={"page": "tiles"})
PICTURE = b"<!doctype html><p>a picture"
PATIENCE = 300  # s
SECRET = "of this test's room"


def cookie(name: str) -> str:
    """Of a browser to which the room has given a name."""
    session = b64encode(json.dumps({"phone": name}).encode())
    return f"phone={TimestampSigner(SECRET).sign(session).decode()}"


COOKIE = cookie("one")


@pytest.fixture(scope="module")
def room():
    """A room that listens on this machine, with a question and its picture."""
    pictures, session = Pictures(), object()
    pictures._keep(ASKED.picture, gzip.compress(PICTURE))
    opened = Room(pictures, clock=lambda: 0.0)  # whoever has voted too often may not again
    opened.secret = SECRET
    with room_load.served(opened):
        opened.lead(session)
        opened.session = session
        yield opened


@pytest.fixture(autouse=True)
def asked(room):
    room.publish(room.session, ASKED)


def connected(room) -> socket.socket:
    return socket.create_connection(("127.0.0.1", room.port), timeout=PATIENCE)


def ask(room, path: str, method: str = "GET", body: bytes | None = None, **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", room.port, timeout=PATIENCE)
    try:
        connection.request(method, path.replace("CODE", room.code), body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


class Follower:
    """A phone's stream of events."""

    def __init__(self, room, cookie: str = COOKIE):
        self._connection = http.client.HTTPConnection("127.0.0.1", room.port, timeout=PATIENCE)
        self._connection.request("GET", f"/{room.code}/events", headers={"Cookie": cookie})
        self.answer = self._connection.getresponse()

    def next(self) -> tuple[str, dict]:
        name = "message"
        while True:
            line = self.answer.readline().decode()
            assert line, "the stream has ended"
            line = line.strip()
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                return name, json.loads(line[6:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.answer.close()
        self._connection.close()


ELSEWHERE = (
    *("GET /", "GET /ABCDEF", "GET /tour", "GET /_stcore/health", "GET /_stcore/stream", "POST /room/moment"),
    *("GET /media/x", "GET /CODE/", "GET /CODE/../_stcore/health", "GET /CODE/vote", "POST /CODE"),
    *("PUT /CODE/vote", "POST /ABCDEF/vote", "GET /ABCDEF/events", "GET /CODE/picture/0123"),
    "POST /CODE/publish",
)


def result(coroutine):
    """From a loop in a thread of its own: the browser's tests keep one in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def test_everything_but_the_rooms_own_addresses_is_404(room):
    for method, path in map(str.split, ELSEWHERE):
        assert ask(room, path, method)[0] == 404, path


def moment(room, client="127.0.0.1", body=b"{}", **headers: str):
    """What the address of the presenter's own browser answers."""
    given = {"host": "localhost:8501", **{name.replace("_", "-"): value for name, value in headers.items()}}
    asked = {"type": "http", "method": "POST", "path": "/room/moment", "client": (client, 1)}
    asked["headers"] = [(name.encode(), value.encode()) for name, value in given.items()]

    async def sent():
        return {"type": "http.request", "body": body}

    try:
        return result(presenter_route(room).endpoint(Request(asked, sent))).status_code
    except HTTPException as refused:
        return refused.status_code


def test_the_phones_picture_is_moved_at_the_machine_alone():
    assert moment(Room()) == 204
    elsewhere = {"host": "evil.example.com"}, {"x_forwarded_for": "192.168.1.7"}
    for client, headers in (("192.168.1.7", {}), *(("127.0.0.1", each) for each in elsewhere)):
        assert moment(Room(), client, **headers) == 404


@pytest.mark.parametrize(
    ("body", "site", "status"),
    [
        (b'{"what": "Player", "part": 0.5, "playing": true, "state": {}}', "same-origin", 204),
        (b'{"part": 1}', "cross-site", 403),
        (b"[" * 9000, "same-origin", 413),
        (b"no JSON", "same-origin", 400),
    ],
)
def test_the_phones_picture_moves_as_the_presenters_does(body, site, status):
    moved, session = Room(), object()
    moved.lead(session)
    moved.publish(session, replace(ASKED, question=None))

    assert moment(moved, body=body, sec_fetch_site=site) == status
    assert json.loads(moved.stage.text)["moment"] == (json.loads(body) if status == 204 else None)
    moved.publish(session, replace(ASKED, question=None, picture={"page": "gpu"}))
    assert json.loads(moved.stage.text)["moment"] is None  # it was of another picture


def test_the_page_comes_with_its_policy_and_a_cookie_that_no_script_reads(room):
    status, headers, document = ask(room, "/CODE")
    assert status == 200
    assert len(document) < 6500
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    given = headers["Set-Cookie"].lower()
    assert "httponly" in given
    assert "samesite=strict" in given
    again = ask(room, "/CODE", Cookie=headers["Set-Cookie"].split(";")[0])
    assert again[1]["Set-Cookie"] is None
    assert ask(room, f"/{room.code.lower()}")[0] == 200  # as somebody may type it


def test_the_picture_is_kept_apart_and_comes_as_the_browser_takes_it(room):
    path = f"/CODE/picture/{Pictures.key(ASKED.picture)}"
    status, headers, body = ask(room, path)
    assert (status, body) == (200, PICTURE)
    assert "sandbox allow-scripts;" in headers["Content-Security-Policy"]
    assert gzip.decompress(ask(room, path, **{"Accept-Encoding": "gzip"})[2]) == PICTURE


def vote(room, body: bytes, cookie: str = COOKIE) -> int:
    return ask(room, "/CODE/vote", "POST", body, Cookie=cookie)[0]


def ballot(question: int = 1, **answer) -> bytes:
    return json.dumps({"question": question, **answer}).encode()


NO_VOTES = (
    *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 150, b'{"question": 1, "choice": 1e400}'),
    *(ballot(), ballot(0, choice=0), ballot(choice=0, publish="x")),
    *(ballot(choice=each) for each in ("0", True, -1)),
)
NO_CURVES = ([], [1], [0] * 65, [0, 1001], [0, -1], [0, 0.5], [0, True], [0, "1"], [0, None], {"0": 1}, "01")


def test_a_body_that_is_no_vote_is_400_and_hears_what_is_one(room):
    for body in (*NO_VOTES, *(ballot(curve=each) for each in NO_CURVES)):
        status, _, said = ask(room, "/CODE/vote", "POST", body, Cookie=COOKIE)
        assert status == 400, body
        assert said.startswith(b'A vote is {"question": 3, "choice": 0}, or {"question": 3, "curve": [0, 25')


def test_a_curve_is_an_answer_where_the_room_draws_and_nowhere_else(room):
    with Follower(room, cookie("artist")) as phone:
        phone.next()
        number = phone.next()[1]["number"]
        assert vote(room, ballot(number, curve=[0, 500]), cookie("artist")) == 400  # here it chooses
        question = Question("step 2 of 2", "How does it grow?", ())
        sketched = Shown("Drawing", question=question, draws=True)
        assert room.publish(room.session, sketched) == [0]
        state = phone.next()[1]
        assert state["draws"]
        number = state["number"]
        assert vote(room, ballot(number, choice=0), cookie("artist")) == 400
        for curve in ([0, 1000], [0] * 64, [0, 7, 1000]):  # the last counts
            assert vote(room, ballot(number, curve=curve), cookie("artist")) == 204
        assert room.curves() == [(0, 7, 1000)]
        assert room.publish(room.session, replace(sketched, told=True)) == [1]
        with Follower(room, cookie("artist")) as again:
            assert again.next()[1][str(number)] == [0, 7, 1000]
    assert f"step 2 of 2,{question.text},drawn,1,0" in room.csv()


def test_a_phone_follows_votes_and_is_told(room):
    with Follower(room) as phone:
        assert phone.next() == ("mine", {})
        name, state = phone.next()
        assert (name, state["title"], state["choices"]) == ("message", "Reading", list(QUESTION.choices))
        assert state["picture"] == Pictures.key(ASKED.picture)
        assert not state.keys() & {"votes", "right", "replies"}
        number = state["number"]
        assert vote(room, b" " * 601) == 413
        assert vote(room, ballot(number + 1, choice=0)) == 409
        given = ballot(number, choice=2)
        strange = ("phone=made-up", "phone=0123456789abcdef-_abcd", f"{COOKIE}x", "phone=.", "phone=é")
        for made_up in ("", cookie("stranger"), *strange):
            assert vote(room, given, made_up) == 403
        assert vote(room, given) == 204
        assert room.publish(room.session, replace(ASKED, told=True)) == [0, 0, 1]
        assert phone.next()[1]["votes"] == [0, 0, 1]
        assert vote(room, given) == 409
        with Follower(room) as late:
            assert late.next() == ("mine", {str(number): 2})
            assert late.next()[1]["told"]
        assert [vote(room, given) for _ in range(3)] == [409, 409, 429]


def test_a_phone_whose_name_is_of_the_room_before_gets_another_with_its_events(room):
    with Follower(room, "phone=0123456789abcdef-_abcd") as phone:
        own = phone.answer.headers["Set-Cookie"].split(";")[0]
        assert phone.next() == ("mine", {})
        number = phone.next()[1]["number"]
        for choice, status in ((3, 400), (0, 204)):
            assert vote(room, ballot(number, choice=choice), own) == status


def test_a_stream_that_its_phone_has_replaced_ends(room):
    own = cookie("another")
    first = Follower(room, own)
    first.next(), first.next()
    others = [Follower(room, own) for _ in range(MOST_STREAMS)]
    for other in others:
        other.next()
    room.publish(room.session, Shown("later"))
    assert first.next()[1]["title"] == "later"
    assert not first.answer.read().strip()
    room.publish(room.session, Shown("at last"))
    assert [others[0].next()[1]["title"] for _ in range(3)] == ["Reading", "later", "at last"]
    for each in (first, *others):
        each.__exit__()


def test_a_request_that_is_none_ends_its_own_connection_alone_and_is_not_logged(room, caplog):
    with connected(room) as raw:
        raw.sendall(b"GET /" + b"A" * 9_000 + b" HTTP/1.1\r\n\r\n")
        assert raw.recv(12) == b"HTTP/1.1 400"
    assert ask(room, "/CODE")[0] == 200
    assert not [record for record in caplog.records if record.name in ("room", "uvicorn.error")]


def answered(connection: socket.socket) -> bool:
    """Whether it is served, not closed."""
    connection.sendall(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
    return connection.recv(12) == b"HTTP/1.1 404"


def test_who_asks_nothing_is_let_go_and_of_too_many_one_of_the_address_that_has_most(monkeypatch):
    monkeypatch.setattr(server, "IDLE", 0.05)
    opened = Room()
    with room_load.served(opened), connected(opened) as silent:
        assert ended(silent)
    monkeypatch.undo()
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    with room_load.served(opened), connected(opened) as first, connected(opened) as second:
        assert answered(first)
        assert answered(second)
        to = "127.0.0.1", opened.port
        with socket.create_connection(to, PATIENCE, ("127.0.0.2", 0)) as third:
            assert answered(third)
            with socket.create_connection(to, PATIENCE, ("127.0.0.3", 0)) as fourth:
                assert answered(fourth)
                with connected(opened) as fifth:
                    assert ended(fifth)


def ended(connection: socket.socket) -> bool:
    """Whether the other side closes it, rather than that the time runs out."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_simulated_phones_all_join_hear_every_step_and_vote(monkeypatch):
    # the phones' process would run this one's main module again: the dashboard, once a test has opened it
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    found = room_load.measured(20, voting=0.2)
    assert (found["votes counted"], found["steps that reached a phone"]) == (20, 20 * room_load.STEPS)
    assert 0 <= found["ms to a step, worst"] < 1e3 * PATIENCE
