"""How messages leave the server: all that are there at once, not one by one with a turn of the loop for each.

A page is some 90 messages. Each costs Streamlit two turns of its loop, four wrappers and a write to the
socket: more than all else that the loop does for a visitor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import app_session, get_instance
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.runtime import Runtime
from streamlit.runtime.session_manager import SessionClientDisconnectedError
from streamlit.web.server.starlette.starlette_websocket import StarletteSessionClient

PROTOCOL = "attention.protocol"  # in a connection's scope: what writes its frames


def send_together() -> None:
    """From now on, in this process."""
    AppSession.flush_browser_queue = _flushed(AppSession.flush_browser_queue)
    StarletteSessionClient._sender = _sender
    Runtime._enqueued_some_message = _enqueued(Runtime._enqueued_some_message)
    app_session._populate_theme_msg = _once(app_session._populate_theme_msg)


def _flushed(usual: Callable) -> Callable:
    """Hand all messages of a session to its client; what its queue has no room for goes the usual way."""

    def flush(session: AppSession) -> list[ForwardMsg]:
        messages, runtime = usual(session), get_instance()
        info = runtime._session_mgr.get_active_session_info(session.id)
        if not messages or not isinstance(info and info.client, StarletteSessionClient):
            return messages
        waiting = info.client._send_queue
        room = max(waiting.maxsize - waiting.qsize() - 1, 0)
        try:
            for message in messages[:room]:
                runtime._send_message(info, message)
        except SessionClientDisconnectedError:
            runtime.disconnect_session(session.id, client=info.client)
            return []
        return messages[room:]

    return flush


async def _sender(client: StarletteSessionClient) -> None:
    """Send what a client's queue holds, all of it in one write."""
    try:
        while True:
            payloads = [await client._send_queue.get()]
            while not client._send_queue.empty():
                payloads.append(client._send_queue.get_nowait())
            await _sent(client._websocket, payloads)
    except WebSocketDisconnect:
        pass
    finally:
        client._closed.set()


async def _sent(websocket: WebSocket, payloads: list[bytes]) -> None:
    """Frames in one write where the server's protocol is the one that is known, else one by one."""
    protocol = websocket.scope.get(PROTOCOL)
    if not hasattr(protocol, "conn"):
        for payload in payloads:
            await websocket.send_bytes(payload)
        return
    await protocol.writable.wait()
    if protocol.disconnected or protocol.close_sent:
        raise WebSocketDisconnect(1006)
    for payload in payloads:
        protocol.conn.send_binary(payload)
    protocol.transport.write(b"".join(protocol.conn.data_to_send()))


def _enqueued(usual: Callable) -> Callable:
    """Wake the loop that flushes at once where it is this thread's, not by way of its queue."""

    def enqueued(runtime: Runtime) -> None:
        waited = runtime._get_async_objs()
        if asyncio._get_running_loop() is waited.eventloop:
            waited.need_send_data.set()
        else:
            usual(runtime)

    return enqueued


def _once(usual: Callable) -> Callable:
    """The theme's part of a message, made once: it does not change while the server runs."""
    made = {}

    def populate(message, section: str = "theme") -> None:
        if section not in made:
            made[section] = type(message)()
            usual(made[section], section)
        message.MergeFrom(made[section])

    return populate
