"""The first run of a link, made once: all who open the same link get the messages and the state that it left.

Hundreds open one link at once, and what its page says to each of them is the same to the byte, but for the
names of files that its buttons would make. This and `again.py` know how Streamlit keeps a session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum
from threading import Lock, RLock
from typing import Any

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import get_instance
from streamlit.runtime.forward_msg_cache import populate_hash_if_needed
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.session_state import Value, _is_internal_key

from app.scenario.state import RUN
from app.serving.said import noted, send

MOST, MOST_BYTES = 64, 32 * 2**20  # runs that are kept, and bytes of their messages
PLAIN = (type(None), bool, int, float, str, bytes, Enum)


class _Files:
    """The files that a run's download buttons would make, asked for by names that are a session's own."""

    def __init__(self, messages: list[ForwardMsg]):
        entries = get_instance().media_file_mgr._deferred_callables
        asked = {at: message.delta.new_element.download_button for at, message in enumerate(messages)}
        self.entries = {at: entries[button.deferred_file_id] for at, button in asked.items() if button.id}

    def named_anew(self, messages: tuple[ForwardMsg, ...]) -> list[ForwardMsg]:
        """The messages, with files of this session in those of its buttons."""
        files, given = get_instance().media_file_mgr, list(messages)
        for at, entry in self.entries.items():
            given[at] = ForwardMsg()
            given[at].CopyFrom(messages[at])
            given[at].delta.new_element.download_button.deferred_file_id = files.add_deferred(
                entry["callable"],
                entry["mimetype"],
                entry["coordinates"],
                entry["filename"],
                element_id=entry["element_id"],
            )
            given[at].hash = ""
            populate_hash_if_needed(given[at])
        return given


@dataclass(frozen=True)
class FirstRun:
    """What a run has sent, and what it has left in its session."""

    messages: tuple[ForwardMsg, ...]
    files: _Files
    values: Mapping[str, Any]
    widgets: Mapping[str, Value]
    metadata: Mapping[str, Any]
    keys: Mapping[str, str]
    query: Mapping[str, Any]
    address: str
    pages: Mapping[str, Any]
    page: str
    bytes: int

    def give(self, ctx: ScriptRunContext) -> None:
        """Let a session that has run nothing yet be as if it had run this itself."""
        state = ctx.session_state._state
        with ctx.session_state._lock:
            state._new_session_state.update(_copied(self.values))
            state._new_widget_state.states.update(
                {name: Value(_copied(held.value)) for name, held in self.widgets.items()}
            )
            state._new_widget_state.widget_metadata.update(self.metadata)
            state._key_id_mapper.set_key_id_mapping(dict(self.keys))
            state.query_params._query_params = _copied(self.query)
        ctx.query_string = self.address
        for name in self.metadata:
            ctx.shared.widget_ids_this_run.check_and_add(name)
        ctx.pages_manager._set_pages(dict(self.pages))
        ctx.set_mpa_v2_page(self.page)
        send(ctx, self.files.named_anew(self.messages))


class FirstRuns:
    """The latest first runs by what they depend on; of several sessions that want one, the first makes it."""

    def __init__(self):
        self._kept: OrderedDict[Hashable, FirstRun | None] = OrderedDict()
        self._making: dict[Hashable, RLock] = {}
        self._lock = Lock()
        self.on = False  # a test, and whatever else has no server, runs everything itself

    def give_or_make(self, asked: Hashable, draw: Callable[[], None]) -> None:
        """Give this session the run that `asked` names, or make it and keep it for the others.

        Args:
            asked: all that the run depends on; None where only this session can know.
            draw: makes the run.
        """
        ctx = get_script_run_ctx()
        if not self.on or asked is None or not _untouched(ctx):
            return draw()
        asked = (ctx.pages_manager.intended_page_script_hash, ctx.pages_manager.intended_page_name, asked)
        with self._lock:
            making = self._making.setdefault(asked, RLock())
        with making:
            try:
                if asked not in self._kept:
                    return self._keep(asked, _made(ctx, draw))
            finally:  # of a link that leads elsewhere nothing stays
                self._making.pop(asked, None)
        with self._lock:
            run = self._kept.get(asked)
        return draw() if run is None else run.give(ctx)

    def _keep(self, asked: Hashable, run: FirstRun | None) -> None:
        with self._lock:
            self._kept[asked] = run
            while len(self._kept) > MOST or self.bytes > MOST_BYTES:
                self._kept.popitem(last=False)

    @property
    def bytes(self) -> int:
        """Of the messages of all that are kept."""
        return sum(run.bytes for run in self._kept.values() if run is not None)


FIRST_RUNS = FirstRuns()


def _untouched(ctx: ScriptRunContext) -> bool:
    """Whether the session has run nothing yet, and its browser holds nothing of an earlier one."""
    state = ctx.session_state._state
    own = not all(map(_is_internal_key, (*state._old_state, *state._new_session_state)))
    return not (own or state._new_widget_state.states or ctx.is_history_navigation)


def _made(ctx: ScriptRunContext, draw: Callable[[], None]) -> FirstRun | None:
    """Make a run; None where another session could not be given it."""
    with noted(ctx) as messages:
        draw()
    state, pages = ctx.session_state._state, ctx.pages_manager
    values, widgets = state._new_session_state, state._new_widget_state
    files = _Files(messages)
    own_files = get_instance().media_file_mgr._files_by_session_and_coord.get(ctx.session_id, ())
    alike = (
        not ctx.shared.new_fragment_ids.snapshot()
        and len(own_files) == len(files.entries)
        and all(_plain(value) for name, value in values.items() if name != RUN)  # which no later run reads
        and all(isinstance(held, Value) and _plain(held.value) for held in widgets.states.values())
        and all(map(_anybodys, widgets.widget_metadata.values()))
    )
    if not alike:
        return None
    return FirstRun(
        tuple(messages),
        files,
        _copied(values),
        {name: Value(_copied(held.value)) for name, held in widgets.states.items()},
        dict(widgets.widget_metadata),
        dict(state._key_id_mapper._key_id_mapping),
        _copied(state.query_params._query_params),
        ctx.query_string,
        pages.get_pages(),
        pages.current_page_script_hash,
        sum(message.ByteSize() for message in messages),
    )


def _plain(value: Any) -> bool:
    """Whether a copy of a value's lists and dicts is all that keeps two sessions apart."""
    if isinstance(value, dict):
        return all(map(_plain, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_plain, value))
    return isinstance(value, PLAIN) or (is_dataclass(value) and type(value).__dataclass_params__.frozen)


def _anybodys(widget: WidgetMetadata) -> bool:
    """Whether what a widget calls holds nothing that a session changes: it would be the first session's."""
    held = (getattr(widget.callback, "__self__", None), widget.callback_args, widget.callback_kwargs)
    return not any(map(_changes, held))


def _changes(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_changes, value))
    return isinstance(value, list | set) or (isinstance(value, dict) and bool(value))


def _copied(value: Any) -> Any:
    """A value whose dicts, lists, sets and tuples are its own."""
    if isinstance(value, dict):
        return type(value)((name, _copied(each)) for name, each in value.items())
    if type(value) in (list, set, tuple):
        return type(value)(map(_copied, value))
    return value
