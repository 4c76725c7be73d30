"""Fewer bits on the page Beyond: errors by scheme, by block and by magnitude, and what a chip would gain."""

from functools import partial

import streamlit as st

from app.elements import numbers
from app.figures.units import digits, power_text, share_text
from app.page.parts.curves import curves
from engine.experiment import Experiment
from engine.problem.hardware import GPUS
from engine.studies import block_scales as studies
from engine.studies.block_scales import DRAWN, KINDS, MXFP8, NVFP4, OUTLIERS, SCHEMES, SHIFTED, SMOOTH

TITLE = "Fewer bits"
CHIP = GPUS["b200"]  # which has units for all of these
TOLD = ("numbers as they are", "a column of K far from 0", "outliers", "the small model's")
COLUMNS = ("kept as", "bits", *TOLD, "products, B200")
COUNTED = """
Every number is rounded in NumPy as the formats define it: bits of a float32 are added to and masked. All of
E4M3's and E2M1's numbers are looked at in the tests, and PyTorch rounds to the same. Then attention is run
a block of keys at a time, products and sums in float64, with the operands of each product rounded before
it. Errors are of O: root mean square of the difference to float64 over that of O, {rows} queries of the
first head.

MXFP8 and MXFP4 are the OCP Microscaling formats 1.0, whose rule for the scale lets a block's largest number
be up to a seventh larger than E4M3's largest and a third larger than E2M1's: it is cut off. NVFP4 is as
NVIDIA states it. INT8 is SageAttention's first version ([arXiv
2410.02367](https://arxiv.org/abs/2410.02367), whose second, [2411.10958](https://arxiv.org/abs/2411.10958),
goes on to four bits): taking the mean of K off each key adds the same to all scores of a query, which a
softmax does not see, and leaves nothing of a column that is far from 0.

Rates are a B200's by its data sheet, and modelled: nothing of this was measured here, as no kernel of this
project multiplies in four bits. An H200 has units for E4M3 and INT8 alone. Times as fast as 16 bits are the
products: exponentials stay {exponentials} clocks of an SM for a tile of 128 × 128 scores.
"""


def headline(experiment: Experiment) -> str:
    """What bits cost, and what they gain."""
    eight, four = (share_text(studies.error(experiment, scheme, DRAWN), 1) for scheme in (MXFP8, NVFP4))
    usual, fast = (studies.tile_clocks(CHIP, times)[0] for times in (1, NVFP4.products))
    exponentials = studies.tile_clocks(CHIP, 1)[1]
    return (
        f"Four bits make O {four} wrong where eight make it {eight}. On a B200 a tile's products take "
        f"{digits(fast)} clocks instead of {digits(usual)}, but its exponentials still "
        f"{digits(exponentials)} (modelled)."
    )


def below(experiment: Experiment) -> None:
    """Errors by scheme, over the block and over the tensor's magnitude."""
    rows = [
        [
            scheme.name,
            digits(scheme.bits),
            *(share_text(studies.error(experiment, scheme, kind), 1) for kind in KINDS),
            f"{scheme.products} ×" if scheme.all else f"{scheme.products} ×, Q Kᵀ alone",
        ]
        for scheme in SCHEMES
    ]
    st.markdown("**Error of O**, computed; bits of a number with its share of the scale, d 128")
    numbers(COLUMNS, rows, "Errors by scheme", words=(0, 6))
    far, kept = (share_text(studies.error(experiment, each, SHIFTED), 1) for each in (SCHEMES[2], SMOOTH))
    st.caption(
        f"A column of K that is far from 0 in every token takes the scale for itself: {far} in INT8. Less "
        f"the mean of its tokens K loses it, {kept}, and the softmax does not change."
    )
    left, right = st.columns(2, gap="large")
    shares = {"y": "error, share of K", "told": share_text, "linear": True}
    with left:
        found = studies.by_size(experiment, OUTLIERS)
        curves(
            "**Error of K over the block that shares a scale**, E2M1, outliers, computed",
            studies.SIZES,
            {name: (each, tone) for (name, each), tone in zip(found.items(), "qk", strict=True)},
            "Smaller blocks keep an outlier from more numbers, and cost more bits for their scales.",
            x="numbers in a block",
            **shares,
        )
    with right:
        found = studies.by_magnitude(experiment)
        curves(
            "**Error of K over its magnitude**, with one level of scales and with two, computed",
            studies.MAGNITUDES,
            {name: (each, tone) for (name, each), tone in zip(found.items(), "oq", strict=True)},
            "A scale in E4M3 reaches from 2⁻⁹ to 448 and no further: below it is 0, above it is cut. The "
            "float32 of the second level brings every tensor into that range.",
            x="K times",
            words=partial(power_text, places=0),
            ticks=studies.MAGNITUDES[::3],
            **shares,
        )


def counted() -> str:
    """How the numbers come about, in Markdown."""
    return COUNTED.format(rows=studies.ROWS, exponentials=digits(studies.tile_clocks(CHIP, 1)[1]))
