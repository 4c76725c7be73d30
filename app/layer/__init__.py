"""A layer's time as one bar, and attention's slice of it, before and after, while the prompt grows."""

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from app.canvas.moving import Played
from app.canvas.pack import pack
from app.figures.units import seconds_text, share_text
from engine.experiment import Experiment
from engine.layers.config import shipped
from engine.studies.your_model import PROMPTS, TAUGHT, LayerTime, layer_time

LAYER = Played("attention_in_a_layer", Path(__file__).with_name("layer.js"), "Attention's slice of a layer")


def taught(experiment: Experiment) -> bytes:
    """The payload of the lecture's model on a scenario's GPU, opened at its length."""
    model, key = shipped(TAUGHT), experiment.hardware
    note = f"{TAUGHT.replace('-', ' ').title()}, a prompt, {experiment.gpu.name}, modelled"
    first = min(bisect_left(PROMPTS, experiment.problem.seq_kv), len(PROMPTS) - 1)
    return payload([layer_time(model, tokens, key) for tokens in PROMPTS], note, first)


def payload(times: Sequence[LayerTime], note: str, first: int = 0) -> bytes:
    """The payload of one layer, a frame for each length, opened at one; the note says whose they are."""
    frames = []
    for at in times:
        before, after = (share_text(share) for share in at.shares)
        told = (
            f"At {at.tokens:,} tokens {at.label} makes attention {at.attention_gain:.1f} times as fast, and "
            f"the layer {at.gain:.2f} times, as attention was {before} of its time."
        )
        told += "" if at.fits else " Standard attention would no longer fit into this GPU's memory."
        facts = [
            ["tokens", f"{at.tokens:,}", "ink"],
            ["attention's share", f"{before} → {after}", "S"],
            ["attention, times as fast", f"{at.attention_gain:.1f}", "S"],
            ["the layer, times as fast", f"{at.gain:.2f}", "O"],
        ]
        seconds = {"rest": at.rest, "standard": at.standard, "fast": at.fast}
        words = [str(seconds_text(at.rest + each)) for each in (at.standard, at.fast)]
        frames.append(
            {"sentence": told, "facts": facts, "fits": at.fits, "mark": at.tokens, "words": words} | seconds
        )
    names = ["standard attention", times[0].label]
    return pack({"frames": frames, "note": note, "names": names, "first": first}, {})
