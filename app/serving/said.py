"""What a part of a page says to everyone alike: made once, and given to every run as it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from streamlit.delta_generator import DeltaGenerator
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import get_instance
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext

MOST = 64  # parts that are kept: some of each page, theme and mode
_said: dict[Hashable, tuple[ForwardMsg, ...]] = {}


def said_once(place: DeltaGenerator, what: Hashable, draw: Callable[[], None]) -> None:
    """Draw into a container that nothing else is drawn into.

    Args:
        what: all that the drawing depends on.
        draw: draws what holds no state, so no widgets.
    """
    ctx = get_script_run_ctx()
    asked = draw.__module__, draw.__qualname__, what, tuple(place._cursor.delta_path)
    if (said := _said.get(asked)) is not None:  # another session may forget it at any moment
        return send(ctx, said)
    with noted(ctx) as messages, place:
        draw()
    if len(_said) >= MOST:
        _said.clear()
    _said[asked] = tuple(messages)


@contextmanager
def noted(ctx: ScriptRunContext) -> Iterator[list[ForwardMsg]]:
    """The messages that a session says from here on, which it says all the same."""
    messages, usual = [], ctx._enqueue

    def note(message: ForwardMsg) -> None:
        messages.append(message)
        usual(message)

    ctx._enqueue = note
    try:
        yield messages
    finally:
        ctx._enqueue = usual


def send(ctx: ScriptRunContext, messages: Sequence[ForwardMsg]) -> None:
    """Hand a session's messages to the loop that sends them, all at once; in a test to whoever listens."""
    sessions = getattr(get_instance(), "_session_mgr", None)
    runner = getattr(ctx._enqueue, "__self__", None)
    if sessions is None or runner is None:  # whoever notes messages wants each
        for message in messages:
            ctx._enqueue(message)
        return
    if (info := sessions.get_session_info(ctx.session_id)) is None:
        return  # its window has been closed meanwhile
    session = info.session

    def enqueue() -> None:
        if session._scriptrunner is not runner:
            return  # overtaken: its browser has asked for another run
        for message in messages:
            session._browser_queue.enqueue(message)
        session._message_enqueued_callback()

    session._call_soon_on_event_loop(enqueue)
