"""Rows of a recording on layers of models: a whole layer, and the pieces that layers are made of."""

from dataclasses import dataclass

from engine.recordings.timing import Times


@dataclass(frozen=True)
class LayerTiming:
    """One layer of a model with random weights of 16 bits, by what runs by itself."""

    # model, kind: a shipped model's name, and the kind of its layer in words
    model: str
    kind: str
    # phase, tokens, batch: as in `engine.layers.phase.Phase`
    phase: str
    tokens: int
    batch: int
    # of the whole layer, in a graph of several alike; or the reason why it has none
    times: Times | None = None
    rest: Times | None = None  # the same without attention's kernels
    pytorch: Times | None = None  # of the whole layer with PyTorch's own attention in it
    refused: str | None = None  # why PyTorch's own has no times
    skipped: str | None = None

    @property
    def attention_seconds(self) -> float:
        """What attention adds to the rest, of medians."""
        return self.times.p50 - self.rest.p50

    @property
    def attention_share(self) -> float:
        """Of the layer's time."""
        return self.attention_seconds / self.times.p50


@dataclass(frozen=True)
class PieceTiming:
    """One piece of a layer in a graph of many alike, its weights not in L2."""

    piece: str  # product, or what lies between: norm, turn, activate, choose, gather, combine, or nothing
    tokens: int  # rows that go in
    # rows, columns, copies, active: of a matrix, as in `engine.layers.model.Matrix`; of others the width
    rows: int
    columns: int
    copies: int = 1
    active: int = 1
    times: Times | None = None
    skipped: str | None = None
