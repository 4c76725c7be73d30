"""The pictures of a tour's steps: by hand, or a part of another page, for the scenario on the screen."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from app import hbm, rescale, scenario, sketch, zoom
from app.across import ACROSS
from app.across.payload import build as ring
from app.canvas.moving import Moving
from app.figures import lecture as figures
from app.figures import masks as mask_figures
from app.figures.algorithms import implementation
from app.figures.colours import Palette
from app.figures.memories import memories
from app.figures.units import share_text
from app.gpu import REPLAY
from app.gpu.payload import build as replay
from app.inside import INSIDE, payload
from app.player import PLAYER, backward
from app.player.payload import begun, build
from app.room import screen
from app.shapes import BOXES, bridge, layer, warps
from app.shapes.square import SQUARE, cutting, growing
from app.shapes.topics import PICTURES as BEYOND
from app.tour.file import DRAWN, PICTURES
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.model.cluster.lanes import lanes
from engine.model.launch import NATURAL
from engine.model.simulated_timeline import simulate_timeline
from engine.studies import tensor_memory as blackwell
from engine.studies.answers import recorded_times
from engine.studies.beyond import BITS, KEYS, LATENTS, STATE
from engine.studies.by_hand import by_hand
from engine.studies.drawable import watchable
from engine.studies.masks import under_masks
from engine.studies.rescales import example, with_threshold
from engine.studies.several_gpus import taught
from engine.studies.survey import cuts, grown
from engine.studies.warp_groups import Inside
from engine.studies.warp_groups import inside as lanes_of
from engine.trace.rows import ALPHA

IN_RACE = ("eager", "standard", "flash2", "flash3")
LINKS = """
**Read** FlashAttention [1](https://arxiv.org/abs/2205.14135),
[2](https://arxiv.org/abs/2307.08691), [3](https://arxiv.org/abs/2407.08608),
[online softmax](https://arxiv.org/abs/1805.02867); **watch** [tiles](tiles), [softmax](softmax),
[backward](backward), [decoding](decoding); **measure** [bytes](traffic), [times](speed),
[blocks on SMs](gpu), [claims](claims)
"""


def _html(words: str, draw: Callable[[Experiment, Palette], str], experiment: Experiment, colours: Palette):
    """A picture in HTML below one line that says what it is, if any."""
    if words:
        st.markdown(words)
    st.html(draw(experiment, colours))


def _grid(experiment: Experiment, colours: Palette) -> str:
    own = next(one for one in under_masks(experiment) if one.own)
    panel = mask_figures.Panel("S in tiles", "queries downwards, keys to the right", own.density)
    return mask_figures.multiples([panel], experiment.problem, colours)


def _lanes(experiment: Experiment, colours: Palette) -> None:
    """A lane for each algorithm whose time was recorded, below what the times are of, when and where."""
    origin, times = recorded_times(experiment.problem, experiment.hardware)
    there = (name for name in IN_RACE if times.get(name))
    st.markdown(f"**The race**, {origin}")
    st.html(figures.lanes([implementation({"provider": name, "label": name}) for name in there]))


def _hierarchy(experiment: Experiment, colours: Palette) -> None:
    st.markdown(f"**The memories of the {experiment.gpu.name}**, by its data sheet")
    st.html(memories(experiment.gpu, colours))


def _moving(name: str, shown: Moving, data: Callable[[Experiment], Any], experiment: Experiment, _: Palette):
    """What moves: by its step and name it is another than that of the step before."""
    shown.show(data(experiment), key=f"tour {scenario.place('step')} {name}")


def _inside(overlapped: bool, experiment: Experiment, colours: Palette) -> None:
    block = lanes_of(experiment, replace(flash3.ALGORITHM.pipeline, overlapped=overlapped))
    _block("Overlapped" if overlapped else "In turns", block)


def _blackwell(without: frozenset[str], experiment: Experiment, colours: Palette) -> None:
    """A block of FlashAttention-4, with some of its techniques left out."""
    block = blackwell.variant(experiment, blackwell.ALL - without).block
    off = " and ".join(blackwell.TECHNIQUES[key].name.lower() for key in sorted(without))
    _block(f"FlashAttention-4{f' without {off}' * bool(off)}, {block.experiment.gpu.name}", block)


def _block(name: str, block: Inside) -> None:
    """One thread block over time, below what it is and how busy its units are."""
    st.markdown(
        f"**{name}**, modelled: tensor cores at work {share_text(block.tensor_busy)} of the time, "
        f"exponentials {share_text(block.softmax_busy)}"
    )
    INSIDE.show(payload(block), key=f"tour inside {name}")


def _on_sms(*names: str) -> Callable[[Experiment], bytes]:
    """Blocks of two algorithms on SMs, on one clock."""
    return lambda experiment: replay(
        [simulate_timeline(watchable(experiment.changed(algorithm=name)), NATURAL) for name in names]
    )


def _ring(*orders: bool) -> Callable[[Experiment], bytes]:
    """GPUs in a ring over time, in plain order, in zigzag order, or in both."""
    return lambda experiment: ring([lanes(taught(experiment, zigzag)) for zigzag in orders])


BY_HAND = "**Four tokens by hand**, d = 2, computed"
STILL = {  # one line, and HTML
    "by hand": (BY_HAND, lambda _, colours: figures.whole(by_hand(), colours)),
    "tiles by hand": (BY_HAND, lambda _, colours: figures.tiled(by_hand(), colours)),
    "weights by hand": (BY_HAND, lambda _, colours: figures.weights(by_hand(), colours)),
    "first tile": (
        "**The first row, two scores at a time**, computed",
        lambda _, colours: figures.first_piece(by_hand(), colours),
    ),
    "tile grid": ("", _grid),
    "loops": (
        "**What each version does**; bold: to memory and back",
        lambda *_: figures.LOOPS,
    ),
    "one query": ("", lambda one, colours: figures.one_query(one.problem.seq_kv, colours)),
    "layer": ("**A transformer layer**, in order", lambda _, colours: figures.layer(colours)),
}
MOVING = {  # what moves, and what makes its data
    "rescale": (rescale.RESCALE, lambda _: rescale.payload(example())),
    "real head": (rescale.RESCALE, lambda one: rescale.row_of_head(one)[2]),
    "threshold": (rescale.RESCALE, lambda _: rescale.payload(with_threshold())),
    "square": (SQUARE, lambda one: growing(grown(one))),
    "cut": (SQUARE, lambda one: cutting(cuts(one))),
    "zoom": (zoom.ZOOM, zoom.payload),
    "warps": (warps.SHARING, warps.payload),
    "slice": (layer.LAYER, layer.taught),
    "bridge": (bridge.BRIDGE, bridge.payload),
    "draw time": (sketch.SKETCH, lambda _: sketch.asked()),
    "time drawn": (sketch.SKETCH, lambda one: sketch.told(one, screen.curves())),
    "draw order": (sketch.SKETCH, sketch.way_asked),
    "order drawn": (sketch.SKETCH, lambda one: sketch.way_told(one, screen.curves())),
    "player": (PLAYER, lambda one: begun(build(one))),
    "broken": (PLAYER, lambda one: begun(build(one), flaw=ALPHA)),
    "backward": (PLAYER, lambda one: begun(backward.build(one))),
    "loops swapped": (REPLAY, _on_sms("flash1", "flash2")),
    "split keys": (REPLAY, _on_sms("flash2", "split_kv")),
    "latents": (BOXES, BEYOND[LATENTS]),
    "chosen keys": (BOXES, BEYOND[KEYS]),
    "fewer bits": (BOXES, BEYOND[BITS]),
    "state": (BOXES, BEYOND[STATE]),
    "ring": (ACROSS, _ring(False)),
    "orders": (ACROSS, _ring(False, True)),
}
WORDED = {  # what moves below words of its own
    "hbm standard": partial(hbm.show, only=("standard",)),
    "hbm both": partial(hbm.show, only=("standard", "flash2")),
    "in turns": partial(_inside, False),
    "inside": partial(_inside, True),
    "blackwell": partial(_blackwell, frozenset()),
    "one tile": partial(_blackwell, frozenset({"tiles"})),
    "no polynomials": partial(_blackwell, frozenset({"polynomials"})),
}
DRAWN |= {"draw time", "draw order"}
PICTURES |= {
    **{name: partial(_html, *still) for name, still in STILL.items()},
    **{name: partial(_moving, name, *moving) for name, moving in MOVING.items()},
    **WORDED,
    **{"hierarchy": _hierarchy, "lanes": _lanes, "summary": lambda *_: st.markdown(LINKS)},
}
