"""What came after FlashAttention-3, in pictures of one kind: boxes that move and fade between frames."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.canvas.moving import Played
from app.canvas.pack import pack

BOXES = Played("boxes_between_frames", Path(__file__).with_name("beyond.js"), "Boxes")
WHOLE = 65535  # of the picture's room, or of a colour's strength


class Frame(NamedTuple):
    """One frame.

    Attributes:
        boxes: [boxes, 5] left, top, width and height as parts of the room, and how strong, from 0 to 1.
        sentence: what happens.
        facts: numbers beside it: a name, its value in words, and a colour.
        words: in the picture: text, left, top, and a colour.
    """

    boxes: np.ndarray
    sentence: str
    facts: Sequence[tuple[str, str, str]]
    words: Sequence[tuple[str, float, float, str]] = ()


def payload(
    title: str,
    note: str,
    tones: Sequence[str],
    frames: Sequence[Frame],
    square: bool = False,
) -> bytes:
    """The payload of frames; tones are the boxes' colours, by name, which stay."""
    names = sorted(set(tones))
    header: dict[str, Any] = {
        "title": title, "note": note, "names": names, "square": square,
        "frames": [
            {"sentence": each.sentence, "facts": each.facts, "words": each.words, "mark": at}
            for at, each in enumerate(frames)
        ],
    }  # fmt: skip
    places = np.concatenate([np.clip(each.boxes, 0, 1).ravel() for each in frames])
    arrays = {
        "boxes": np.round(places * WHOLE).astype(np.uint16),
        "tones": np.array([names.index(tone) for tone in tones], np.uint8),
    }
    return pack(header, arrays)
