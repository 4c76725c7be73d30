"""A file that a visitor has asked for stays until it is fetched, whoever else's runs end meanwhile.

Streamlit makes it, tells the browser its address, and removes it when two more runs of any visitors have
ended: with ten who move a slider that takes a tenth of a second, less than the way to a phone and back.
"""

from __future__ import annotations

import time

from streamlit.runtime import media_file_manager
from streamlit.runtime.media_file_manager import MediaFileMetadata
from streamlit.runtime.media_file_storage import MediaFileKind

STAYS = 30.0  # s from when a file is made


class Lasting(MediaFileMetadata):
    """What Streamlit knows of a file; one that is marked for removal is so only after a while."""

    def __init__(self, kind: MediaFileKind = MediaFileKind.MEDIA):
        super().__init__(kind)
        self._made = time.monotonic()

    @property
    def is_marked_for_delete(self) -> bool:
        """Whether the next run that ends removes it."""
        return super().is_marked_for_delete and time.monotonic() > self._made + STAYS


def let_files_stay() -> None:
    """Have Streamlit keep the files that it makes from now on for a while."""
    media_file_manager.MediaFileMetadata = Lasting
