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


DARK = Palette(
    q="#4ea8e8",
    k="#f0b429",
    v="#2fbf92",
    s="#d68fc0",
    o="#f07a3c",
    statistics="#9ad4f5",
    ground="#0f1318",
    panel="#171d25",
    grid="#2a333f",
    ink="#eef2f6",
    muted="#98a4b3",
    good="#3ecf8e",
    bad="#ff7b72",
    violet="#a99cf0",
    lime="#c6d243",
    rose="#e58a8a",
)
LIGHT = Palette(
    q="#0072b2",
    k="#b87900",
    v="#008760",
    s="#b14a8f",
    o="#c74e00",
    statistics="#2b86b8",
    ground="#ffffff",
    panel="#f4f6f8",
    grid="#dde2e8",
    ink="#161d26",
    muted="#556270",
    good="#0a7a45",
    bad="#c0282d",
    violet="#5b4bb5",
    lime="#7a8b00",
    rose="#8c3b3b",
)


def palette(dark: bool) -> Palette:
    """The colours on a dark or a light ground."""
    return DARK if dark else LIGHT
