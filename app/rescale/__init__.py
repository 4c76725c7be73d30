"""α as a movement: one row's weights, sum and output shrink together when a larger score comes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from app.canvas.moving import Played
from app.canvas.pack import pack
from app.figures.units import number_text
from engine.studies.rescaling import Rescaling

RESCALE = Played("what_alpha_rescales", Path(__file__).with_name("rescale.js"), "What α rescales")


def payload(row: Rescaling, tokens: Sequence[str] = ()) -> bytes:
    """The row and its values, which the browser sums anew as scores are dragged; masked scores are null.

    With the text of each key, where it is known and they are few.
    """
    header = {
        "scores": [float(score) if np.isfinite(score) else None for score in row.scores],
        "values": row.values.tolist(),
        "block": row.block,
        "dtype": row.dtype,
        "threshold": row.threshold,
        "naive": [number_text(float(each)) if np.isfinite(each) else "inf" for each in row.naive],
    }
    if tokens:
        header["tokens"] = list(tokens)
    return pack(header, {})
