"""Pictures of one kind: boxes that move, grow and fade between frames, with lines and words among them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.canvas.moving import Played
from app.canvas.pack import pack

SCRIPT = Path(__file__).with_name("shapes.js")
BOXES = Played("boxes_between_frames", SCRIPT, "Boxes")  # of what `payload` packs
WHOLE = 65535  # of the picture's room, or of a colour's strength


class Frame(NamedTuple):
    """One frame.

    Attributes:
        boxes: [boxes, 5] left, top, width and height as parts of the room, and how strong, from 0 to 1.
        sentence: what happens.
        facts: numbers beside it: a name, its value in words, and a colour.
        words: in the picture: text, left, top, a colour, and what stands there: left, center or right.
    """

    boxes: Any
    sentence: str
    facts: Sequence[tuple[str, str, str]]
    words: Sequence[tuple] = ()


def payload(
    title: str, note: str | list[str], tones: Sequence[str], frames: Sequence[Frame], **more
) -> bytes:
    """The payload of frames; tones are the boxes' colours, by name, which stay.

    More may be `square`, of one side; `wide`, of more than half of the picture; `opaque`, a box hides what it
    lies on; `lines` of (colour, points as parts of the room); `first`, the frame to open at.
    """
    names = sorted(set(tones))
    told = [{"sentence": each.sentence, "facts": each.facts, "words": each.words} for each in frames]
    places = np.concatenate([np.clip(each.boxes, 0, 1).ravel() for each in frames])
    arrays = {
        "boxes": np.round(places * WHOLE).astype(np.uint16),
        "tones": np.array([names.index(tone) for tone in tones], np.uint8),
    }
    return pack({"title": title, "note": note, "names": names, "frames": told, **more}, arrays)
