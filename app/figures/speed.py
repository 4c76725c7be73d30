"""Figures of the Speed page over the length: measured, recorded and modelled, and what fusing gains."""

from collections.abc import Sequence
from functools import partial

from app.figures.algorithms import implementation, look, short
from app.figures.base import Figure, level, line, marks, over_length
from app.figures.colours import Palette
from app.figures.units import even_ticks, gain_text, log_ticks, scaled, seconds_text, times_text, tokens_text
from engine.studies.gains import Gain

RATES = ("tflops", "tokens_per_second")
NARROW = 1.02  # a band between the percentiles that is narrower than its line is not drawn
# left of 0 it takes the margin's width too, which on a phone leaves room for two names in a line
LEGEND = {"font": {"size": 12}, "x": -0.06}
SHORTEST = 64  # keys of the axis
MODELLED = "modelled"
UNITS = {
    "p50": ("s", seconds_text),
    "tflops": ("FLOP/s", lambda value: scaled(value, "FLOP/s")),
    "tokens_per_second": ("tokens/s", lambda value: tokens_text(value, "tokens/s")),
    "speedup": ("×", times_text),
}
BYTES, TIME = "bytes across HBM", "time"
LINES = {  # of what fusing gains: colour, ratio, and the word for less of it
    BYTES: ("o", lambda gain: gain.bytes, "fewer"),
    TIME: ("q", lambda gain: gain.seconds, "less"),
}


def lengths_to(longest: int) -> list[int]:
    """The powers of two of an axis that ends where the longest sequence has room."""
    return [2**power for power in range(SHORTEST.bit_length() - 1, (longest - 1).bit_length() + 1)]


def speed_by_length(
    groups: Sequence[tuple[str, Sequence[dict]]],
    metric: str,
    lengths: Sequence[int],
    colours: Palette,
    *,
    linear: bool = False,
    mark: int | None = None,
) -> Figure:
    """One metric over the length: modelled dotted, what was measured as lines with marks and bands.

    groups: (origin, rows) in drawing order; origin "modelled" or what a page calls a measurement. metric: of
    UNITS. lengths: the axis's range, ascending. linear: whether it is, from 0. mark: the scenario's length.
    """
    traces, legend_of_model = [], all(origin == MODELLED for origin, rows in groups if rows)
    for origin, rows in groups:
        for provider in dict.fromkeys(row["provider"] for row in rows):
            own = [row for row in rows if row["provider"] == provider and row[metric]]
            own = [row for row in own if lengths[0] <= row["keys"] <= lengths[-1]]
            if own:
                traces += _band(own, metric, colours)
                traces.append(_line(own, metric, origin, legend_of_model, colours))
    everything = [value for trace in traces for value in trace["y"]] or [1.0]
    unit, words = UNITS[metric]
    low, high = min(everything), max(everything)
    y = even_ticks(high, words) if linear else log_ticks(low, high, unit, words)
    legend = {**LEGEND, "entrywidth": 60 if legend_of_model else 104}
    return over_length(traces, lengths, mark, colours, height=275, y=y, legend=legend)


def _line(rows: Sequence[dict], metric: str, origin: str, legend: bool, colours: Palette) -> dict:
    real, name, drawn_as = origin != MODELLED, implementation(rows[0]), look(rows[0]["provider"])
    values = [_value(row, metric) for row in rows]
    kind = {"width": 2, "mode": "lines+markers"} if real else {"width": 1.5, "dash": "dot"}
    return line(
        [row["keys"] for row in rows],
        values,
        drawn_as.colour(colours),
        f"{name}, N = %{{x:,}}, {origin}: %{{customdata}}",
        **kind,
        name=name if real else short(rows[0]["provider"]),
        showlegend=real or legend,  # beside measured lines, the dotted ones have the others' colours
        marker={"symbol": drawn_as.symbol, "size": 7},
        customdata=[UNITS[metric][1](value) for value in values],
    )


def _band(rows: Sequence[dict], metric: str, colours: Palette) -> list[dict]:
    """The 20th to the 80th percentile, where it is wide enough to be seen."""
    if metric == "speedup" or not has_band(rows):
        return []
    low, high = ([_value(row, metric, percentile) for row in rows] for percentile in ("p20", "p80"))
    keys, colour = [row["keys"] for row in rows], look(rows[0]["provider"]).colour(colours)
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    # as a ground that a line is legible on
    filled = {"fill": "toself", "fillcolor": f"rgba({red},{green},{blue},0.25)", "showlegend": False}
    return [line([*keys, *reversed(keys)], [*low, *reversed(high)], colour, width=0, **filled)]


def has_band(rows: Sequence[dict]) -> bool:
    """Whether the percentiles of any row are so far apart that a band between them can be seen."""
    return any(row.get("p80", 1) / row.get("p20", 1) >= NARROW for row in rows)


def _value(row: dict, metric: str, percentile: str = "p50") -> float:
    """A row's metric in its base unit, at a percentile of the time."""
    slower = row[percentile] / row["p50"]
    value = row[metric] * (1e12 if metric == "tflops" else 1.0)
    return value / slower if metric in RATES else value * slower


def gains_by_length(
    modelled: Sequence[Gain], recorded: Sequence[Gain], origin: str, keys: int, colours: Palette
) -> Figure:
    """How many times less than unfused attention, both axes logarithmic; the scenario's length is marked.

    origin: where the recorded ones come from, in words.
    """
    traces, every = [], [1.0]
    for name, (tone, ratio, less) in LINES.items():
        for gains, of, real in ((modelled, MODELLED, False), (recorded, origin, True)):
            values = [ratio(gain) for gain in gains]
            draw = partial(marks, symbol="diamond", size=11) if real else line
            trace = draw(
                [gain.keys for gain in gains],
                values,
                getattr(colours, tone),
                f"{name}, N = %{{x:,}}, {of}: %{{customdata}}",
                name=f"{name}, recorded" if real else name,
                showlegend=not real,  # beside its line, in its colour
                customdata=[gain_text(value, less) for value in values],
            )
            traces += [trace] * bool(gains)
            every += values
    return over_length(
        traces,
        [gain.keys for gain in modelled],
        keys,
        colours,
        height=300,
        y={"title_text": "times less than unfused", **log_ticks(min(every), max(every), "", times_text)},
        legend={"font": {"size": 13}},
        shapes=[level(1, colours.muted)],  # on which neither is less
    )
