"""Session state asked for one value at a time.

Number fields and select boxes look up one, and Streamlit gathers all for each of them: a quarter of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamlit.runtime.state.safe_session_state import SafeSessionState


class OneByOne(Mapping[str, Any]):
    """What a session holds, as `filtered_state` gives it; gathered when somebody goes through it."""

    def __init__(self, state: SafeSessionState):
        self._state = state

    def __getitem__(self, key: str) -> Any:
        return self._state[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._gathered())

    def __len__(self) -> int:
        return len(self._gathered())

    def __repr__(self) -> str:
        return repr(self._gathered())

    def _gathered(self) -> dict[str, Any]:
        with self._state._lock:
            return self._state._state.filtered_state


def look_up_one_by_one() -> None:
    """From now on, in this process; a version of Streamlit that has no such property stays as it is."""
    if isinstance(vars(SafeSessionState).get("filtered_state"), property):
        SafeSessionState.filtered_state = property(OneByOne)
