"""The colours of every picture: one colour a tensor, in a dark and a light ground."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """Colours of one theme, as `#rrggbb`.

    Attributes:
        q, k, v, s, o, statistics: the tensors; S and P share a colour, so do m, l and lse.
        ground, panel, grid, ink, muted: page, panels, lines, text, secondary text.
        good, bad: a check that holds, a check that fails.
        violet, lime, rose: what is neither a tensor nor an algorithm, such as another library.
        scale: how much larger than usual a chart is drawn.
    """

    q: str
    k: str
    v: str
    s: str
    o: str
    statistics: str
    ground: str
    panel: str
    grid: str
    ink: str
    muted: str
    good: str
    bad: str
    violet: str
    lime: str
    rose: str
    scale: float = 1.0

    def tensor(self, name: str) -> str:
        """Colour of a tensor by its name: Q, K, V, S, P, O, m, l, alpha or lse; raises KeyError."""
        rows = dict.fromkeys(("m", "l", "m, l", "alpha", "lse"), self.statistics)
        return {"Q": self.q, "K": self.k, "V": self.v, "S": self.s, "P": self.s, "O": self.o, **rows}[name]


BOTH = {  # each on a dark and on a light ground
    "q": ("#4ea8e8", "#0072b2"),
    "k": ("#f0b429", "#b87900"),
    "v": ("#2fbf92", "#008760"),
    "s": ("#d68fc0", "#b14a8f"),
    "o": ("#f07a3c", "#c74e00"),
    "statistics": ("#9ad4f5", "#2b86b8"),
    "ground": ("#0f1318", "#ffffff"),
    "panel": ("#171d25", "#f4f6f8"),
    "grid": ("#2a333f", "#dde2e8"),
    "ink": ("#eef2f6", "#161d26"),
    "muted": ("#98a4b3", "#556270"),
    "good": ("#3ecf8e", "#0a7a45"),
    "bad": ("#ff7b72", "#c0282d"),
    "violet": ("#a99cf0", "#5b4bb5"),
    "lime": ("#c6d243", "#7a8b00"),
    "rose": ("#e58a8a", "#8c3b3b"),
}
DARK, LIGHT = (Palette(**{name: each[of] for name, each in BOTH.items()}) for of in (0, 1))


def palette(dark: bool) -> Palette:
    """The colours on a dark or a light ground."""
    return DARK if dark else LIGHT
