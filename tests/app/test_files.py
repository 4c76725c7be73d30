"""A file that a visitor has asked for outlives the runs of others until it is fetched."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit.runtime import media_file_manager
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage

from app.serving import files


@pytest.fixture
def clock(monkeypatch):
    """Streamlit as the server starts it, and seconds that pass when the test says so."""
    usual, now = media_file_manager.MediaFileMetadata, [1000.0]
    monkeypatch.setattr(media_file_manager, "MediaFileMetadata", usual)
    monkeypatch.setattr(media_file_manager, "_get_session_id", lambda: "a visitor")
    monkeypatch.setattr(files, "time", SimpleNamespace(monotonic=lambda: now[0]))
    files.let_files_stay()
    return now


def test_a_file_is_there_when_others_runs_have_ended_and_gone_after_a_while(clock):
    storage = MemoryMediaFileStorage("/media")
    manager = MediaFileManager(storage)
    asked = manager.add_deferred(lambda: "the totals", "text/plain", "1.2", "totals.txt")
    name = manager.execute_deferred(asked).rsplit("/", 1)[1]
    for _ in range(50):  # whoever moves a slider
        manager.remove_orphaned_files()
        clock[0] += 0.5
    assert storage.get_file(name).content == b"the totals"
    clock[0] += files.STAYS
    manager.remove_orphaned_files()
    manager.remove_orphaned_files()
    assert not manager._file_metadata
