"""One zoom from a layer to one of its scores: head, tile, warp, and the products that add up to it."""

from math import ceil, sqrt
from pathlib import Path

import numpy as np

from app.canvas.moving import Played
from app.canvas.pack import pack
from app.figures.units import bytes_text, chip_bytes_text, counted, number_text
from engine.experiment import Experiment
from engine.schedule.step import Tensor
from engine.studies.zoom import DEPTHS, Zoom, zoom

ZOOM = Played("from_layer_to_score", Path(__file__).with_name("zoom.js"), "From a layer to one score")
FLAT, TALL = 0.35, 1.3  # the least and the most height of what fills the picture, of its width
NEXT = 1.12  # widths of a head from one to the next


def payload(asked: Experiment, depth: int | None = None) -> bytes:
    """The payload of one scenario's zoom, opened at a depth; with one, its page hears of every other."""
    found = zoom(asked)
    problem, schedule = found.experiment.problem, found.run.schedule
    lowest, highest = _ends(found.scores)
    strength = np.where(np.isneginf(found.scores), 0, 55 + 200 * (found.scores - lowest) / (highest - lowest))
    header = {
        "frames": _frames(found),
        "note": _whose(asked, found),
        "levels": _levels(found),
        "heads": problem.heads,
        "columns": _columns(found),
        "next": NEXT,
        "blocks": [len(schedule.query_rows), len(schedule.key_rows)],
        "tile": found.tile,
        "within": found.scores.shape,
        "pieces": found.pieces.tolist(),
        "scale": problem.scale,
        "score": found.score,
        "depth": depth,
    }
    bounds = {
        name: getattr(schedule.bounds, name).astype(np.int32) for name in ("first", "stop")
    }  # of what each query block visits
    numbers = {"q": found.q.astype(np.float32), "k": found.k.astype(np.float32)}
    return pack(header, {**bounds, **numbers, "strength": strength.astype(np.uint8).ravel()})


def _ends(scores: np.ndarray) -> tuple[float, float]:
    seen = scores[~np.isneginf(scores)]
    low, high = float(seen.min()), float(seen.max())
    return low, high if high > low else low + 1


def _columns(found: Zoom) -> int:
    """Heads side by side."""
    return ceil(sqrt(found.experiment.problem.heads))


def _levels(found: Zoom) -> list[dict]:
    """What fills the picture at every depth, in heights and widths of a head, and how high it is drawn."""
    problem, tiling = found.experiment.problem, found.experiment.tiling
    (i, j), (rows, keys) = found.tile, found.scores.shape
    top, left = i * tiling.block_q, j * tiling.block_kv
    columns = _columns(found)
    aspect = _aspect(problem.seq_q, problem.seq_kv)
    lines = ceil(problem.heads / columns)
    low, stop, first, last = found.pieces[found.warp]
    down = (found.row - top - low) // max(1, stop - low) * (stop - low)  # to the piece that has the row
    score = (found.row, found.row + 1, found.key, found.key + 1)
    layer = {
        "x": [0, NEXT * columns - NEXT + 1],
        "y": [0, NEXT * lines - NEXT + 1],
        "aspect": aspect * lines / columns,
    }
    places = (
        (0, problem.seq_q, 0, problem.seq_kv),
        (top, top + rows, left, left + keys),
        (top + low + down, min(top + stop + down, top + rows), left + first, left + last),
        score,
    )
    sizes = (aspect, _aspect(rows, keys), _aspect(stop - low, last - first), 1)
    return [layer] + [
        {
            "x": [x0 / problem.seq_kv, x1 / problem.seq_kv],
            "y": [y0 / problem.seq_q, y1 / problem.seq_q],
            "aspect": size,
        }
        for (y0, y1, x0, x1), size in zip(places, sizes, strict=True)
    ]


def _aspect(tall: int, wide: int) -> float:
    return min(max(tall / wide, FLAT), TALL)


def _whose(asked: Experiment, found: Zoom) -> list[str]:
    """Whose numbers these are, what matters most first."""
    shown, problem = found.experiment, found.experiment.problem
    told, terms = f"{problem.seq_q:,} × {problem.seq_kv:,}", ", ".join(sorted(asked.problem.terms))
    if problem.seq_kv != asked.problem.seq_kv:
        told += f" tokens: {asked.problem.seq_kv:,} have too many numbers to draw"
    without = [f"scores without their {terms}"] * bool(terms)
    return [told, *without, problem.mask.text, shown.record.label, shown.gpu.name]


def _frames(found: Zoom) -> list[dict]:
    told = (each(found) for each in (_layer, _head, _tile, _warp, _score))
    return [
        {"sentence": sentence, "facts": facts, "mark": depth}
        for depth, (sentence, *facts) in zip(DEPTHS, told, strict=True)
    ]


def _layer(found: Zoom) -> tuple:
    problem, run = found.experiment.problem, found.run
    scores = problem.heads * problem.seq_q * problem.seq_kv
    return (
        f"A layer's attention has {counted(problem.heads, 'head')}, each with scores of its own.",
        ("heads", f"{problem.heads:,}", "ink"),
        ("scores", f"{scores:,}", "S"),
        ("S, if it were stored", bytes_text(scores * problem.itemsize), "S"),
        ("thread blocks", f"{run.blocks // problem.batch:,}", "Q"),
        (f"SMs of the {run.gpu.name}", f"{run.gpu.sms:,}", "ink"),
    )


def _head(found: Zoom) -> tuple:
    problem, schedule = found.experiment.problem, found.run.schedule
    visited = int((schedule.bounds.stop - schedule.bounds.first).sum())
    rows, keys = len(schedule.query_rows), len(schedule.key_rows)
    return (
        f"A head compares {_queries(problem.seq_q)} with {counted(problem.seq_kv, 'key')}, in tiles. The "
        "thread block of the marked row passes over its tiles one by one.",
        ("scores of a head", f"{problem.seq_q * problem.seq_kv:,}", "S"),
        ("tiles visited", f"{visited:,} of {rows * keys:,}", "S"),
        ("query blocks, each a thread block", f"{rows:,}", "Q"),
        ("key blocks", f"{keys:,}", "K"),
    )


def _tile(found: Zoom) -> tuple:
    (i, j), (rows, keys), run = found.tile, found.scores.shape, found.run
    q, k, v = (run.schedule.amounts[each].of(rows, keys) for each in (Tensor.Q, Tensor.K, Tensor.V))
    return (
        f"A tile has the scores of {_queries(rows)} and {counted(keys, 'key')}: what an SM multiplies at "
        "once.",
        ("tile", f"query block {i + 1}, key block {j + 1}", "ink"),
        ("scores of a tile", f"{rows * keys:,}", "S"),
        ("its rows of Q", bytes_text(q), "Q"),
        ("its rows of K and V", bytes_text(k + v), "K"),
        ("shared memory for a block", chip_bytes_text(run.gpu.shared_bytes_block), "ink"),
    )


def _warp(found: Zoom) -> tuple:
    (rows, keys), (share, wide) = found.scores.shape, found.warp_size
    each = "queries of its own and all keys" if wide == keys else "a part of the keys"
    return (
        f"{counted(found.warps, 'warp')} of 32 threads share the tile out: each has {each}.",
        ("warp", f"{found.warp + 1} of {found.warps}", "ink"),
        ("its queries", f"{share:,} of {rows:,}", "Q"),
        ("its keys", f"{wide:,} of {keys:,}", "K"),
        ("its scores", f"{share * wide:,}", "S"),
        ("scores of a thread", number_text(found.thread_scores), "S"),
    )


def _score(found: Zoom) -> tuple:
    problem, dot = found.experiment.problem, float(found.q.astype(float) @ found.k.astype(float))
    texts = [number_text(each, 4) for each in (*found.m, *found.l, found.alpha, found.score)]
    m_old, m_new, l_old, l_new, alpha, score = texts
    follows = ", the first maximum m of its row: nothing was summed before."
    if found.alpha:
        follows = f": m rises from {m_old} to {m_new}, and all summed before is multiplied by α = {alpha}."
    return (
        f"{problem.head_dim:,} products, added up and divided by √d, are the score {score}{follows}",
        ("query and key", f"{found.row + 1:,} and {found.key + 1:,}", "ink"),
        ("q · k / √d", f"{number_text(dot, 4)} × {number_text(problem.scale)} = {score}", "S"),
        ("m, before and after the tile", f"{m_old} → {m_new}", "statistics"),
        ("α", alpha, "O"),
        ("l, before and after", f"{l_old} → {l_new}", "statistics"),
    )


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count:,} queries"
