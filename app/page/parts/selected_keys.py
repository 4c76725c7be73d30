"""Chosen keys on the page Beyond: the weight that is left out, what is read, and what a GPU took."""

import streamlit as st

from app.figures.units import digits, ratio_text, scaled, seconds_text, share_text, short
from app.page.parts.curves import curves
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


def headline(experiment: Experiment) -> str:
    """What a choice saves in arithmetic, and where it saves bytes."""
    return (
        f"A query that visits {CHOSEN} chosen blocks of {studies.BLOCK} keys computes less from "
        f"{short(studies.crossing('scores'))} tokens on, but its tiles read less of L2 only from "
        f"{short(studies.crossing('read'))} on, as neighbours no longer share what they read."
    )


def below(experiment: Experiment) -> None:
    """The weight left out over the keys visited, keys read over the length, and recorded times."""
    left, right = st.columns(2, gap="large")
    lengths = studies.LENGTHS
    with left:
        found = {name: (studies.lost(experiment, rule), tone) for name, (rule, tone) in RULES.items()}
        whose = "heads of a file" if studies.subject(experiment).real else "drawn numbers"
        curves(
            f"**Weight left out over the keys that a query visits**, {whose}, computed",
            [*next(iter(found.values()))[0]],
            {name: ([*each.values()], tone) for name, (each, tone) in found.items()},
            f"Best is what the weights themselves would choose, known only after all the work. {_on_text()}",
            **{"x": "keys visited", "y": "share of the weight", "told": share_text},
            linear=True,
        )
    with right:
        curves(
            f"**Keys that tiles read for a query**, {GROUP} heads on one key head, counted",
            lengths,
            {
                name: ([studies.moved(way, length)["read"] for length in lengths], tone)
                for name, (way, tone) in READ.items()
            },
            f"Attention reads a tile of keys once for {studies.TILE_ROWS} neighbouring queries of a head. "
            f"Neighbours choose differently, so a tile has one query of {GROUP} heads, which choose alike.",
            **{"x": "tokens of a prompt", "y": "keys read", "told": digits, "words": short},
            ticks=lengths[::2],
        )
    _recorded()


def _on_text() -> str:
    """What a choice leaves out of a trained model's weight."""
    means, best, window = (studies.lost(None, rule) for rule in (MEANS, BEST, WINDOW))
    keys = sorted(means)[-3]  # a quarter of them
    left = (share_text(each[keys]) for each in (means, best, window))
    told = "On the heads of this project's small model {} of {:,} keys leave out {} by means, {} at best, "
    return (told + "and {} as a window.").format(keys, max(means), *left)


def _recorded() -> None:
    """The kernel beside attention to all keys, as a GPU ran both."""
    found = recorded()
    problem, prompts = found.problem, found.prompts
    told = [
        f"{row['batch']} sequences of {row['seq_kv']:,} keys in {seconds_text(row['selected']['p50'])}, "
        f"{ratio_text(row['all']['p50'], row['selected']['p50'])} times as fast as over all keys"
        for row in found.decoded
    ]
    curves(
        f"**Recorded times over the length**, {found.origin}: a causal prompt, {problem['heads']} heads on "
        f"{problem['kv_heads']}, d {problem['head_dim']}, {problem['keys']:,} keys visited in blocks of 64",
        [row["seq_kv"] for row in prompts[1]],
        {
            "all keys": ([row["all"]["p50"] for row in prompts[1]], "muted"),
            "chosen by every query": ([row["selected"]["p50"] for row in prompts[1]], "k"),
            "chosen by 64 queries together": ([row["selected"]["p50"] for row in prompts[64]], "q"),
        },
        f"One query each: {'; '.join(told)}. The choice was drawn, and making it is not in these times.",
        **{"x": "tokens of a prompt", "y": "time", "told": seconds_text, "words": short},
    )


def counted() -> str:
    """How the numbers come about, in Markdown."""
    keys = 131_072
    dense, index, few = (scaled(each, "FLOP") for each in studies.dsa_flops(keys))
    rows = recorded().pieces
    sizes = ", ".join(f"{row['block_kv']}" for row in rows)
    times = ", ".join(seconds_text(row["selected"]["p50"]) for row in rows)
    return COUNTED.format(keys=keys, dense=dense, index=index, few=few, pieces=sizes, times=times)
