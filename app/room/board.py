"""What stands on a board: the newest text for all who wait in one loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Board:
    """The newest text for all who wait in the loop; who is slow misses what was overtaken."""

    def __init__(self):
        self.text, self.version, self.closed = "", 0, False
        self._changed = asyncio.Event()

    def put(self, text: str, *, closed: bool = False) -> None:
        """Show a text to all who wait; the same again is nothing new."""
        if text == self.text and not closed:
            return
        self.text, self.closed, self.version = text, closed, self.version + 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, version: int, seconds: float) -> bool:
        """Wait for a later version, at most so long; whether there is one."""
        if self.version == version:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        return self.version != version
