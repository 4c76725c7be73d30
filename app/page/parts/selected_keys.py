"""Chosen keys on the page Beyond: the weight that is left out, what is read, and what a GPU took."""

import streamlit as st

from app.beyond import selected_keys as pictures
from app.elements import chart
from app.figures import beyond as figures
from app.figures.units import ratio_text, scaled, seconds_text, short
from app.scenario import theme
from engine.experiment import Experiment
from engine.studies import selected_keys as studies
from engine.studies.beyond import recorded
from engine.studies.selected_keys import ALL, BEST, CHOSEN, GROUP, INDEXER, MEANS, TOKENS, WINDOW

TITLE = "Chosen keys"
RULES = {
    "window": (WINDOW, "muted"),
    "blocks, by their means": (MEANS, "k"),
    "blocks, the best": (BEST, "o"),
    "tokens, by an indexer": (INDEXER, "q"),
    "tokens, the best": (TOKENS, "v"),
}
READ = {
    "all keys": (ALL, "muted"),
    "16 chosen blocks": (BEST, "k"),
    "with NSA's other branches": (MEANS, "q"),
}
COUNTED = """
Visited blocks, weights and bytes are computed on the scenario's numbers, or on the heads that it names: its
first key head, at most 2,048 keys, causal. The chosen blocks are also run in tiles through a memory that
counts; O is what float64 gives over the same keys. Trained parts are stood in for, which changes what is
left out and not what moves: the mean of a block for NSA's compressed key ([arXiv
2502.11089](https://arxiv.org/abs/2502.11089)), a random projection in FP8 for the indexer of DeepSeek
Sparse Attention ([arXiv 2512.02556](https://arxiv.org/abs/2512.02556)). A trained model also moves its
weight to where its choice looks; numbers that were made without a choice do not.

DeepSeek's indexer still scores every key. In DeepSeek-V3.2 it takes {index} of the {dense} that attention
to {keys:,} keys would take for a token, and attention to the 2,048 chosen ones {few}. The two together are
computed from the sizes that its paper and configuration state.

Why blocks: chosen tokens lie apart, so that a tile is put together from as many addresses as it has keys.
The kernel here was recorded with the same number of keys in pieces of {pieces}: it took {times}.
"""


def picture(experiment: Experiment) -> bytes:
    """The payload of the scenario's numbers."""
    return pictures.picture(experiment)


def headline(experiment: Experiment) -> str:
    """What a choice saves in arithmetic, and where it saves bytes."""
    return (
        f"A query that visits {CHOSEN} chosen blocks of {studies.BLOCK} keys computes less from "
        f"{short(studies.crossing('scores'))} tokens on, but it reads less only from "
        f"{short(studies.crossing('read'))} on, as neighbours no longer share what they read."
    )


def below(experiment: Experiment) -> None:
    """The weight left out over the keys visited, keys read over the length, and recorded times."""
    left, right = st.columns(2, gap="large")
    colours = theme.colours()
    with left:
        found = {name: (studies.lost(experiment, rule), tone) for name, (rule, tone) in RULES.items()}
        whose = "heads of a file" if studies.subject(experiment).real else "drawn numbers"
        st.markdown(f"**Weight left out over the keys that a query visits**, {whose}, computed")
        lines = {name: figures.Line([*each.values()], tone) for name, (each, tone) in found.items()}
        titles = {"x": "keys visited", "y": "share of the weight", "unit": ""}
        keys = [*next(iter(found.values()))[0]]
        chart(figures.over(keys, lines, colours, **titles, linear=True), "Weight left out over keys visited")
        st.caption(
            "Best is what the weights themselves would choose, which are known only after the work that was "
            "to be saved. Heads from a file, named in the sidebar, have lines of their own here."
        )
    with right:
        st.markdown(f"**Keys that tiles read for a query**, {GROUP} heads on one key head, counted")
        lengths = studies.LENGTHS
        lines = {
            name: figures.Line([studies.moved(way, length).read for length in lengths], tone)
            for name, (way, tone) in READ.items()
        }
        titles = {"x": "tokens of a prompt", "y": "keys read", "unit": "", "words": short}
        figure = figures.over(lengths, lines, colours, **titles, ticks=lengths[::2])
        chart(figure, "Keys read for a query over the length")
        st.caption(
            f"Attention reads a tile of keys once for {studies.TILE_ROWS} neighbouring queries of a head. "
            f"Neighbours choose differently, so a tile has one query of {GROUP} heads, which choose alike."
        )
    _recorded(colours)


def _recorded(colours) -> None:
    """The kernel beside attention to all keys, as a GPU ran both."""
    found = recorded()
    problem, prompts = found.problem, found.prompts()
    st.markdown(
        f"**Recorded**, {found.origin}: a causal prompt, {problem['heads']} heads on {problem['kv_heads']}, "
        f"d {problem['head_dim']}, {problem['keys']:,} keys visited in blocks of 64"
    )
    lines = {
        "all keys": figures.Line([row["all"]["p50"] for row in prompts[1]], "muted"),
        "chosen by every query": figures.Line([row["selected"]["p50"] for row in prompts[1]], "k"),
        "chosen by 64 queries together": figures.Line([row["selected"]["p50"] for row in prompts[64]], "q"),
    }
    lengths = [row["seq_kv"] for row in prompts[1]]
    titles = {"x": "tokens of a prompt", "y": "seconds", "unit": "s", "words": short}
    chart(figures.over(lengths, lines, colours, **titles), "Recorded times over the length")
    told = [
        f"{row['batch']} sequences of {row['seq_kv']:,} keys in {seconds_text(row['selected']['p50'])}, "
        f"{ratio_text(row['all']['p50'], row['selected']['p50'])} less than over all keys"
        for row in found.decoded()
    ]
    st.caption(
        f"One query each: {'; '.join(told)}. The choice was drawn, and making it is not in these times."
    )


def counted() -> str:
    """How the numbers come about, in Markdown."""
    keys = 131_072
    dense, index, few = (scaled(each, "FLOP") for each in studies.dsa_flops(keys))
    pieces = recorded().pieces()
    sizes, times = ", ".join(map(str, pieces)), ", ".join(seconds_text(each) for each in pieces.values())
    return COUNTED.format(keys=keys, dense=dense, index=index, few=few, pieces=sizes, times=times)
