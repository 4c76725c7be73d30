"""What the model's heads do: mean weights of their queries on a kind of key, over a passage of a text."""

from __future__ import annotations

import numpy as np

from engine.small.model import SmallModel, weights_of
from engine.small.tokens import BEGIN

NEAR = 8  # keys that are local: a query's own and those before it
FIRST = 16  # queries before it see few keys, of which any is near
PIECE = 64  # random tokens, that stand twice
SCORES = {
    "previous token": "on the key before the query's own",
    "sink": "on the first key, which begins every text",
    "local": f"on the query's own key and the {NEAR - 1} before it",
    "induction": f"of the second of two equal pieces of {PIECE} random tokens, on the key after the query's "
    "token in the first",
}


def scores(model: SmallModel, passage: np.ndarray, seed: int = 0) -> dict[str, list[list[float]]]:
    """Each of SCORES by layer and head, on a passage's tokens; of induction, on some of them at random."""
    found: dict[str, list[list[float]]] = {name: [] for name in SCORES}
    piece = np.random.default_rng(seed).choice(passage, PIECE)
    text, twice = [BEGIN, *passage.tolist()], [BEGIN, *piece.tolist(), *piece.tolist()]
    rows, later = np.arange(FIRST, len(text)), np.arange(PIECE + 1, 2 * PIECE + 1)
    for layer, (on_text, on_piece) in enumerate(zip(model.run(text)[1], model.run(twice)[1], strict=True)):
        window = model.shape.window_of(layer)
        weights = weights_of(*on_text[:2], window)
        near = sum(weights[:, rows, rows - back] for back in range(NEAR))
        each = {
            "previous token": weights[:, rows, rows - 1],
            "sink": weights[:, rows, 0],
            "local": near,
            "induction": weights_of(*on_piece[:2], window)[:, later, later - PIECE + 1],
        }
        for name, shares in each.items():
            found[name].append(shares.mean(1).astype(float).round(3).tolist())
    return found
