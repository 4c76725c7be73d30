"""Tables that Python and the browser both need, as a payload's header carries them: written down here."""

from app.figures.colours import DARK, LIGHT, Palette
from engine.schedule.step import Operation, Tensor

TENSOR_NAMES = {  # where the name of a tensor is not that of its number
    Tensor.NONE: "",
    Tensor.STATISTICS: "statistics",
    Tensor.LSE: "lse",
    Tensor.DELTA: "delta",
    **{Tensor[f"D_{of}"]: f"d{of}" for of in "QKVOPS"},
    Tensor.LSE_LOG2: "lse",
    Tensor.PARTIAL: "partial O",
    Tensor.PARTIAL_LSE: "partial lse",
}
# what only a canvas has: tiles not yet computed, hatching, and the frame of what is at work
CANVAS = {
    "dark": {"cell": "#262f3b", "hatch": DARK.grid, "edge": "#ffffff"},
    "light": {"cell": "#dfe4ea", "hatch": "#d3d9e0", "edge": LIGHT.ink},
}


def tensor_name(tensor: Tensor) -> str:
    """A tensor's name, as the browser knows it."""
    return TENSOR_NAMES.get(tensor, tensor.name)


def steps_tables() -> dict[str, list[str]]:
    """Names of operations and tensors, each at the place of its number."""
    return {
        "operations": [operation.name.lower() for operation in Operation],
        "tensors": [tensor_name(tensor) for tensor in Tensor],
    }


def palettes() -> dict[str, dict[str, str]]:
    """The colours of both themes by what they stand for: tensors, ground, lines, type."""
    return {name: _colours(palette) | CANVAS[name] for name, palette in (("dark", DARK), ("light", LIGHT))}


def _colours(palette: Palette) -> dict[str, str]:
    """A gradient has its tensor's colour, and the statistics of a row share one."""
    named = ("ground", "panel", "ink", "muted", "good", "bad", "statistics")
    tensors = (*"QKVSOP", *(f"d{of}" for of in "QKVSOP"), "partial O")
    rows = dict.fromkeys(("lse", "delta", "partial lse"), palette.statistics)
    return {name: getattr(palette, name) for name in named} | {
        "line": palette.grid,
        **{name: palette.tensor(name[-1]) for name in tensors},
        **rows,
    }
