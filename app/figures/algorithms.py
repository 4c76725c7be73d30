"""How what computes attention is called and drawn: this project's algorithms, and other implementations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.figures.colours import Palette
from engine.algorithms import ALGORITHMS, offered


@dataclass(frozen=True)
class Look:
    """How one of them is drawn.

    Attributes:
        tone: the name of a colour of the palette.
        dash: Plotly's, of its modelled line.
        name: of another library's implementation, short; empty: what a recording calls it.
    """

    tone: str
    dash: str = "solid"
    name: str = ""

    def colour(self, colours: Palette) -> str:
        """Its colour in a theme."""
        return getattr(colours, self.tone)


LOOKS = {
    "standard": Look("muted"),
    "flash1": Look("k", "dash"),
    "flash2": Look("v"),
    "flash3": Look("o", "dot"),
    "flash4": Look("q", "dashdot"),
    "split_kv": Look("rose", "longdash"),
    "eager": Look("ink", name="PyTorch unfused"),
    "sdpa": Look("violet", name="PyTorch fused"),
    "sdpa_flash": Look("violet", name="PyTorch flash"),
    "sdpa_cudnn": Look("lime", name="PyTorch cuDNN"),
    "sdpa_efficient": Look("rose", name="PyTorch efficient"),
    "fa3": Look("s"),
    "fa4": Look("q", name="FlashAttention-4"),
}
SPARE = (  # for algorithms that have no look of their own yet, in their order
    Look("violet", "dashdot"),
    Look("lime", "longdash"),
    Look("rose", "longdashdot"),
)
UNKNOWN = Look("muted")


def look(key: str) -> Look:
    """How an algorithm or an implementation is drawn, whoever it is."""
    if key in LOOKS:
        return LOOKS[key]
    others = [name for name in offered() if name not in LOOKS]
    return SPARE[others.index(key) % len(SPARE)] if key in others else UNKNOWN


def name(key: str) -> str:
    """An algorithm's name in a sentence; of what is none of ours, the key itself."""
    return ALGORITHMS[key].label if key in ALGORITHMS else key


def short(key: str) -> str:
    """An algorithm's name in a chart; raises KeyError."""
    return ALGORITHMS[key].short


def kernel(key: str) -> str:
    """The name of an algorithm's kernel in a chart: its language, and the algorithm; raises KeyError."""
    record = ALGORITHMS[key]
    numbered = any(map(str.isdigit, record.short))  # a name; else a word, which is small within others
    return f"{record.language} {record.short if numbered else record.short.lower()}"


def caveats(keys: Iterable[str]) -> str:
    """What must be said where times of these are shown, each once; empty where there is nothing to say."""
    return " ".join(ALGORITHMS[key].caveat for key in dict.fromkeys(keys) if key in ALGORITHMS).strip()


def implementation(row: Mapping[str, Any]) -> str:
    """The short name of what a row's "provider" names, or the row's own "label" for it."""
    key = row["provider"]
    ours = key in ALGORITHMS and ALGORITHMS[key].on_one_gpu
    return kernel(key) if ours else look(key).name or row["label"]
