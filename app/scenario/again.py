"""Parts of a page that hold widgets, shown again as they were: a widget is what its arguments make of it.

Streamlit makes every widget anew in every run, half of what a rerun costs. A part that a session has shown in
the run before is sent as it was made for whoever asked for it first; what it holds stays the session's own.
This and `first_run.py` know how Streamlit keeps a session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock

from streamlit.delta_generator import DeltaGenerator
from streamlit.delta_generator_singletons import get_dg_singleton_instance
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext, ThreadState
from streamlit.runtime.state.common import WidgetMetadata, user_key_from_element_id
from streamlit.runtime.state.session_state import SessionState

from app.serving.said import noted, send
from engine.problem.cache import give_way

MOST = 2048  # parts that are kept, of a few kB each


@dataclass(frozen=True)
class _Part:
    """What was sent, the widgets in it by their keys, and how many places it took."""

    messages: tuple[ForwardMsg, ...]
    widgets: tuple[tuple[str, WidgetMetadata], ...]
    places: int

    def give(self, ctx: ScriptRunContext, place: DeltaGenerator) -> bool:
        """Show it where these widgets were shown before; False where a browser must be told a value."""
        state = ctx.session_state._state
        with ctx.session_state._lock:
            if not all(_settled(state, key, widget) for key, widget in self.widgets):
                return False
            for key, widget in self.widgets:
                state._set_widget_metadata(widget)
                state._set_key_widget_mapping(widget.id, key)
        for key, widget in self.widgets:
            ctx.shared.widget_ids_this_run.check_and_add(widget.id)
            ctx.shared.widget_user_keys_this_run.check_and_add(key)
        for _ in range(self.places):
            place._cursor.lock_element()
        send(ctx, self.messages)
        return True


class Parts:
    """The parts that were shown last, by what they depend on."""

    def __init__(self):
        self._kept: OrderedDict[Hashable, _Part] = OrderedDict()
        self._lock = Lock()
        self.on = False  # a test, and whatever else has no server, draws everything itself

    def show(self, draw: Callable[..., None], *what: Hashable) -> None:
        """Draw here and now, `draw` of `what`, on which alone it depends; its widgets have keys."""
        if not self.on:
            return draw(*what)
        ctx, place = get_script_run_ctx(), get_dg_singleton_instance().main_dg._active_dg
        script = ThreadState.get().active_script_hash  # a message says whether a page drew it
        asked = script, draw.__module__, draw.__qualname__, what, tuple(place._cursor.delta_path)
        with self._lock:
            if (part := self._kept.get(asked)) is not None:
                self._kept.move_to_end(asked)
        if part is None or not part.give(ctx, place):
            give_way()
            self._keep(asked, _made(ctx, place, lambda: draw(*what)))

    def _keep(self, asked: Hashable, part: _Part) -> None:
        if any(map(_tells_a_value, part.messages)):
            return
        with self._lock:
            self._kept[asked] = part
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)


PARTS = Parts()


def _made(ctx: ScriptRunContext, place: DeltaGenerator, draw: Callable[[], None]) -> _Part:
    """Draw it, and note what there is to show it again."""
    state = ctx.session_state._state
    with ctx.session_state._lock:
        for widget in list(map(state._get_widget_metadata, state._new_widget_state.states)):
            _leave_out(state, widget)
    before, first = ctx.shared.widget_ids_this_run.snapshot(), place._cursor.index
    with noted(ctx) as messages:
        draw()
    there = ((name, state._get_widget_metadata(name)) for name in ctx.shared.widget_ids_this_run.snapshot())
    widgets = [(user_key_from_element_id(name), held) for name, held in there if name not in before and held]
    return _Part(tuple(messages), tuple(widgets), place._cursor.index - first)


def _settled(state: SessionState, key: str, widget: WidgetMetadata) -> bool:
    """Whether session and browser hold the same value of a widget, so that its message brings none."""
    _leave_out(state, widget)
    said = widget.id in state._new_widget_state.states
    told = key in state._new_session_state or key in state._old_state or (said and widget.disabled)
    return not told and (said or widget.id in state._old_state)


def _leave_out(state: SessionState, widget: WidgetMetadata | None) -> None:
    """Leave out what a browser repeats of a grey widget: Streamlit takes it for news, and sets it again."""
    said, held = state._new_widget_state, state._old_state
    if widget is None or not widget.disabled or widget.id not in said.states or widget.id not in held:
        return
    if said[widget.id] == held[widget.id]:
        del said.states[widget.id]


def _tells_a_value(message: ForwardMsg) -> bool:
    """Whether a message sets the value of a widget."""
    element = message.delta.new_element
    kind = element.WhichOneof("type")
    return bool(kind) and getattr(getattr(element, kind), "set_value", False)
