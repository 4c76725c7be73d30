"""The pictures of a lecture that no page has: loops, SMs, bits and races, in large type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from app.figures.base import MONO
from app.figures.colours import Palette
from app.figures.decoding import sms as squares
from app.figures.units import seconds_text

RACE_SECONDS = 6.0  # that the slowest lane takes on the screen
Mark = tuple[float, float, str, str]
TRACK = "color-mix(in srgb, currentColor 8%, transparent)"
STYLE = f"""
<style>
  .lanes, .layer {{ display: grid; gap: 0.6rem; }}
  .lanes b, .lanes span {{ display: block; }}
  .mono {{ font-family: {MONO}; font-variant-numeric: tabular-nums; }}
  .loops {{ display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }}
  .loops pre {{ margin: 0.3rem 0 0; font: 1rem/1.6 {MONO}; white-space: pre; overflow-x: auto; }}
  .loops pre b {{ font-weight: 700; }}
  .lanes .lane {{ display: grid; grid-template-columns: 1fr auto; gap: 0.1rem 1rem; }}
  .lanes .track {{ grid-column: 1 / -1; height: 1.5rem; background: {TRACK}; }}
  .lanes .track i {{ display: block; height: 100%; width: 100%; }}
  .lanes.running .track i {{ animation: run var(--seconds) linear both; transform-origin: left; }}
  .lanes.running .time {{ animation: show 0.2s var(--seconds) both; }}
  @keyframes run {{ from {{ transform: scaleX(0); }} }}
  @keyframes show {{ from {{ opacity: 0; }} }}
  .busy {{ display: grid; gap: 0.3rem; margin-bottom: 0.9rem; }}
  .busy .sms {{ grid-template-columns: repeat(44, 1fr); }}
  .busy .sms i {{ font-size: 0 !important; }}
  .bits {{ display: flex; gap: 3px; margin: 0.3rem 0 1.1rem; }}
  .bits i {{ flex: 1; max-width: 3rem; height: 2.2rem; font: 1rem {MONO}; }}
  .bits i {{ display: grid; place-items: center; }}
  .ruler {{ position: relative; height: 3rem; margin: 0.2rem 0 1.2rem; border-bottom: 2px solid; }}
  .ruler i {{ position: absolute; bottom: 0; width: 1px; height: 1.6rem; background: currentColor; }}
  .ruler span {{ position: absolute; bottom: 1.65rem; transform: translateX(-50%); font: 1rem {MONO}; }}
  @media (max-width: 640px) {{ .ruler span:nth-of-type(even):not(:last-child) {{ display: none; }} }}
  .scores {{ display: grid; grid-template-columns: repeat(32, 1fr); gap: 2px; margin: 0.2rem 0 1rem; }}
  .scores i {{ height: 1.4rem; }}
  .gantt {{ display: grid; grid-template-columns: auto 1fr; gap: 0.25rem 0.8rem; margin: 0.2rem 0 1.1rem; }}
  .gantt div {{ position: relative; height: 1.9rem; background: {TRACK}; }}
  .gantt i {{ position: absolute; top: 0; bottom: 0; overflow: hidden; text-align: center; }}
  .gantt i {{ font-style: normal; box-sizing: border-box; }}
  .gantt.low {{ margin-bottom: 1em; grid-template-columns: 4em 1fr; }}
  .gantt.low div {{ height: 1.6em; }}
  .gantt.low i {{ border: 1px solid transparent; background-clip: padding-box !important; }}
  .layer > div {{ padding: 0.7rem 1rem; border-radius: 4px; }}
  @media (prefers-reduced-motion: reduce) {{
    .lanes.running .track i, .lanes.running .time {{ animation: none; }}
  }}
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


@dataclass(frozen=True)
class Lane:
    """One of a race: its name, its time in seconds, its colour."""

    name: str
    seconds: float
    colour: str


def lanes(entries: Sequence[Lane], *, told: bool) -> str:
    """Bars as long as they took, which grow as fast as they ran, all slowed down alike; empty until told."""
    slowest = max(entry.seconds for entry in entries)
    rows = []
    for entry in entries:
        share = entry.seconds / slowest
        style = f"background:{entry.colour};width:{100 * share if told else 0:.2f}%"
        time = f"<span class='mono time'>{seconds_text(entry.seconds)}</span>" if told else "<span></span>"
        rows.append(
            f"<div class='lane' style='--seconds:{RACE_SECONDS * share:.2f}s'>"
            f"<b>{escape(entry.name)}</b>{time}"
            f"<div class='track'><i style='{style}'></i></div></div>"
        )
    return STYLE + f"<div class='lanes{' running' * told}'>{''.join(rows)}</div>"


def slowed(entries: Sequence[Lane]) -> float:
    """How many times slower than recorded a race is shown."""
    return RACE_SECONDS / max(entry.seconds for entry in entries)


def busy(rows: Sequence[tuple[str, int, int]], colours: Palette) -> str:
    """SMs with work, a grid for each of (what, SMs that have a block, SMs)."""
    grids = "".join(
        f"<div class='busy'><b>{escape(what)}: {count} of {total} SMs have work</b>"
        f"{squares((np.arange(total) < count).astype(int), colours)}</div>"
        for what, count, total in rows
    )
    return STYLE + grids


def bits(formats: Mapping[str, tuple[int, int, int]], colours: Palette) -> str:
    """Number formats as boxes: (bits of the sign, of the exponent, of the fraction) by name."""
    parts = []
    for name, (sign, exponent, fraction) in formats.items():
        kinds = (("±", sign, colours.muted), ("e", exponent, colours.k), ("f", fraction, colours.q))
        boxes = "".join(
            f"<i style='background:color-mix(in srgb, {colour} 35%, transparent)'>{letter}</i>"
            for letter, count, colour in kinds
            for _ in range(count)
        )
        told = f"{exponent} bits of exponent, {fraction} of fraction"
        parts.append(f"<b>{escape(name)}</b>: {told}<div class='bits'>{boxes}</div>")
    return STYLE + "".join(parts)


def ruler(name: str, values: np.ndarray, *, labels: bool) -> str:
    """The values of a format from 1 to 2, each a mark; labels: of all of them, else of both ends."""
    low, high = 1, 2
    inside = values[(values >= low) & (values <= high)]
    places = 100 * (inside - low) / (high - low)
    marks = "".join(f"<i style='left:{place:.2f}%'></i>" for place in places)
    words = "".join(
        f"<span style='left:{place:.2f}%'>{value:g}</span>"
        for place, value in zip(places, inside, strict=True)
        if labels or value in (low, high)
    )
    title = f"<b>{escape(name)} from {low} to {high}</b>"
    return STYLE + f"<div style='padding:0 1.6rem'>{title}<div class='ruler'>{marks}{words}</div></div>"


def gantt(rows: Sequence[tuple[str, Sequence[Mark]]], seconds: float, size: str = "") -> str:
    """When what is named works, on one axis of so many seconds: (start, end, colour, words) of its marks."""
    lines = []
    for name, spans in rows:
        boxes = "".join(
            f"<i style='background:{colour};left:{100 * start / seconds:.2f}%;"
            f"width:{100 * (end - start) / seconds:.2f}%'>{words}</i>"
            for start, end, colour, words in spans
            if end <= seconds
        )
        lines.append(f"<span>{escape(name)}</span><div>{boxes}</div>")
    return STYLE + f"<div class='gantt {size}'>{''.join(lines)}</div>"


def one_query(keys: int, colours: Palette) -> str:
    """A single row of scores against all keys of a cache."""

    def row(named: str, colour: str, count: int) -> str:
        cells = "<i style='background:color-mix(in srgb, {} 45%, transparent)'></i>"
        name = f"<b style='color:color-mix(in srgb, {colour} 75%, currentColor)'>{named}</b>"
        return f"{name}<div class='scores'>{cells.format(colour) * count}</div>"

    return STYLE + (
        row("Q: one row", colours.q, 1)
        + row(f"K: {keys:,} rows", colours.k, 32)
        + row(f"S: one row of {keys:,} scores", colours.s, 32)
        + row(f"V: {keys:,} rows", colours.v, 32)
    )


def squares_of(rows: Sequence[tuple[str, int, str]]) -> str:
    """A square for each of so many operations: (what, how many, colour)."""
    return STYLE + "".join(
        f"<b>{escape(what)}</b><div class='scores'>{f'<i style=background:{colour}></i>' * count}</div>"
        for what, count, colour in rows
    )


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


def histogram(votes: Sequence[int]) -> str:
    """Style rules that fill each choice's button as far as its share of the votes."""
    every = sum(votes) or 1
    filled = "color-mix(in srgb, currentColor 24%, transparent)"
    rules = (
        f".st-key-tour_choice_{index} button {{ background-image: linear-gradient(90deg, {filled} "
        f"{100 * count / every:.1f}%, transparent 0); }}"
        for index, count in enumerate(votes)
    )
    return f"<style>{' '.join(rules)}</style>"
