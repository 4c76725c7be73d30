"""A latent on the page Beyond: what a call takes each of three ways, and how often each byte is used."""

import streamlit as st

from app.figures.units import digits, seconds_text, share_text
from app.page.parts.curves import curves
from engine.experiment import Experiment
from engine.studies import latents as studies
from engine.studies.beyond import recorded
from engine.studies.latents import ABSORBED, DEEPSEEK, GROUPED_DIM, GROUPS, HEADS, PROJECTED

TITLE = "Latents"
WAYS = (
    ("K and V of all heads cached", HEADS, "muted"),
    ("latent, projected", PROJECTED, "v"),
    ("latent, absorbed", ABSORBED, "q"),
)
BESIDE = (
    ("latent, absorbed", ABSORBED, "q"),
    ("8 key heads", GROUPS, "k"),
    ("K and V of all heads", HEADS, "muted"),
)
COUNTED = """
Numbers per token are of DeepSeek-V2's sizes ([arXiv 2405.04434](https://arxiv.org/abs/2405.04434), section
2.1; V3 kept them). Each way is run on drawn numbers in blocks, through a memory that counts: all three give
what float64 gives, and the bytes are those shown. What they share is left out of all: Q, the latent of the
new token, the output's projection, and the weights, which a batch reads once. Seconds are at best: bytes at
the memory's peak or FLOPs at the tensor cores', whichever takes longer, by the data sheet.

The rotated numbers stand apart because a rotation by the token's position would stand between the two
matrices that absorbing makes into one. Absorbed in spite of it, scores are off by up to {off} of the
largest (computed).
"""


def headline(experiment: Experiment) -> str:
    """What a latent saves, and what it then waits for."""
    gpu, sizes = experiment.gpu, DEEPSEEK
    return (
        f"One latent of {sizes.cached} numbers stands for K and V of {sizes.heads} heads. It takes the cache "
        f"of {digits(sizes.groups)} key heads of {GROUPED_DIM}, and at best the time of "
        f"{digits(studies.groups_as_fast(gpu))} on an {gpu.name}."
    )


def below(experiment: Experiment) -> None:
    """Time over the queries of a call, FLOPs per byte over the heads, what was recorded."""
    gpu, keys = experiment.gpu, experiment.problem.seq_kv
    left, right = st.columns(2, gap="large")
    counts, heads, at = studies.QUERIES, studies.HEADS_DRAWN, studies.projecting_pays_from(keys=keys)
    with left:
        curves(
            f"**Time of a call over its queries**, {keys:,} tokens cached, at best, {gpu.name}",
            counts,
            {
                name: ([studies.cost(way, count, keys).seconds(gpu) for count in counts], tone)
                for name, way, tone in WAYS
            },
            f"From {digits(at)} queries on, projecting takes fewer FLOPs: a prompt is projected, and single "
            "tokens are decoded absorbed. Both keep the same cache.",
            **{"x": "queries of a call", "y": "time", "told": seconds_text},
            ticks=counts[::3],
            marked=at,
        )
    with right:
        curves(
            "**FLOPs per byte of the cache over the heads**, decoding, computed",
            heads,
            {name: ([studies.per_byte(way, count) for count in heads], tone) for name, way, tone in BESIDE},
            "All heads read the same latent, so with many of them decoding waits for arithmetic and no "
            "longer for memory. With heads of their own each byte is used once.",
            **{"x": "query heads", "y": "FLOPs per byte", "told": digits},
            levels={f"the {gpu.name} computes as long as it reads": studies.balance(gpu)},
        )
    _recorded()


def _recorded() -> None:
    """Decoding over a latent beside grouped heads, as a GPU ran it."""
    found = recorded()
    told = [
        f"{row['batch']} sequences of {row['seq_kv']:,} tokens: {seconds_text(row['latent']['p50'])} over "
        f"the latent, {seconds_text(row['grouped']['p50'])} over {found.problem['groups']} key heads"
        for row in found.latents
    ]
    st.caption(
        f"**Recorded** ({found.origin}, this project's kernels, {found.problem['latent_heads']} heads, one "
        f"query each): {'; '.join(told)}."
    )


def counted() -> str:
    """How the numbers come about, in Markdown."""
    return COUNTED.format(off=share_text(studies.rotary_apart()))
