"""The page Beyond: latents, chosen keys, fewer bits and a state in place of a cache, each run on numbers."""

from collections.abc import Mapping
from functools import partial

import streamlit as st

from app import scenario
from app.elements import fold, numbers, own_one_of, placed, plot
from app.figures.curves import Curve, curves, each
from app.figures.units import (
    bytes_text,
    digits,
    power_text,
    ratio_text,
    scaled,
    seconds_text,
    share_text,
    short,
)
from app.gallery.picture import Drawn, Picture, SiteFile
from app.scenario import theme
from app.scenario.presentation import presenting
from app.scenario.presets import first
from app.shapes import BOXES
from app.shapes.topics import PICTURES
from app.sidebar.unused import unused
from engine.experiment import Experiment
from engine.problem.hardware import GPUS
from engine.studies import block_scales, latents, linear_attention, selected_keys
from engine.studies.beyond import BITS, KEYS, LATENTS, STATE, recorded
from engine.studies.survey import roofline

TITLES = {LATENTS: "Latents", KEYS: "Chosen keys", BITS: "Fewer bits", STATE: "A state"}
CHIP = GPUS["b200"]  # which has units for all formats of few bits
KINDS = ("numbers as they are", "a column of K far from 0", "outliers", "the small model's")
TIME = {"y": "time", "told": seconds_text}
TOKENS = {"x": "tokens of a prompt", "words": short}


def show() -> None:
    """Draw the topic that the link names."""
    unused("This page has algorithms of its own.", "algorithm", "splits", "block_q", "block_kv")
    with st.container(key="beyond_topics"):
        chosen = own_one_of("Topic", "topic", TITLES)
    TOPICS[chosen](scenario.current())


def _opened(topic: str, experiment: Experiment, headline: str) -> list:
    """The topic's headline and picture, and two columns below; in a room the picture comes first."""
    above = placed(presenting())
    st.header(headline, anchor=False)
    with above:
        BOXES.show(PICTURES[topic](experiment), key=f"beyond {topic}", title=TITLES[topic])
    return st.columns(2, gap="large")


def _curves(where, title: str, after: str, notice: str, lines: Mapping[str, Curve], **axes) -> None:
    """A chart of lines, which with its axes are as `curves` takes them."""
    plot(title, curves(lines, theme.colours(), **axes), notice, after=after, where=where)


def _latents(experiment: Experiment) -> None:
    """Time over the queries of a call, FLOPs per byte over the heads, what was recorded."""
    gpu, keys, sizes, studies = experiment.gpu, experiment.problem.seq_kv, latents.DEEPSEEK, latents
    left, right = _opened(
        LATENTS,
        experiment,
        f"One latent of {sizes.cached} numbers stands for K and V of {sizes.heads} heads. It takes the cache "
        f"of {digits(sizes.groups)} key heads of {studies.GROUPED_DIM}, and at best the time of "
        f"{digits(studies.groups_as_fast(gpu))} on an {gpu.name}.",
    )
    ways = {"K and V of all heads cached": (studies.HEADS, "muted")}
    ways |= {"latent, projected": (studies.PROJECTED, "v"), "latent, absorbed": (studies.ABSORBED, "q")}
    counts, at = studies.QUERIES, studies.projecting_pays_from(keys=keys)
    _curves(
        *(left, "Time of a call over its queries", f", {keys:,} tokens cached, at best, {gpu.name}"),
        f"From {digits(at)} queries on, projecting takes fewer FLOPs: a prompt is projected, and single "
        "tokens are decoded absorbed. Both keep the same cache.",
        each(ways, lambda way: {n: studies.cost(way, n, keys).seconds(gpu) for n in counts}),
        **{"x": "queries of a call", "ticks": counts[::3], "marked": {at: "dot"}, **TIME},
    )
    ways = {"latent, absorbed": (studies.ABSORBED, "q"), "8 key heads": (studies.GROUPS, "k")}
    ways["K and V of all heads"] = (studies.HEADS, "muted")
    _curves(
        *(right, "FLOPs per byte of the cache over the heads", ", decoding, computed"),
        "All heads read the same latent, so with many of them decoding waits for arithmetic and no "
        "longer for memory. With heads of their own each byte is used once.",
        each(ways, lambda way: {count: studies.per_byte(way, count) for count in studies.HEADS_DRAWN}),
        **{"x": "query heads", "y": "FLOPs per byte", "told": digits},
        levels={f"the {gpu.name} computes as long as it reads": roofline(gpu, "bfloat16").ridge},
    )
    found = recorded()
    told = "; ".join(
        f"{row['batch']} sequences of {row['seq_kv']:,} tokens: {seconds_text(row['latent']['p50'])} over "
        f"the latent, {seconds_text(row['grouped']['p50'])} over {found.problem['groups']} key heads"
        for row in found.latents
    )
    st.caption(
        f"**Recorded** ({found.origin}, this project's kernels, {found.problem['latent_heads']} heads, one "
        f"query each): {told}."
    )
    counted = lambda: st.markdown(COUNTED_LATENTS.format(off=share_text(studies.rotary_apart())))  # noqa: E731
    fold("beyond latents", counted)


COUNTED_LATENTS = """
Sizes are DeepSeek-V2's ([arXiv 2405.04434](https://arxiv.org/abs/2405.04434), section 2.1; V3 kept them).
Each way is run on drawn numbers in blocks, through a memory that counts: all three give what float64 gives.
What they share is left out of all: Q, the latent of the new token, the output's projection, the weights.
Seconds are at best, by the data sheet: bytes at the memory's peak or FLOPs at the tensor cores'.

The rotated numbers stand apart because a rotation by the token's position would stand between the two
matrices that absorbing makes into one: absorbed in spite of it, scores are off by up to {off} (computed).
"""


def _keys(experiment: Experiment) -> None:
    """The weight left out over the keys visited, keys read over the length, and recorded times."""
    studies, lengths = selected_keys, selected_keys.LENGTHS
    left, right = _opened(
        KEYS,
        experiment,
        f"A query that visits {studies.CHOSEN} chosen blocks of {studies.BLOCK} keys computes less from "
        f"{short(studies.crossing('scores'))} tokens on, but its tiles read less of L2 only from "
        f"{short(studies.crossing('read'))} on, as neighbours no longer share what they read.",
    )
    rules = {
        "window": (studies.WINDOW, "muted"),
        "blocks, by their means": (studies.MEANS, "k"),
        "blocks, the best": (studies.BEST, "o"),
        "tokens, by an indexer": (studies.INDEXER, "q"),
        "tokens, the best": (studies.TOKENS, "v"),
    }
    means, best, window = (studies.lost(None, rule) for rule in (studies.MEANS, studies.BEST, studies.WINDOW))
    quarter = sorted(means)[-3]
    of_text = (share_text(each[quarter]) for each in (means, best, window))
    _curves(
        *(left, "Weight left out over the keys that a query visits"),
        f", {'heads of a file' if studies.subject(experiment).real else 'drawn numbers'}, computed",
        "Best is what the weights themselves would choose, known only after all the work. On the heads of "
        f"this project's small model {quarter} of {max(means):,} keys leave out "
        "{} by means, {} at best, and {} as a window.".format(*of_text),
        each(rules, lambda rule: studies.lost(experiment, rule)),
        **{"x": "keys visited", "y": "share of the weight", "told": share_text, "linear": True},
    )
    ways = {"all keys": (studies.ALL, "muted"), "16 chosen blocks": (studies.BEST, "k")}
    ways["with NSA's other branches"] = (studies.MEANS, "q")
    _curves(
        *(right, "Keys that tiles read for a query", f", {studies.GROUP} heads on one key head, counted"),
        f"Attention reads a tile of keys once for {studies.TILE_ROWS} neighbouring queries of a head. "
        f"Neighbours choose differently: a tile has one query of {studies.GROUP} heads, which choose alike.",
        each(ways, lambda way: {n: studies.moved(way, n)["read"] for n in lengths}),
        **{"y": "keys read", "told": digits, "ticks": lengths[::2], **TOKENS},
    )
    found = recorded()
    problem, one, many = found.problem, found.prompts[1], found.prompts[64]
    times = {"all keys": ((one, "all"), "muted"), "chosen by every query": ((one, "selected"), "k")}
    times["chosen by 64 queries together"] = (many, "selected"), "q"
    told = "; ".join(
        f"{row['batch']} sequences of {row['seq_kv']:,} keys in {seconds_text(row['selected']['p50'])}, "
        f"{ratio_text(row['all']['p50'], row['selected']['p50'])} times as fast as over all keys"
        for row in found.decoded
    )
    _curves(
        *(st, "Recorded times over the length"),
        f", {found.origin}: a causal prompt, {problem['heads']} heads on {problem['kv_heads']}, "
        f"d {problem['head_dim']}, {problem['keys']:,} keys visited in blocks of 64",
        f"One query each: {told}. The choice was drawn, and making it is not in these times.",
        each(times, lambda of: {row["seq_kv"]: row[of[1]]["p50"] for row in of[0]}),
        **{**TOKENS, **TIME},
    )

    def counted() -> None:
        dense, index, few = (scaled(each, "FLOP") for each in studies.dsa_flops(131_072))
        sizes = ", ".join(f"{row['block_kv']}" for row in found.pieces)
        times = ", ".join(seconds_text(row["selected"]["p50"]) for row in found.pieces)
        told = COUNTED_KEYS.format(dense=dense, index=index, few=few, pieces=sizes, times=times)
        st.markdown(told)

    fold("beyond keys", counted)


COUNTED_KEYS = """
Weights and visited blocks are of the scenario's first key head, at most 2,048 keys, causal. The chosen
blocks are also run in tiles through a memory that counts; O is what float64 gives over the same keys.
Trained parts are stood in for, which changes what is left out and not what moves: the mean of a block for
NSA's compressed key ([arXiv 2502.11089](https://arxiv.org/abs/2502.11089)), a random projection in FP8 for
the indexer of DeepSeek Sparse Attention ([arXiv 2512.02556](https://arxiv.org/abs/2512.02556)).

DeepSeek's indexer still scores every key: in DeepSeek-V3.2 it takes {index} of the {dense} that attention
to 131,072 keys would take for a token, and attention to the 2,048 chosen ones {few} (computed).

Why blocks: chosen tokens lie apart, so that a tile is put together from as many addresses as it has keys.
The kernel here was recorded with the same number of keys in pieces of {pieces}: it took {times}.
"""


def _bits(experiment: Experiment) -> None:
    """Errors by scheme, over the block and over the tensor's magnitude, and what a chip would gain."""
    studies = block_scales
    eight, four = (
        share_text(studies.error(experiment, scheme, studies.DRAWN), 1)
        for scheme in (studies.MXFP8, studies.NVFP4)
    )
    (usual, exponentials), (fast, _) = (studies.tile_clocks(CHIP, n) for n in (1, studies.NVFP4.products))
    columns = _opened(
        BITS,
        experiment,
        f"Four bits make O {four} wrong where eight make it {eight}. On a B200 a tile's products take "
        f"{digits(fast)} clocks instead of {digits(usual)}, but its exponentials still "
        f"{digits(exponentials)} (modelled).",
    )
    shares = {"y": "error, share of K", "told": share_text, "linear": True}
    schemes = {one.name: (one, tone) for one, tone in ((studies.SINGLE, "o"), (studies.NVFP4, "q"))}
    levels = {"scale in E4M3, two levels": ("two levels", "q"), "scale a power of two": ("e8m0", "k")}
    _curves(
        *(columns[0], "Error of K over the block that shares a scale", ", E2M1, outliers, computed"),
        "Smaller blocks keep an outlier from more numbers, and cost more bits for their scales.",
        each(levels, partial(studies.by_size, experiment)),
        **{"x": "numbers in a block", **shares},
    )
    _curves(
        *(columns[1], "Error of K over its magnitude", ", with one level of scales and with two, computed"),
        "A scale in E4M3 reaches from 2⁻⁹ to 448 and no further: below it is 0, above it is cut. The "
        "float32 of the second level brings every tensor into that range.",
        each(schemes, partial(studies.by_magnitude, experiment)),
        **{"x": "K times", "words": partial(power_text, places=0), **shares},
        ticks=studies.MAGNITUDES[::3],
    )
    rows = [
        {
            "kept as": scheme.name,
            "bits": digits(scheme.bits),
            **{
                told: share_text(studies.error(experiment, scheme, kind), 1)
                for told, kind in zip(KINDS, studies.KINDS, strict=True)
            },
            "products, B200": f"{scheme.products} ×" + ", Q Kᵀ alone" * (not scheme.all),
        }
        for scheme in studies.SCHEMES
    ]
    st.markdown("**Error of O**, computed; bits of a number with its share of the scale, d 128")
    numbers(rows, "Errors by scheme", words=(0, 6))
    far, kept = (
        share_text(studies.error(experiment, each, studies.SHIFTED), 1)
        for each in (studies.SCHEMES[2], studies.SMOOTH)
    )
    st.caption(
        f"A column of K that is far from 0 in every token takes the scale for itself: {far} in INT8. Less "
        f"the mean of its tokens K loses it, {kept}, and the softmax does not change."
    )
    told = COUNTED_BITS.format(rows=studies.ROWS, exponentials=digits(exponentials))
    fold("beyond bits", lambda: st.markdown(told))


COUNTED_BITS = """
Every number is rounded in NumPy as the formats define it, and attention is run a block of keys at a time,
products and sums in float64, with the operands of each product rounded before it. Errors are the root mean
square of the difference to float64 over that of O, of {rows} queries of the first head.

MXFP8 and MXFP4 are the OCP Microscaling formats 1.0, whose rule for the scale lets a block's largest number
be up to a seventh larger than E4M3's largest and a third larger than E2M1's: it is cut off. NVFP4 is as
NVIDIA states it. INT8 is SageAttention's first version ([arXiv
2410.02367](https://arxiv.org/abs/2410.02367), whose second, [2411.10958](https://arxiv.org/abs/2411.10958),
goes on to four bits).

Rates are a B200's by its data sheet, and modelled: nothing of this was measured here. An H200 has units for
E4M3 and INT8 alone. Exponentials stay {exponentials} clocks of an SM for a tile of 128 × 128 scores.
"""


def _state(experiment: Experiment) -> None:
    """Time over the tokens of prompts and of decoding, and what is given back over what is stored."""
    gpu, studies, lengths = experiment.gpu, linear_attention, linear_attention.LENGTHS
    group, dim = studies.GROUP, studies.HEAD_DIM
    left, right = _opened(
        STATE,
        experiment,
        f"Linear attention keeps a state of {bytes_text(studies.decoded(1, True).kept)} for each head, "
        f"however many tokens came before. It decodes faster from {studies.meets(gpu, 1):,} tokens of cache "
        f"on, or {studies.meets(gpu, group):,} that {group} heads share (at best, {gpu.name}, modelled).",
    )
    costs = {
        "softmax, a prompt": (lambda n: studies.prompt(n, False), "s"),
        "linear, a prompt": (lambda n: studies.prompt(n, True), "k"),
        "softmax, next token": (lambda n: studies.decoded(n, False, group), "s", "dot"),
        "linear, next token": (lambda n: studies.decoded(n, True), "k", "dot"),
    }
    _curves(
        *(left, "Time of one head over the tokens", f", at best, {gpu.name}, modelled"),
        f"A prompt takes less from {studies.meets(gpu):,} tokens on; below, both wait for Q, K, V and O. "
        f"The next token's cache is shared by {group} heads; a state is each head's own.",
        each(costs, lambda cost: {n: cost(n).seconds(gpu) for n in lengths}),
        **{"x": "tokens", "words": short, "ticks": lengths[::2], **TIME},
    )
    found = studies.recalled()
    off = share_text(found["state"][dim])
    _curves(
        *(right, "How wrong a stored value comes back", f", d {dim}, drawn keys, computed"),
        f"This is where they do not meet: with {dim} random keys in {dim} × {dim} numbers "
        f"a value comes back {off} wrong, while a softmax over the cache still picks its key.",
        each({"state": ("state", "k"), "attention": ("attention", "s")}, found.get),
        **{"x": "keys stored", "y": "error, share of the value", "told": share_text, "words": short},
        linear=True,
    )
    fold("beyond state", lambda: st.markdown(COUNTED_STATE.format(dim=dim)))


COUNTED_STATE = """
The state takes S = g S + k vᵀ with each token and gives o = Sᵀ q; g is a gate, one number here, as in
Mamba-2 ([arXiv 2405.21060](https://arxiv.org/abs/2405.21060)); Gated Linear Attention
([2312.06635](https://arxiv.org/abs/2312.06635)) has one for each column, and Gated DeltaNet
([2412.06464](https://arxiv.org/abs/2412.06464)) first takes out what S holds for the same key. The schedule
in chunks is run on drawn numbers through a memory that counts, and gives what the recurrence gives.

Seconds are at best, by the data sheet, of one head of {dim} in bfloat16 with its state in float32, without
the projections that make Q, K, V and the gates. No kernel of this project computes it.
"""
TOPICS = {LATENTS: _latents, KEYS: _keys, BITS: _bits, STATE: _state}


def _drawn(experiment: Experiment, topic: str = LATENTS) -> Drawn:
    return Drawn(moving=BOXES, data=PICTURES[topic](experiment), title=TITLES[topic])


def _files() -> list[SiteFile]:
    opened = first("beyond")
    return [
        SiteFile(f"beyond-{key}.html", title, "Computed.", partial(_drawn, opened, key))
        for key, title in TITLES.items()
    ]


PICTURE = Picture(_drawn, several=_files)
