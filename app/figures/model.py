"""Figures of the page Your model: layers as a stack, one layer's time, attention's share, memory."""

from collections.abc import Mapping
from html import escape

from app.figures.base import Figure
from app.figures.colours import Palette
from app.figures.curves import OVER_LENGTH, Curve, curves
from app.figures.units import bytes_text, counted, heads_text, seconds_text, share_text
from engine.layers.phase import Evaluated, Part
from engine.problem.hardware import GPUS
from engine.studies.your_model import Shares

MOST_ROWS = 64  # of the stack; where a model has more layers, a row stands for several


def stack(found: Evaluated, colours: Palette) -> str:
    """Every layer as a row, as long as its time, with attention's part of it."""
    longest = max(part.seconds for part in found.parts)
    each, groups = -(-sum(part.count for part in found.parts) // MOST_ROWS), []
    for part in found.parts:
        row = f"<i>{_pieces(part, longest, colours)}</i>"
        about, own = f"{counted(part.count, 'layer')}: {part.layer.kind}", part.layer.attention
        note = f" · {heads_text(own.heads, own.kv_heads)}, d {own.head_dim}" if own else ""
        rows = row * -(-part.count // each)
        groups.append(f"<h4>{escape(about)}<span>{escape(note)}</span></h4>{rows}")
    several = f"<p>Each row stands for {each} layers.</p>" * (each > 1)
    names = (("the rest", colours.muted), ("attention", colours.s))
    key = "".join(f"<b style='color:{colour}'>{name}</b>" for name, colour in names)
    label = escape(f"The layers of {found.model.title} as rows, attention's part of each in colour")
    below = f"<p class='key'>{key}</p>{several}"
    return f"<div class='stack' role='img' aria-label='{label}'>{''.join(groups)}{below}</div>"


def _pieces(part: Part, longest: float, colours: Palette) -> str:
    """The rest and attention of one layer, as shares of the longest."""
    widths = (part.other_seconds, colours.muted), (part.attention_seconds, colours.s)
    return "".join(
        f"<s style='width:{100 * seconds / longest:.2f}%;background:{colour}'></s>"
        for seconds, colour in widths
    )


def layer(parts: Mapping[str, Part], colours: Palette) -> str:
    """The same layer by name of its attention, on one scale of time."""
    longest, rows = max(part.seconds for part in parts.values()), []
    for name, part in parts.items():
        own = share_text(part.attention_seconds / part.seconds)
        says = f"{seconds_text(part.seconds)}, <b style='color:{colours.s}'>{own}</b>"
        rows.append(f"<h4>{escape(name)}<span>{says}</span></h4><i>{_pieces(part, longest, colours)}</i>")
    return f"<div class='stack one'>{''.join(rows)}</div>"


def share(found: Mapping[str, Shares], tokens: int, colours: Palette) -> Figure:
    """Attention's share of the time over the length; the last curve is what runs."""
    lines = {
        name: Curve(each, tone) for (name, each), tone in zip(found.items(), ("muted", "q", "s"), strict=True)
    }
    axes = {**OVER_LENGTH, "x": "tokens of a sequence", "y": "", "told": share_text, "linear": True}
    return curves(lines, colours, **axes, marked={tokens: "dot"}, height=260)


def memory(found: Evaluated, colours: Palette) -> str:
    """A GPU's memory in proportion: the weights, K and V of the batch above them, and what is free."""
    whole, weights, cache = found.memory_bytes, found.weight_bytes, found.kv_cache_bytes
    stripes = f"repeating-linear-gradient(90deg, {colours.k} 0 12px, {colours.v} 12px 24px)"
    many, taken = counted(found.phase.batch, "sequence"), weights + cache
    free = max(0, whole - taken)
    blocks = [
        (free, colours.panel, f"{bytes_text(free)} free"),
        (cache, stripes, f"K and V of {many}, {bytes_text(cache)}"),
        (weights, colours.muted, f"weights, {bytes_text(weights)}"),
    ]
    heights = "".join(
        f"<div style='height:{100 * size / max(whole, taken):.2f}%;background:{look}'></div>"
        for size, look, _ in blocks
    )
    key = "".join(f"<p><u style='background:{look}'></u>{escape(words)}</p>" for _, look, words in blocks)
    edge = colours.bad if taken > whole else colours.grid
    label = escape(f"Of {bytes_text(whole)}: {', '.join(words for *_, words in blocks)}")
    whole_look = f"class='whole' role='img' aria-label='{label}' style='border-color:{edge}'"
    head = f"<h4>Memory of {GPUS[found.phase.hardware].name}</h4>"
    return f"<div class='memory'>{head}<div {whole_look}>{heights}</div>{key}</div>"


def memory_words(found: Evaluated) -> str:
    """What the picture of the memory shows, and how many sequences fit."""
    each, fit, phase = found.sequence_bytes, found.sequences, found.phase
    if found.weight_bytes >= found.memory_bytes:
        whole = bytes_text(found.memory_bytes)
        return f"The weights alone are larger than the GPU's {whole}: share them out over more GPUs."
    if fit is None:
        return "It keeps no K and V."
    held = f"K and V take {bytes_text(each)} for each sequence of {phase.tokens:,} tokens"
    return f"{held}; {counted(fit, 'sequence')} {'fits' if fit == 1 else 'fit'} beside the weights."
