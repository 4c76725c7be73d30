"""The four tokens as matrices and lines of numbers, in HTML: type that the last row of a room can read."""

from collections.abc import Sequence

import numpy as np

from app.figures.base import MONO
from app.figures.colours import Palette
from app.figures.tables import table
from engine.studies.by_hand import BLOCK, ROW, ByHand

CELLS = f"min-width: 2.2rem; height: 1.9rem; padding: 0 0.35rem; text-align: right; font: 1rem {MONO}"
STYLE = f"""
<style>
  .hand {{ display: flex; flex-wrap: wrap; align-items: center; gap: 0.7rem 0.55rem; }}
  .hand + .hand {{ margin-top: 0.7rem; }}
  .hand .sign {{ font-size: 1.3rem; }}
  .hand figure {{ margin: 0; }}
  .hand figcaption {{ font-weight: 700; padding-bottom: 0.2rem; }}
  .hand table {{ border-collapse: separate; border-spacing: 2px; margin: 0; border: none; }}
  .hand td {{ border: none; {CELLS}; }}
  .hand td.gap {{ min-width: 0.5rem; padding: 0; background: none !important; }}
  .hand tr.gap td {{ height: 0.5rem; background: none !important; }}
  @media (max-width: 760px) {{ .hand td {{ min-width: 2.5rem; padding: 0 0.2rem; }} }}
</style>
"""
UNKNOWN = "?"


def number(value: float, places: int = 2) -> str:
    """As many places, with a minus sign."""
    return f"{value:.{places}f}".replace("-0.00", "0.00").replace("-", "−")


def matrix(title: str, values: np.ndarray, colour: str, *, tiles: bool = False, hidden: bool = False) -> str:
    """A matrix with its name above.

    tiles: whether a gap shows the blocks of rows and columns. hidden: whether its numbers are not known yet.
    """
    lines, places = [], 2 if (values % 1).any() else 0
    ground = f"style='background:color-mix(in srgb, {colour} 20%, transparent)'"
    for line in values:
        cells = [f"<td {ground}>{UNKNOWN if hidden else number(value, places)}</td>" for value in line]
        if tiles and len(cells) > BLOCK:
            cells.insert(BLOCK, "<td class='gap'></td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    if tiles:
        lines.insert(BLOCK, "<tr class='gap'><td></td></tr>")
    caption = f"<figcaption style='color:color-mix(in srgb, {colour} 75%, currentColor)'>{title}</figcaption>"
    return f"<figure>{caption}<table><tbody>{''.join(lines)}</tbody></table></figure>"


def _line(*parts: str) -> str:
    """Matrices, and the signs between them."""
    signed = (part if part.startswith("<") else f"<span class='sign'>{part}</span>" for part in parts)
    return f"<div class='hand'>{''.join(signed)}</div>"


def whole(hand: ByHand, colours: Palette) -> str:
    """Q, K and V to S, P and O."""
    q, k = matrix("Q", hand.q, colours.q), matrix("Kᵀ", hand.k.T, colours.k)
    p, v = matrix("P, softmax of each row", hand.weights, colours.s), matrix("V", hand.v, colours.v)
    scores = _line(q, "·", k, "/ √2 =", matrix("S, scores", hand.scores, colours.s))
    return STYLE + scores + _line(p, "·", v, "=", matrix("O, output", hand.out, colours.o))


def weights(hand: ByHand, colours: Palette) -> str:
    """P alone."""
    return STYLE + _line(matrix("P, weights", hand.weights, colours.s))


def first_piece(hand: ByHand, _: Palette) -> str:
    """m, l and O of the row after its first piece, as a table; what the second makes of them is asked."""

    def listed(values: Sequence[float]) -> str:
        return "(" + ", ".join(map(number, values)) + ")"

    pieces, terms = (hand.scores[ROW, :BLOCK], hand.scores[ROW, BLOCK:]), hand.first_weights
    rows = {
        "scores s": tuple(map(listed, pieces)),
        "maximum m": (number(hand.m[0]), UNKNOWN),
        "factor α": ("", UNKNOWN),
        "sum ℓ": (f"{' + '.join(map(number, terms))} = {number(hand.l[0])}", UNKNOWN),
        "O so far": (listed(terms @ hand.v[:BLOCK]), UNKNOWN),
    }
    names = ("", "after piece 1", "after piece 2")
    return table([dict(zip(names, (name, *both), strict=True)) for name, both in rows.items()])


def tiled(hand: ByHand, colours: Palette) -> str:
    """S in tiles between Q, K and V, and an O that is not known yet."""
    return STYLE + _line(
        matrix("Q", hand.q, colours.q, tiles=True),
        "·",
        matrix("Kᵀ", hand.k.T, colours.k, tiles=False),
        "→",
        matrix("S, in tiles", hand.scores, colours.s, tiles=True),
        "→",
        matrix("O", hand.out, colours.o, tiles=True, hidden=True),
    )
