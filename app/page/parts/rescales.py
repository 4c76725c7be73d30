"""How often heads rescale what they have summed, and what a threshold spares of it."""

import streamlit as st

from app.elements import numbers
from app.figures.units import share_text
from engine.experiment import Experiment
from engine.studies.rescales import THRESHOLD, WINDOWS, in_all, of_all_layers

NUMBERS = (
    "In drawn numbers keys grow longer along the sequence, so that the maximum keeps rising. Real heads with "
    "a sink rescale less: choose a sentence as Numbers to see one."
)
MEASURED = (  # see assets/heads/small.md
    "On 1,024 tokens in blocks of 64, the maximum rises at 36% of the blocks with drawn numbers, at 10% of "
    "them in 72 heads of SmolLM2-135M (2% in heads with a sink), and at 61% in this project's small model, "
    "most of whose heads look at their nearest keys."
)


def show(experiment: Experiment) -> None:
    """Every head's rises of the maximum, what a threshold spares, and what a window would lose."""
    layers = of_all_layers(experiment)
    several = len(layers) > 1
    found = [(f"{layer}." * several, one) for layer, heads in enumerate(layers) for one in heads]
    rises, left = map(share_text, in_all([one for _, one in found]))
    st.markdown(
        f"**The maximum rises at {rises} of the key blocks after a row's first. With FlashAttention-4's "
        f"threshold, what is summed is rescaled at {left} of them.**"
    )
    rows = [
        {
            "layer." * several + "head": f"{layer}{each.head}",
            "blocks that rescale": share_text(each.rises, 1),
            "below 2⁸": share_text(each.kept),
            "rescale above 2⁸": share_text(each.rescaled, 1),
            "error": f"{each.error:.1e}",
            "weight on key 0": share_text(each.first, 1),
            **{f"beyond {window:,} keys": share_text(each.outside[window], 1) for window in WINDOWS},
        }
        for layer, each in found
    ]
    numbers(rows, "How often heads rescale", height=420 if len(rows) > 12 else 0)
    st.caption(
        "Executed here on up to 128 rows of each head. FlashAttention-4 leaves m, l and O as they are where "
        f"the maximum is at most {THRESHOLD:g} in log2 above m (arXiv 2603.05451): the result stays exact "
        "but for rounding, whose largest error in float32, against float64, is shown beside the largest "
        f"number of O. {MEASURED}"
    )
