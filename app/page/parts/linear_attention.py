"""Linear attention on the page Beyond: where it takes less time than a softmax, what its state forgets."""

import streamlit as st

from app.figures.units import bytes_text, seconds_text, share_text, short
from app.page.parts.curves import curves
from engine.experiment import Experiment
from engine.studies import linear_attention as studies
from engine.studies.linear_attention import CHUNK, GROUP, HEAD_DIM

TITLE = "A state"
COUNTED = """
The state takes S = g S + k vᵀ with each token and gives o = Sᵀ q; g is a gate, one number here, as in
Mamba-2 ([arXiv 2405.21060](https://arxiv.org/abs/2405.21060)); Gated Linear Attention
([2312.06635](https://arxiv.org/abs/2312.06635)) has one for each column, and Gated DeltaNet
([2412.06464](https://arxiv.org/abs/2412.06464)) first takes out what S holds for the same key. The schedule
in chunks is run on drawn numbers through a memory that counts, and gives what the recurrence gives token by
token.

Seconds are at best, by the data sheet: bytes at the memory's peak or FLOPs at the tensor cores', whichever
takes longer, of one head of {dim} in bfloat16 with its state in float32. The projections that make Q, K, V
and the gates are those of attention, and are left out. No kernel of this project computes it.
"""


def headline(experiment: Experiment) -> str:
    """What is kept, and from where on that takes less time."""
    gpu = experiment.gpu
    return (
        f"Linear attention keeps a state of {bytes_text(studies.decoded(1, True).kept)} for each head, "
        f"however many tokens came before. It decodes faster from {studies.meets(gpu, 1):,} tokens of cache "
        f"on, or {studies.meets(gpu, GROUP):,} that {GROUP} heads share (at best, {gpu.name}, modelled)."
    )


def below(experiment: Experiment) -> None:
    """Time over the tokens of prompts and of decoding, and what is given back over what is stored."""
    gpu, lengths = experiment.gpu, studies.LENGTHS
    left, right = st.columns(2, gap="large")
    with left:
        lines = {
            "softmax, a prompt": ([studies.prompt(each, False) for each in lengths], "s", "solid"),
            "linear, a prompt": ([studies.prompt(each, True) for each in lengths], "k", "solid"),
            "softmax, next token": (
                [studies.decoded(each, False, GROUP) for each in lengths],
                "s",
                "dot",
            ),
            "linear, next token": ([studies.decoded(each, True) for each in lengths], "k", "dot"),
        }
        curves(
            f"**Time of one head over the tokens**, at best, {gpu.name}, modelled",
            lengths,
            {name: ([cost.seconds(gpu) for cost in costs], *look) for name, (costs, *look) in lines.items()},
            f"A prompt takes less from {studies.meets(gpu):,} tokens on; below, both wait for Q, K, V and O. "
            f"The next token's cache is shared by {GROUP} heads; a state is each head's own.",
            **{"x": "tokens", "y": "time", "told": seconds_text, "words": short},
            ticks=lengths[::2],
        )
    with right:
        found = studies.recalled()
        off = share_text(found["state"][studies.STORED.index(HEAD_DIM)])
        curves(
            f"**How wrong a stored value comes back**, d {HEAD_DIM}, drawn keys, computed",
            studies.STORED,
            {name: (each, tone) for (name, each), tone in zip(found.items(), "ks", strict=True)},
            f"This is where they do not meet: with {HEAD_DIM} random keys in {HEAD_DIM} × {HEAD_DIM} numbers "
            f"a value comes back {off} wrong, while a softmax over the cache still picks its key.",
            **{"x": "keys stored", "y": "error, share of the value", "told": share_text, "words": short},
            linear=True,
        )


def counted() -> str:
    """How the numbers come about, in Markdown."""
    return COUNTED.format(dim=HEAD_DIM, chunk=CHUNK)
