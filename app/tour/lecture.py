"""The lecture's own pictures: four tokens by hand, and what no other page draws."""

from collections.abc import Callable

import streamlit as st

from app import bridge, layer, memory, rescale, warps, zoom
from app.bridge import BRIDGE
from app.figures import by_hand as hands
from app.figures import lecture as figures
from app.figures import masks as mask_figures
from app.figures.algorithms import implementation
from app.figures.colours import Palette
from app.layer import LAYER
from app.rescale import RESCALE
from app.square import SQUARE, cutting, growing
from app.tour.file import PICTURES, Picture
from app.warps import SHARING
from app.zoom import ZOOM
from engine.experiment import Experiment
from engine.studies.answers import recorded_times
from engine.studies.by_hand import ByHand, by_hand
from engine.studies.masks import under_masks
from engine.studies.rescales import example, with_threshold
from engine.studies.survey import cuts, grown

IN_RACE = ("eager", "standard", "flash2", "flash3")
LINKS = """
**Read** FlashAttention [1](https://arxiv.org/abs/2205.14135),
[2](https://arxiv.org/abs/2307.08691), [3](https://arxiv.org/abs/2407.08608),
[online softmax](https://arxiv.org/abs/1805.02867); **watch** [tiles](tiles), [softmax](softmax),
[backward](backward), [decoding](decoding); **measure** [bytes](traffic), [times](speed),
[blocks on SMs](gpu), [claims](claims)
"""


def _html(words: str, draw: Callable[[Palette], str]) -> Picture:
    """A picture in HTML below one line that says what it is."""

    def picture(experiment: Experiment, colours: Palette) -> None:
        st.markdown(words)
        st.html(draw(colours))

    return picture


def _hand(draw: Callable[[ByHand, Palette], str], words: str = "**Four tokens by hand**, d = 2") -> Picture:
    return _html(f"{words}, computed", lambda colours: draw(by_hand(), colours))


def _hierarchy(experiment: Experiment, colours: Palette) -> None:
    st.markdown(f"**The memories of the {experiment.gpu.name}**, by its data sheet")
    memory.show(experiment.gpu, key="tour memories")


def _squares(payload: Callable[[Experiment], bytes]) -> Picture:
    return lambda experiment, _: SQUARE.show(payload(experiment), key="tour square")


def _grid(experiment: Experiment, colours: Palette) -> None:
    own = next(one for one in under_masks(experiment) if one.own)
    panel = mask_figures.Panel("S in tiles", "queries downwards, keys to the right", own.density)
    st.html(mask_figures.multiples([panel], experiment.problem, colours))


def _lanes(experiment: Experiment, colours: Palette) -> None:
    """A lane for each algorithm whose time was recorded, below what the times are of, when and where."""
    times = recorded_times(experiment.problem, experiment.hardware)
    st.markdown(f"**The race**, {times.origin}")
    st.html(
        figures.lanes([implementation({"provider": n, "label": n}) for n in IN_RACE if n in times.seconds])
    )


PIECES = "**The first row, two scores at a time**"
PICTURES |= {
    "by hand": _hand(hands.whole),
    "first tile": _hand(hands.first_piece, PIECES),
    "rescale": lambda *_: RESCALE.show(rescale.payload(example()), key="tour rescale"),
    "real head": lambda experiment, _: RESCALE.show(rescale.row_of_head(experiment)[2], key="tour head"),
    "threshold": lambda *_: RESCALE.show(rescale.payload(with_threshold()), key="tour threshold"),
    "tiles by hand": _hand(hands.tiled),
    "weights by hand": _hand(hands.weights),
    "hierarchy": _hierarchy,
    "square": _squares(lambda experiment: growing(grown(experiment))),
    "cut": _squares(lambda experiment: cutting(cuts(experiment))),
    "tile grid": _grid,
    "loops": _html(
        "**What each version does**; bold: to memory and back", lambda _: figures.STYLE + figures.LOOPS
    ),
    "zoom": lambda experiment, _: ZOOM.show(zoom.payload(experiment), key="tour zoom"),
    "warps": lambda experiment, _: SHARING.show(warps.payload(experiment), key="tour warps"),
    "one query": lambda experiment, colours: st.html(figures.one_query(experiment.problem.seq_kv, colours)),
    "layer": _html("**A transformer layer**, in order", figures.layer),
    "slice": lambda experiment, _: LAYER.show(layer.taught(experiment), key="tour layer"),
    "lanes": _lanes,
    "bridge": lambda experiment, _: BRIDGE.show(bridge.payload(experiment), key="tour bridge"),
    "summary": lambda *_: st.markdown(LINKS),
}
