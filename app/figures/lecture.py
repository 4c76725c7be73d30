"""The pictures of a lecture that no page has, in type that the last row of a room can read."""

from collections.abc import Sequence
from html import escape

import numpy as np

from app.figures.colours import Palette
from app.figures.tables import table
from engine.studies.by_hand import BLOCK, ROW, ByHand

UNKNOWN = "?"  # of a number that is asked for
LOOPS = """<div class='loops'>
<div><b>FlashAttention-1: keys outside</b><pre>
for each key block j:
  load K[j], V[j]
  for each query block i:
    load Q[i]
    <b>load O[i], m[i], l[i]</b>
    one tile: S, m, α, l, O
    <b>store O[i], m[i], l[i]</b></pre></div>
<div><b>FlashAttention-2: queries outside</b><pre>
for each query block i:
  load Q[i]
  for each key block j:
    load K[j], V[j]
    one tile: S, m, α, l, O
  O = O ÷ l
  <b>store O[i], lse[i]</b></pre></div>
</div>"""  # the two orders of the loops, what goes to memory and back set off


def lanes(names: Sequence[str]) -> str:
    """A race that has not begun: an empty lane for each."""
    rows = (f"<div class='lane'><b>{escape(name)}</b><div class='track'></div></div>" for name in names)
    return f"<div class='lanes'>{''.join(rows)}</div>"


def one_query(keys: int, colours: Palette) -> str:
    """A single row of scores against all keys of a cache."""
    rows = (
        ("Q: one row", colours.q, 1),
        (f"K: {keys:,} rows", colours.k, 32),
        (f"S: one row of {keys:,} scores", colours.s, 32),
        (f"V: {keys:,} rows", colours.v, 32),
    )
    drawn = ""
    for named, colour, count in rows:
        cell = f"<i style='background:color-mix(in srgb, {colour} 45%, transparent)'></i>"
        name = f"<b style='color:color-mix(in srgb, {colour} 75%, currentColor)'>{named}</b>"
        drawn += f"{name}<div class='scores'>{cell * count}</div>"
    return drawn


def layer(colours: Palette) -> str:
    """What a transformer layer computes, in order."""
    parts = (
        ("Projections to Q, K and V", colours.panel),
        ("Attention", f"color-mix(in srgb, {colours.s} 45%, transparent)"),
        ("Projection of O", colours.panel),
        ("Two matrices of the MLP, each four times as wide", colours.panel),
    )
    boxes = "".join(f"<div style='background:{colour}'><b>{name}</b></div>" for name, colour in parts)
    return f"<div class='layer'>{boxes}</div>"


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
    return scores + _line(p, "·", v, "=", matrix("O, output", hand.out, colours.o))


def weights(hand: ByHand, colours: Palette) -> str:
    """P alone."""
    return _line(matrix("P, weights", hand.weights, colours.s))


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
    return _line(
        matrix("Q", hand.q, colours.q, tiles=True),
        "·",
        matrix("Kᵀ", hand.k.T, colours.k),
        "→",
        matrix("S, in tiles", hand.scores, colours.s, tiles=True),
        "→",
        matrix("O", hand.out, colours.o, tiles=True, hidden=True),
    )
