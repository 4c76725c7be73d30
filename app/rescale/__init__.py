"""α as a movement: one row's weights, sum and output shrink together when a larger score comes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from app.canvas.moving import Played
from app.canvas.pack import pack
from app.figures.units import number_text
from engine.experiment import Experiment
from engine.problem.inputs import tokens_of, written
from engine.studies.drawable import drawable
from engine.studies.rescales import Rescaling
from engine.trace.rows import HeadRow, middle_row
from engine.trace.softmax import MOST_SCORES

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


def row_of_head(experiment: Experiment) -> tuple[HeadRow, Rescaling, bytes]:
    """The middle row of the scenario's first head, scaled down to be drawn, and its payload with tokens."""
    problem = drawable(experiment).problem
    found = middle_row(drawable(experiment), MOST_SCORES)
    row = Rescaling(found.scores, found.values, found.step, problem.dtype)
    tokens = written(tokens_of(problem))[found.first : found.first + len(found.scores)]
    return found, row, payload(row, tokens)
