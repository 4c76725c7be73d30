"""The pictures of a tour's steps: a part of another page each, for the scenario on the screen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from app import hbm, scenario, sketch
from app.across import ACROSS
from app.across.payload import build as ring
from app.beyond import BOXES
from app.beyond.topics import PICTURES as BEYOND
from app.figures.colours import Palette
from app.figures.units import share_text
from app.gpu import REPLAY
from app.gpu.payload import build as replay
from app.inside import INSIDE, payload
from app.player import PLAYER, backward
from app.player.payload import begun, build
from app.room import screen
from app.tour.file import DRAWN, PICTURES
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.model.cluster.lanes import lanes
from engine.model.launch import NATURAL
from engine.model.simulated_timeline import simulate_timeline
from engine.studies import tensor_memory as blackwell
from engine.studies.beyond import BITS, KEYS, LATENTS, STATE
from engine.studies.drawable import watchable
from engine.studies.several_gpus import taught
from engine.studies.warp_groups import inside as lanes_of
from engine.trace.broken import ALPHA

# those that take the screen once the answer is told
WIDE = {
    *("latents", "chosen keys", "fewer bits", "state"),
    *("rescale", "player", "broken", "backward", "square", "cut", "hbm both", "bridge"),
    *("loops swapped", "split keys", "warps", "slice", "orders", "zoom", "inside"),
    *("time drawn", "order drawn"),
    *("blackwell", "threshold", "real head"),
}


TOPICS = {"latents": LATENTS, "chosen keys": KEYS, "fewer bits": BITS, "state": STATE}


def _player(payload: Callable[[Experiment], bytes], experiment: Experiment, _: Palette, **begin) -> None:
    PLAYER.show(begun(payload(experiment), **begin), key=f"tour {scenario.place('step')}")


def _inside(overlapped: bool, experiment: Experiment, colours: Palette) -> None:
    block = lanes_of(experiment, replace(flash3.ALGORITHM.pipeline, overlapped=overlapped))
    st.markdown(
        f"**{'Overlapped' if overlapped else 'In turns'}**, modelled: tensor cores at work "
        f"{share_text(block.tensor_busy)} of the time, softmax units {share_text(block.softmax_busy)}"
    )
    INSIDE.show(payload(block), key=f"tour inside {overlapped}")


def _blackwell(without: frozenset[str], experiment: Experiment, colours: Palette) -> None:
    """A block of FlashAttention-4, with some of its techniques left out."""
    found = blackwell.variant(experiment, blackwell.ALL - without)
    off = " and ".join(blackwell.TECHNIQUES[key].name.lower() for key in sorted(without))
    st.markdown(
        f"**FlashAttention-4{f' without {off}' * bool(off)}**, {found.block.experiment.gpu.name}, modelled: "
        f"tensor cores at work {share_text(found.block.tensor_busy)} of the time, exponentials "
        f"{share_text(found.block.softmax_busy)}"
    )
    INSIDE.show(payload(found.block), key=f"tour blackwell {off}")


def _on_sms(names: Sequence[str], experiment: Experiment, colours: Palette) -> None:
    """Blocks of two algorithms on SMs, on one clock."""
    both = (watchable(experiment.changed(algorithm=name)) for name in names)
    REPLAY.show(replay([simulate_timeline(one, NATURAL) for one in both]), key=f"tour {names[0]}")


def _ring(orders: Sequence[bool], experiment: Experiment, colours: Palette) -> None:
    """GPUs in a ring over time, in plain order, in zigzag order, or in both."""
    runs = [lanes(taught(experiment, zigzag)) for zigzag in orders]
    ACROSS.show(ring(runs), key=f"tour ring {len(runs)}")


def _drawn(told: Callable[..., dict[str, Any]], experiment: Experiment, colours: Palette) -> None:
    """The truth among what the room has drawn."""
    sketch.SKETCH.show(told(experiment, screen.curves()), key="tour sketch told")


def _beyond(topic: str, experiment: Experiment, colours: Palette) -> None:
    """One of the pictures of what came after FlashAttention-3."""
    BOXES.show(BEYOND[topic](experiment), key=f"tour {topic}")


DRAWN |= {"draw time", "draw order"}
PICTURES |= {
    "draw time": lambda *_: sketch.SKETCH.show(sketch.asked(), key="tour sketch"),
    "time drawn": partial(_drawn, sketch.told),
    "draw order": lambda experiment, _: sketch.SKETCH.show(sketch.way_asked(experiment), key="tour sketch"),
    "order drawn": partial(_drawn, sketch.way_told),
    "player": partial(_player, build),
    "broken": partial(_player, build, flaw=ALPHA),
    "backward": partial(_player, backward.build),
    "hbm standard": partial(hbm.show, only=("standard",)),
    "hbm both": partial(hbm.show, only=("standard", "flash2")),
    "in turns": partial(_inside, False),
    "inside": partial(_inside, True),
    "blackwell": partial(_blackwell, frozenset()),
    "one tile": partial(_blackwell, frozenset({"tiles"})),
    "no polynomials": partial(_blackwell, frozenset({"polynomials"})),
    "loops swapped": partial(_on_sms, ("flash1", "flash2")),
    "split keys": partial(_on_sms, ("flash2", "split_kv")),
    **{name: partial(_beyond, topic) for name, topic in TOPICS.items()},
    "ring": partial(_ring, [False]),
    "orders": partial(_ring, [False, True]),
}
