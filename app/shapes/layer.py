"""A layer's time as one bar, and attention's slice of it, before and after, while the prompt grows."""

from bisect import bisect_left
from collections.abc import Sequence

from app.canvas.moving import Played
from app.figures.units import seconds_text, share_text
from app.shapes import SCRIPT, Frame, payload
from engine.experiment import Experiment
from engine.layers.config import shipped
from engine.studies.your_model import PROMPTS, TAUGHT, LayerTime, layer_time

LAYER = Played("attention_in_a_layer", SCRIPT, "Attention's slice of a layer")
LEFT, WIDE, TOP, HIGH = 0.13, 0.82, 0.57, 0.36  # of the picture: where the curves are
THIN = 0.002


def taught(experiment: Experiment) -> bytes:
    """The payload of the lecture's model on a scenario's GPU, opened at its length."""
    model, key = shipped(TAUGHT), experiment.hardware
    note = f"{TAUGHT.replace('-', ' ').title()}, a prompt, {experiment.gpu.name}, modelled"
    first = min(bisect_left(PROMPTS, experiment.problem.seq_kv), len(PROMPTS) - 1)
    return of_times([layer_time(model, tokens, key) for tokens in PROMPTS], note, first)


def of_times(times: Sequence[LayerTime], note: str, first: int = 0) -> bytes:
    """The payload of one layer, a frame for each length, opened at one; the note says whose they are."""
    xs = [LEFT + WIDE * n / (len(times) - 1) for n in range(len(times))]
    shares = [[level(share) for share in at.shares] for at in times]
    names, every = ("standard attention", times[0].label), -(-len(times) // 6)
    half = next((n for n, at in enumerate(times) if at.shares[0] > 0.5), len(times) - 1)
    fixed = [
        ("Attention's share of the layer's time", 0, TOP - 0.04, "ink"),
        *((f"{share:.0%}", LEFT - 0.01, level(share) + 0.01, "muted", "right") for share in (0, 0.5, 1)),
        *(
            (_short(at.tokens), x, 0.995, "muted", "center")
            for at, x in [*zip(times, xs, strict=True)][::every]
        ),
        (names[0], xs[half] - 0.02, level(0.56), "muted", "right"),
        (names[1], LEFT + WIDE, level(0.06), "S", "right"),
    ]
    frames = []
    for at, x, levels in zip(times, xs, shares, strict=True):
        before, after = (share_text(share) for share in at.shares)
        told = (
            f"At {at.tokens:,} tokens {at.label} makes attention {at.attention_gain:.1f} times as fast, and "
            f"the layer {at.gain:.2f} times, as attention was {before} of its time."
        )
        told += "" if at.fits else " Standard attention would no longer fit into this GPU's memory."
        facts = [
            ("tokens", f"{at.tokens:,}", "ink"),
            ("attention's share", f"{before} → {after}", "S"),
            ("attention, times as fast", f"{at.attention_gain:.1f}", "S"),
            ("the layer, times as fast", f"{at.gain:.2f}", "O"),
        ]
        boxes, words = [(LEFT, level(share), WIDE, THIN, 1) for share in (0, 0.5, 1)], list(fixed)
        whole = at.rest + max(at.standard, at.fast)
        for n, own in enumerate((at.standard, at.fast)):
            top, rest, wide = 0.09 + 0.2 * n, at.rest / whole, own / whole
            boxes += [(0, top, rest, 0.11, 0.45), (rest + 0.003, top, wide - 0.003, 0.11, 1)]
            words.append((f"{names[n]}: {seconds_text(at.rest + own)}", 0, top - 0.02, "ink"))
            inside = (
                ("all the rest", rest / 2, rest),
                (("attention", "attention: does not fit")[not n and not at.fits], rest + wide / 2, wide),
            )
            words += [
                (name, place, top + 0.065, "ink", "center") for name, place, room in inside if room > 0.2
            ]
        boxes.append((x - THIN / 2, TOP, THIN, HIGH, 1))
        boxes += [(x - 0.008, y - 0.01, 0.016, 0.02, 1) for y in levels]
        frames.append(Frame(boxes, told, facts, words))
    tones = ["line"] * 3 + ["muted", "S"] * 2 + ["ink", "muted", "S"]
    lines = [
        (tone, [*zip(xs, ys, strict=True)])
        for tone, ys in zip(("muted", "S"), zip(*shares, strict=True), strict=True)
    ]
    return payload(LAYER.title, note, tones, frames, wide=True, opaque=True, lines=lines, first=first)


def level(share: float) -> float:
    """Where a share of the time stands."""
    return TOP + HIGH * (1 - share)


def _short(tokens: int) -> str:
    return f"{tokens}" if tokens < 1024 else f"{tokens // 1024}k"
