"""What the first run of a link depends on: sessions that ask for the same get the same."""

from __future__ import annotations

from collections.abc import Hashable
from urllib.parse import parse_qs

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app import room, serving
from app.scenario.link import LECTERN
from engine.recordings.file import recordings, refused
from engine.worker.client import shared_worker

OWN = {"present", LECTERN}  # in a link: a lecturer's windows know of each other


class _Same:
    """Things that are equal to themselves alone: what is compared by its address is held, to keep it."""

    def __init__(self, things: tuple):
        self._things, self._addresses = things, tuple(map(id, things))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._addresses == other._addresses

    def __hash__(self) -> int:
        return hash(self._addresses)


def asked() -> Hashable | None:
    """All that a first run reads; None where it is this session's alone."""
    query = get_script_run_ctx().query_string
    if room.current() is not None or OWN & parse_qs(query, keep_blank_values=True).keys():
        return None
    here = st.context.theme.type == "dark", serving.may_run()
    return query, *here, shared_worker().ended, _Same(recordings()), refused()
