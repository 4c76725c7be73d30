"""The page On the GPU: which block ran on which SM and when, as modelled and as a GPU recorded it."""

from __future__ import annotations

from functools import lru_cache

import streamlit as st

from app import scenario
from app.gpu import on_the_gpu
from app.gpu.payload import build
from engine.experiment import Experiment
from engine.grid import default_order
from engine.scaled import watchable
from engine.simulated import simulate_timeline
from engine.timeline import HEAVY_FIRST, NATURAL

BOTH = "both"
ORDERS = {BOTH: "both orders", HEAVY_FIRST: "heaviest blocks first", NATURAL: "natural order"}


def show() -> None:
    """Draw the page."""
    experiment = scenario.current()
    drawn = watchable(experiment)
    on_the_gpu(_modelled(drawn, _orders(drawn)), key="gpu")


def _orders(experiment: Experiment) -> tuple[str, ...]:
    """The orders to show: a choice where the mask makes blocks unequal, else the only one there is."""
    if default_order(experiment) == NATURAL:
        return (NATURAL,)
    order = st.segmented_control(
        "Order of the blocks",
        list(ORDERS),
        format_func=ORDERS.get,
        default=BOTH,
        required=True,
        key="gpu_order",
        label_visibility="collapsed",
    )
    return (HEAVY_FIRST, NATURAL) if order == BOTH else (order,)


@lru_cache(maxsize=16)
def _modelled(experiment: Experiment, orders: tuple[str, ...]) -> bytes:
    return build([simulate_timeline(experiment, order) for order in orders])
