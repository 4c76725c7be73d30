"""All heads of a model at a glance: a square each, as dark as what is measured of it is large."""

from collections.abc import Callable, Sequence

from app.figures.base import Figure, axis, drawn
from app.figures.colours import Palette
from engine.studies.rescales import HeadRescales

MEASURES: dict[str, tuple[Callable, Callable]] = {  # what is measured, and how it is written
    "weight on key 0": (lambda one: one.first, "{:.0%}".format),
    "keys back": (lambda one: one.distance, "{:.1f}".format),
    "entropy, bits": (lambda one: one.entropy, "{:.1f}".format),
    "blocks that rescale": (lambda one: one.rises, "{:.0%}".format),
}
SQUARE = 30  # px


def heads_map(layers: Sequence[Sequence[HeadRescales]], colours: Palette) -> Figure:
    """A panel for each of MEASURES: layers below each other, heads beside each other; a point has both."""
    traces, layout, many = [], {}, len(layers[0])
    places = [(layer, one) for layer, heads in enumerate(layers) for one in heads]
    for number, (name, (measure, text)) in enumerate(MEASURES.items()):
        values = [measure(one) for _, one in places]
        most = max(values) or 1
        end = str(number + 1) if number else ""
        traces.append({
            "type": "scatter", "mode": "markers+text", "xaxis": f"x{end}", "yaxis": f"y{end}",
            "x": [one.head for _, one in places], "y": [layer for layer, _ in places],
            "customdata": [[layer, one.head] for layer, one in places],
            "text": [text(value) for value in values], "textfont": {"size": 10, "color": colours.ink},
            "marker": {
                "symbol": "square", "size": SQUARE, "color": colours.s,
                "opacity": [0.08 + 0.72 * value / most for value in values],
            },
            "selected": {"marker": {"color": colours.s}}, "unselected": {"textfont": {"color": colours.ink}},
            "hovertemplate": f"layer %{{y}}, head %{{x}}: {name} %{{text}}<extra></extra>",
        })  # fmt: skip
        left, top = number % 2 / 2, 1 - number // 2 * 0.55  # two beside each other, as a phone is wide
        layout[f"xaxis{end}"] = axis(
            colours, title_text=name, domain=[left, left + 0.48], range=[-0.6, many - 0.4], dtick=1,
            showgrid=False, zeroline=False, anchor=f"y{end}",
        )  # fmt: skip
        layout[f"yaxis{end}"] = axis(
            colours, domain=[top - 0.45, top], range=[len(layers) - 0.4, -0.6], dtick=1,
            showgrid=False, zeroline=False, anchor=f"x{end}", showticklabels=not number % 2,
        )  # fmt: skip
    height = 150 + 2 * SQUARE * len(layers)
    x, y = layout.pop("xaxis"), layout.pop("yaxis")
    return drawn(traces, colours, height=height, legend=False, x=x, y=y, **layout)
