"""Scenarios to begin a talk with."""

from functools import cache
from urllib.parse import parse_qsl

from engine.experiment import Experiment
from engine.watch.labs import DEFAULTS

PRESETS = {  # by name, what a link to each holds
    "The 4096-token example": "seq=4096&head_dim=128&block_q=128&causal=true",
    "Long context": "seq=131072&head_dim=128&heads=32&kv_heads=8&block_q=128&dtype=bfloat16&causal=true",
    "Decoding, 65,536 keys": "seq=1&seq_kv=65536&head_dim=128&heads=32&kv_heads=8&causal=true",
    "Tiny, to count by hand": "seq=64&head_dim=16&heads=1&block_q=16&block_kv=16&dtype=float32",
}


@cache
def preset(name: str) -> Experiment:
    """The experiment of a preset; raises KeyError."""
    return Experiment.of(**dict(parse_qsl(PRESETS[name])))


# what a page shows until the reader has chosen a scenario; on the others it is the usual one
TINY = preset("Tiny, to count by hand")
FIRST = {
    **{"tiles": TINY, "softmax": TINY, "decoding": preset("Decoding, 65,536 keys")},
    "kernel": Experiment.of(**DEFAULTS),
    "beyond": Experiment.of(seq=32_768, heads=16, kv_heads=4, head_dim=128, causal=True),
}


def first(page: str) -> Experiment:
    """The experiment that a page opens with where neither a link nor the reader has said which."""
    return FIRST.get(page, Experiment())
