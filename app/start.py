"""The opening: why attention is slow, and the same work twice on one clock, as a GPU sampled it."""

from app.figures.units import bytes_text, digits, seconds_text
from app.hbm.payload import build
from engine.algorithms import flash2, standard
from engine.experiment import Experiment
from engine.studies.sampled_calls import SampledCall, sampled_calls

SENTENCE = (
    "Attention compares every token with every other. That makes two large matrices, the scores S and the "
    "weights P. Standard attention is slow because it stores them in the GPU's memory, HBM, and reads them "
    "back. FlashAttention cuts them into tiles small enough for the chip's processors, its SMs, and never "
    "stores them."
)
WORK = Experiment.of(algorithm=standard.ALGORITHM.key, seq=4096, head_dim=128)
RACE = (standard.ALGORITHM.key, flash2.ALGORITHM.key)


def race() -> list[SampledCall]:
    """The two calls."""
    return [call for call in sampled_calls(WORK) if call.row.provider in RACE and call.row.times]


def payload(calls: list[SampledCall]) -> bytes:
    """What the picture needs: both set out together."""
    return build(tuple(calls), plays=True)


def conclusion(calls: list[SampledCall]) -> str:
    """The two totals and their ratios, in one sentence."""
    moved = [call.row.read_bytes + call.row.written_bytes for call in calls]
    seconds = [call.row.times.p50 for call in calls]
    stored, fused = (
        f"{bytes_text(many)} through HBM in {seconds_text(long)}"
        for many, long in zip(moved, seconds, strict=True)
    )
    return (
        f"Standard attention moved {stored}; FlashAttention-2 moved {fused}: {digits(moved[0] / moved[1])} "
        f"times fewer bytes and {digits(seconds[0] / seconds[1])} times less time for the same result."
    )
