"""How messages leave the server: what is equal for everyone made once, and all that is there in one write."""

from __future__ import annotations

import asyncio
import gzip
import re
from types import SimpleNamespace

import pytest
import streamlit as st
from starlette.websockets import WebSocketDisconnect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from app.canvas import scripts
from app.canvas.bundle import bundle
from app.player import HERE, PLAYER
from app.serving import said, sending
from tests.app.test_server import ROOT, answer
from tests.app.test_serving import _run


def client(payloads: list[bytes], **more) -> tuple[SimpleNamespace, list[bytes]]:
    """A client whose queue holds payloads, before a protocol that notes what is written."""
    written, framed = [], []
    protocol = SimpleNamespace(
        conn=SimpleNamespace(
            send_binary=framed.append, data_to_send=lambda: [framed.pop(0) for _ in framed.copy()]
        ),
        transport=SimpleNamespace(write=written.append),
        writable=asyncio.Event(),
        disconnected=False,
        close_sent=False,
    )
    vars(protocol).update(more)
    protocol.writable.set()
    queue = asyncio.Queue()
    for payload in payloads:
        queue.put_nowait(payload)
    websocket = SimpleNamespace(scope={sending.PROTOCOL: protocol})
    return SimpleNamespace(_send_queue=queue, _websocket=websocket, _closed=asyncio.Event()), written


def test_messages_that_wait_together_are_written_together():
    async def sent() -> list[bytes]:
        one, written = client([b"a", b"b", b"c"])
        task = asyncio.create_task(sending._sender(one))
        while not written:
            await asyncio.sleep(0)
        one._send_queue.put_nowait(b"d")
        while len(written) < 2:
            await asyncio.sleep(0)
        task.cancel()
        return written

    assert _run(sent()) == [b"abc", b"d"]


def test_a_client_that_is_gone_ends_its_sender_without_a_word(caplog):
    async def ended() -> bool:
        one, written = client([b"a"], disconnected=True)
        await sending._sender(one)
        return one._closed.is_set() and not written

    assert _run(ended())
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_an_unknown_protocol_gets_message_after_message():
    sent = []

    async def send_bytes(payload: bytes) -> None:
        sent.append(payload)
        if payload == b"b":
            raise WebSocketDisconnect

    async def ended() -> None:
        one, _ = client([b"a", b"b", b"c"])
        one._websocket = SimpleNamespace(scope={}, send_bytes=send_bytes)
        await sending._sender(one)

    _run(ended())
    assert sent == [b"a", b"b"]


def test_a_script_is_loaded_once_by_a_name_that_holds_its_hash():
    module = scripts.loader("some", "export default 1;")
    (file,) = [word for word in module.split('"') if word.startswith("./scripts/")]
    name = file.removeprefix("./scripts/")
    assert module.count("\n") == 2  # Streamlit takes a single line for the name of a file
    assert gzip.decompress(scripts.packed(name)) == b"export default 1;"
    assert scripts.loader("some", "export default 2;") != module
    assert scripts.packed("../app/main.py") is None
    given = answer("/scripts/{file}", path_params={"file": name})
    assert given.status_code == 200
    assert given.headers["content-encoding"] == "gzip"
    assert "immutable" in given.headers["cache-control"]
    assert given.headers["content-type"].startswith("text/javascript")
    assert answer("/scripts/{file}", path_params={"file": "none.js"}).status_code == 404


def test_a_message_brings_no_picture_s_script_and_a_file_to_take_home_all_of_it(open_app):
    app = open_app("tiles")
    (player,) = [
        node.proto for node in app.get("bidi_component") if node.proto.component_name == "attention_player"
    ]
    assert len(player.js_content) < 300
    whole = bundle(HERE / "player.js")
    assert whole in PLAYER.offline(b"", "Player")
    name = player.js_content.split('"')[1].removeprefix("./scripts/")
    assert gzip.decompress(scripts.packed(name)).decode() == whole


def test_what_is_said_to_all_is_drawn_once(open_app, monkeypatch):
    said._said.clear()
    drawn, usual = [], st.page_link
    monkeypatch.setattr(st, "page_link", lambda page: drawn.append(page) or usual(page))
    one, other = open_app("tiles"), open_app("masks")
    assert len(drawn) == 14
    links = [[node.proto.page for node in app.get("page_link")] for app in (one, other)]
    assert links[0] == links[1]
    assert len(links[0]) == 14
    assert not other.exception


@pytest.mark.parametrize("running", [True, False])
def test_an_overtaken_run_says_nothing_more(monkeypatch, running):
    class Runner:
        def enqueue(self, message) -> None:
            raise AssertionError("one by one")

    runner, queued, woken = Runner(), [], []
    session = SimpleNamespace(
        _scriptrunner=runner if running else Runner(),
        _browser_queue=SimpleNamespace(enqueue=queued.append),
        _message_enqueued_callback=lambda: woken.append(1),
        _call_soon_on_event_loop=lambda callback: callback(),
    )
    sessions = SimpleNamespace(get_session_info=lambda _: SimpleNamespace(session=session))
    monkeypatch.setattr(said, "get_instance", lambda: SimpleNamespace(_session_mgr=sessions))
    said.send(SimpleNamespace(_enqueue=runner.enqueue, session_id="one"), ["a", "b"])
    assert (queued, woken) == ((["a", "b"], [1]) if running else ([], []))


def test_a_message_that_asks_for_a_run_begins_as_the_browser_takes_it_to():
    asks = BackMsg(rerun_script=ClientState(query_string="seq=64")).SerializeToString()
    (first,) = re.findall(r"RERUN = (0x\w+)", (ROOT / "app" / "frame" / "moving.js").read_text("utf-8"))
    assert asks[0] == int(first, 16)
    others = (BackMsg(stop_script=True), BackMsg(app_heartbeat=True), BackMsg(clear_cache=True))
    assert all(other.SerializeToString()[0] != asks[0] for other in others)
