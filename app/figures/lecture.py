"""The pictures of a lecture that no page has: loops, layers and races, in large type."""

from collections.abc import Sequence
from html import escape

from app.figures.base import MONO
from app.figures.colours import Palette

TRACK = "color-mix(in srgb, currentColor 8%, transparent)"
STYLE = f"""
<style>
  .lanes, .layer {{ display: grid; gap: 0.6rem; }}
  .loops {{ display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }}
  .loops pre {{ margin: 0.3rem 0 0; font: 1rem/1.6 {MONO}; white-space: pre; overflow-x: auto; }}
  .loops pre b {{ font-weight: 700; }}
  .lanes .track {{ height: 1.5rem; margin-top: 0.1rem; background: {TRACK}; }}
  .scores {{ display: grid; grid-template-columns: repeat(32, 1fr); gap: 2px; margin: 0.2rem 0 1rem; }}
  .scores i {{ height: 1.4rem; }}
  .layer > div {{ padding: 0.7rem 1rem; border-radius: 4px; }}
  @media (max-width: 760px) {{ .loops {{ grid-template-columns: 1fr; }} }}
</style>
"""
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
    return f"{STYLE}<div class='lanes'>{''.join(rows)}</div>"


def one_query(keys: int, colours: Palette) -> str:
    """A single row of scores against all keys of a cache."""
    rows = (
        ("Q: one row", colours.q, 1),
        (f"K: {keys:,} rows", colours.k, 32),
        (f"S: one row of {keys:,} scores", colours.s, 32),
        (f"V: {keys:,} rows", colours.v, 32),
    )
    drawn = STYLE
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
    return STYLE + f"<div class='layer'>{boxes}</div>"
