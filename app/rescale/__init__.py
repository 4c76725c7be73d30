"""α as a movement: one row's weights, sum and output shrink together when a larger score comes."""

from pathlib import Path

from app.canvas.moving import Played
from app.canvas.pack import pack
from engine.studies.rescaling import Rescaling

RESCALE = Played("what_alpha_rescales", Path(__file__).with_name("rescale.js"), "What α rescales")


def payload(row: Rescaling) -> bytes:
    """The row and its values, which the browser sums anew as scores are dragged."""
    return pack({"block": row.block, "scores": row.scores.tolist(), "values": row.values.tolist()}, {})
