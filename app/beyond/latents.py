"""The picture of a latent: what is cached of one token, and where K and V of its heads come from."""

import numpy as np

from app.beyond import Frame, payload
from app.figures.units import bytes_text, digits, scaled, seconds_text
from engine.experiment import Experiment
from engine.problem.gpu import Gpu
from engine.studies.latents import ABSORBED, BYTES, DEEPSEEK, HEADS, PROJECTED, Sizes, cost

LINE, TOP, HIGH = 16, 0.42, 0.57  # heads in a row of the picture; where their cells are
QUERIES, ROW, FIRST = 5, 0.034, 0.195  # that are drawn, the height of one, and where the first is
GUIDE = {
    "cells": "one token's K (amber), its rotated numbers (pale) and V (green), a cell a head",
    "bar": "the token's latent and the rotated numbers that all heads share",
    "blue": f"queries of {QUERIES} of the heads",
}


def picture(experiment: Experiment) -> bytes:
    """The payload: cached of every head, as a latent, projected again, and absorbed."""
    sizes, keys, gpu = DEEPSEEK, experiment.problem.seq_kv, experiment.gpu
    wide = sizes.plain + sizes.rotary + sizes.v_dim
    cells = _cells(sizes, wide)
    area = cells[0, 2] * cells[0, 3] / sizes.plain  # of one number
    tall = 0.06
    small = area * sizes.latent / tall, area * sizes.rotary / tall
    full = 0.9 * sizes.latent / sizes.cached, 0.9 * sizes.rotary / sizes.cached
    rows = _rows(full[0] * sizes.plain / sizes.latent, full[1])
    tones = ["K", "statistics", "V"] * sizes.heads + ["K", "statistics"] + ["Q", "statistics"] * QUERIES
    cached, made, gone = (np.tile(each, sizes.heads) for each in ([0.95] * 3, [0.4, 0.1, 0.4], [0.05] * 3))
    bar, long = _bar(small, tall), _bar(full, tall)
    lifted = _rows(*full)
    frames = [
        _frame(HEADS, keys, gpu, sizes, (cells, cached), (bar, 0), (rows, 0.9)),
        _frame(ABSORBED, keys, gpu, sizes, (cells, gone), (bar, 0.95), (rows, 0.9), kept=True),
        _frame(PROJECTED, keys, gpu, sizes, (cells, made), (bar, 0.95), (rows, 0.9)),
        _frame(ABSORBED, keys, gpu, sizes, (cells, gone), (long, 0.95), (lifted, 0.9)),
    ]
    note = f"DeepSeek-V2's sizes, {keys:,} tokens, computed; seconds: {gpu.name}'s peaks"
    return payload("What is cached of a token", note, GUIDE, tones, frames)


def _cells(sizes: Sizes, wide: int) -> np.ndarray:
    """[3 heads, 4] K, its rotated numbers, and V of every head, as wide as they have numbers."""
    lines, found = -(-sizes.heads // LINE), []
    w, h = 0.96 / LINE, HIGH / lines
    for head in range(sizes.heads):
        x, y = head % LINE * w, TOP + head // LINE * h
        for numbers in (sizes.plain, sizes.rotary, sizes.v_dim):
            share = 0.88 * w * numbers / wide
            found.append((x, y, share, 0.78 * h))
            x += share
    return np.array(found)


def _bar(widths: tuple[float, float], tall: float) -> np.ndarray:
    latent, rotary = widths
    return np.array([(0, 0.06, latent, tall), (latent + 0.004, 0.06, rotary, tall)])


def _rows(plain: float, rotary: float) -> np.ndarray:
    """Queries below one another, each with its rotated numbers."""
    places = [FIRST + row * ROW for row in range(QUERIES) for _ in range(2)]
    lefts, widths = [0, plain + 0.004] * QUERIES, [plain, rotary] * QUERIES
    return np.array([lefts, places, widths, [0.7 * ROW] * 2 * QUERIES]).T


def _frame(way: str, keys: int, gpu: Gpu, sizes: Sizes, cells, bar, rows, kept: bool = False) -> Frame:
    """A frame of boxes with their strengths, and what a way costs."""
    drawn = (np.c_[each, np.broadcast_to(strong, len(each))] for each, strong in (cells, bar, rows))
    found, told = cost(way, 1, keys, sizes), _told(way, kept, sizes)
    facts = [
        ("cached of a token", f"{found.kept // BYTES:,} numbers", "K"),
        ("cached of all tokens", bytes_text(found.kept * keys), "K"),
    ]
    if not kept:
        facts += [
            ("read and written for a query", bytes_text(found.moved), "ink"),
            ("its FLOPs", scaled(found.flops, "FLOP"), "S"),
            ("FLOPs per byte", digits(found.flops / found.moved), "S"),
            ("a query, at best", seconds_text(found.seconds(gpu)), "O"),
        ]
    above = "cached of one token" if way == HEADS else f"latent of {sizes.latent}, {sizes.rotary} rotated"
    words = [
        (above, 0, 0.04, "ink", "left"),
        (f"queries of {QUERIES} of {sizes.heads} heads", 0, FIRST - 0.012, "Q", "left"),
    ]
    if way in (HEADS, PROJECTED):
        words.append((f"K and V of {sizes.heads} heads", 0, TOP - 0.012, "ink", "left"))
    return Frame(np.concatenate([*drawn]), told, facts, words)


def _told(way: str, kept: bool, sizes: Sizes) -> str:
    if way == HEADS:
        return (
            f"Each of {sizes.heads} heads keeps its own K and V of every token: {sizes.of_heads:,} numbers."
        )
    if kept:
        return (
            f"A latent of {sizes.latent} numbers is kept instead, and {sizes.rotary} that carry positions: "
            f"{sizes.of_heads / sizes.cached:.0f} times fewer numbers."
        )
    if way == PROJECTED:
        return "Projected: each call makes K and V of all cached tokens again, for many queries or for one."
    return (
        f"Absorbed: each query grows from {sizes.plain} to {sizes.latent} numbers, and the latent itself, "
        "drawn wider here, is K and V."
    )
