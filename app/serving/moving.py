"""While a slider is moved quickly, a run is made of its last value alone.

A run costs a browser more than the server: one that drew every value would show the last one late.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession

QUICK = 0.3  # s within which one run after another is asked for by somebody who moves something
MOVING = 0.07  # s after which no further move is awaited: a key that is held repeats sooner
TRIGGERS = ("trigger_value", "string_trigger_value", "json_trigger_value", "chat_input_value")


@dataclass
class _Asked:
    """What a session has asked for."""

    at: float = float("-inf")  # when it last asked for a run
    waiting: BackMsg | None = None
    timer: asyncio.TimerHandle | None = None


def await_the_last() -> None:
    """From now on, in this process."""
    AppSession.handle_backmsg = awaiting(AppSession.handle_backmsg)


def awaiting(usual: Callable[[AppSession, BackMsg], None]) -> Callable[[AppSession, BackMsg], None]:
    """Hand a session's messages on; a run that follows another quickly waits, and gives way to the next."""
    sessions: WeakKeyDictionary[AppSession, _Asked] = WeakKeyDictionary()

    def hand_on(session: AppSession, asked: _Asked) -> None:
        message, asked.waiting = asked.waiting, None
        asked.timer.cancel()
        usual(session, message)

    def handle(session: AppSession, message: BackMsg) -> None:
        asked = sessions.setdefault(session, _Asked())
        if asked.waiting and _replaces(message, asked.waiting):
            asked.timer.cancel()
        elif asked.waiting:
            hand_on(session, asked)
        last = asked.at
        if message.HasField("rerun_script"):
            asked.at = time.monotonic()
        if not _is_move(message) or asked.at - last > QUICK:
            asked.waiting = None
            return usual(session, message)
        asked.waiting = message
        asked.timer = asyncio.get_running_loop().call_later(MOVING, hand_on, session, asked)

    return handle


def _replaces(message: BackMsg, before: BackMsg) -> bool:
    """Whether nothing is lost with the one before: what widgets hold comes whole each time."""
    return _is_move(message) and _where(message.rerun_script) == _where(before.rerun_script)


def _where(run: ClientState) -> tuple[str, str, str]:
    return run.fragment_id, run.page_script_hash, run.page_name


def _is_move(message: BackMsg) -> bool:
    """Whether a message asks for a run by what widgets hold alone: by no button, way back or clock."""
    run = message.rerun_script
    return (
        message.HasField("rerun_script")
        and not (run.is_auto_rerun or run.is_history_navigation)
        and not any(widget.WhichOneof("value") in TRIGGERS for widget in run.widget_states.widgets)
    )
