"""How often heads rescale what they have summed, and what a threshold spares of it."""

import streamlit as st

from app.elements import numbers
from app.figures.units import share_text
from engine.experiment import Experiment
from engine.studies.rescales import THRESHOLD, WINDOWS, in_all, rescales

NUMBERS = "Drawn numbers are drawn so that the maximum keeps rising; real heads rescale less."
HEAD = "head", "blocks that rescale", "below 2⁸", "rescale above 2⁸", "error", "weight on key 0"


def show(experiment: Experiment) -> None:
    """Every head's rises of the maximum, what a threshold spares, and what a window would lose."""
    found = rescales(experiment)
    rises, left = map(share_text, in_all(found))
    st.markdown(
        f"**The maximum rises at {rises} of the key blocks after a row's first. With FlashAttention-4's "
        f"threshold, what is summed is rescaled at {left} of them.**"
    )
    rows = [
        (f"{each.head}", share_text(each.rises, 1), share_text(each.kept), share_text(each.rescaled, 1),
         f"{each.error:.1e}", share_text(each.first, 1),
         *(share_text(each.outside[window], 1) for window in WINDOWS))
        for each in found
    ]  # fmt: skip
    numbers((*HEAD, *(f"beyond {window:,} keys" for window in WINDOWS)), rows, "How often heads rescale")
    st.caption(
        "Executed here on up to 128 rows of each head. FlashAttention-4 leaves m, l and O as they are where "
        f"the maximum is at most {THRESHOLD:g} in log2 above m (arXiv 2603.05451): the result stays exact "
        "but for rounding, whose largest error in float32, against float64, is shown beside the largest "
        f"number of O. {NUMBERS}"
    )
