"""What a model is made of: kinds of layers, the matrices of each, and what they take of memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from engine.problem.dtype import dtype_named

FP4_BITS = 4.25  # of a number in mxfp4: 32 numbers of 4 bits share a scale of 8
SCALED = 128  # rows and columns of a block of FP8 weights, which has a scale of 4 bytes


class Matrix(NamedTuple):
    """Weights that a token's numbers are multiplied by, or `copies` alike, of which it takes `active`."""

    name: str
    rows: int
    columns: int
    copies: int = 1
    active: int = 1

    @property
    def parameters(self) -> int:
        return self.rows * self.columns * self.copies


@dataclass(frozen=True)
class Attention:
    # heads, kv_heads, head_dim, head_dim_v: of Q, K and V
    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int
    window: int | None = None  # keys that a query sees, its own included; None: all
    # the sequence is cut into pieces of so many keys, and a query sees its own piece; None: not cut
    chunk: int | None = None
    # softcap, sinks, slopes: terms of its scores
    softcap: float | None = None
    sinks: bool = False
    slopes: bool = False
    # latent, rope_dim: numbers of a token that K and V of all heads are made from, and those of its position,
    # which all heads share; None and 0: K and V themselves are kept
    latent: int | None = None
    rope_dim: int = 0
    q_latent: int | None = None  # numbers that Q of all heads is made from; None: it is made from the token
    gated: bool = False  # O is multiplied by a gate, which Q's matrix gives too

    @property
    def text(self) -> str:
        terms = " with sinks" * self.sinks + " with a cap" * bool(self.softcap) + " with slopes" * self.slopes
        reach = f" within {self.window:,} keys" if self.window else ""
        reach += f" within pieces of {self.chunk:,} keys" if self.chunk else ""
        return f"{'latent ' if self.latent else ''}attention{terms}{reach}"

    def shared(self, parallel: int) -> Attention:
        """What each of so many GPUs has of it; a key head may lie on several."""
        return replace(self, heads=self.heads // parallel, kv_heads=max(1, self.kv_heads // parallel))

    def matrices(self, hidden: int) -> tuple[Matrix, ...]:
        output = Matrix("O", hidden, self.heads * self.head_dim_v)
        queries = self.heads * (self.head_dim + self.gated * self.head_dim_v)
        if self.latent is None:
            keys = self.kv_heads * (self.head_dim + self.head_dim_v)
            return Matrix("Q, K, V", queries + keys, hidden), output
        keys = self.heads * (self.head_dim - self.rope_dim + self.head_dim_v)
        first = Matrix("latents", self.latent + self.rope_dim + (self.q_latent or queries), hidden)
        second = (Matrix("Q of its latent", queries, self.q_latent),) if self.q_latent else ()
        return first, *second, Matrix("K, V of their latent", keys, self.latent), output

    def cache_numbers(self, tokens: int) -> int:
        """Numbers of K and V that one sequence of so many tokens keeps."""
        kept = min(tokens, self.window or tokens, self.chunk or tokens)
        if self.latent is not None:
            return kept * (self.latent + self.rope_dim)
        return kept * self.kv_heads * (self.head_dim + self.head_dim_v)


@dataclass(frozen=True)
class Recurrent:
    """A layer in attention's place that keeps a state of fixed size: its name, and its matrices' shapes."""

    text: str
    shapes: tuple[tuple[int, int], ...]

    def shared(self, parallel: int) -> Recurrent:
        (rows, columns), *others = self.shapes
        others = ((each[0], -(-each[1] // parallel)) for each in others)
        return replace(self, shapes=((-(-rows // parallel), columns), *others))

    def matrices(self, hidden: int) -> tuple[Matrix, ...]:
        return tuple(Matrix("state", *shape) for shape in self.shapes)


@dataclass(frozen=True)
class Mlp:
    """Two matrices with an activation between them, or three with a gate: once, or as experts."""

    width: int  # numbers between the matrices, of one expert
    gated: bool = True  # whether the activation's input is multiplied by a gate
    # experts, active: how many there are, and how many a token takes; 1 and 1 where there is no choice
    experts: int = 1
    active: int = 1
    always: int = 0  # width of what every token takes beside its experts

    @property
    def text(self) -> str:
        return "MLP" if self.experts == 1 else f"{self.active} of {self.experts} experts"

    def shared(self, parallel: int) -> Mlp:
        return replace(self, width=-(-self.width // parallel), always=-(-self.always // parallel))

    def matrices(self, hidden: int) -> tuple[Matrix, ...]:
        found = [Matrix("router", self.experts, hidden)] * (self.experts > 1)
        for width, *chosen in ((self.width, self.experts, self.active), (self.always, 1, 1)):
            if width:
                found += [Matrix("up", (1 + self.gated) * width, hidden, *chosen)]
                found += [Matrix("down", hidden, width, *chosen)]
        return tuple(found)


@dataclass(frozen=True)
class Layer:
    mixer: Attention | Recurrent | None  # what lets tokens see one another; None: nothing
    mlp: Mlp | None  # what follows; None: nothing
    norms: int = 2  # normalisations of a token
    others: int = 0  # numbers beside the matrices: biases, norms, sinks

    @property
    def parts(self) -> tuple[Attention | Recurrent | Mlp, ...]:
        return tuple(part for part in (self.mixer, self.mlp) if part)

    @property
    def kind(self) -> str:
        """It in a few words: attention within 4,096 keys, MLP."""
        return ", ".join(part.text for part in self.parts)

    @property
    def attention(self) -> Attention | None:
        return self.mixer if isinstance(self.mixer, Attention) else None

    def matrices(self, hidden: int) -> tuple[Matrix, ...]:
        """All its weights but `others`."""
        return tuple(matrix for part in self.parts for matrix in part.matrices(hidden))

    def shared(self, parallel: int) -> Layer:
        """What each of so many GPUs has of it; biases and norms lie on all."""
        mixer, mlp = (part and part.shared(parallel) for part in (self.mixer, self.mlp))
        return replace(self, mixer=mixer, mlp=mlp)


@dataclass(frozen=True)
class Model:
    """A model, as far as its config.json says.

    >>> from engine.layers.config import shipped
    >>> shipped("llama-3-8b").parameters
    8030261248
    """

    name: str  # of its file
    layers: tuple[tuple[Layer, int], ...]  # its kinds of layers, each with how many there are
    # hidden, vocab: numbers of a token, and tokens that there are
    hidden: int
    vocab: int
    tied: bool  # whether the embedding serves as the last matrix too
    dtype: str  # of weights, K and V
    # how a checkpoint keeps most weights: "mxfp4" its experts, "fp8" its layers; empty: no way
    quantized: str = ""
    causal: bool = True  # whether a token sees none after it
    others: int = 0  # numbers beside the layers and the vocabulary: positions, the last norm
    said: tuple[str, ...] = field(default=(), compare=False)  # what was taken, or left out, in sentences
    title: str = ""  # what it is called, for reading
    # source, date: where its config was read, and when
    source: str = ""
    date: str = ""

    @property
    def itemsize(self) -> int:
        """Bytes of a number of K and V, and of a weight that is not quantized."""
        return dtype_named(self.dtype).bytes

    @property
    def outside(self) -> int:
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.others

    @property
    def parameters(self) -> int:
        matrices = ((layer.matrices(self.hidden), layer.others, count) for layer, count in self.layers)
        each = (count * (sum(one.parameters for one in found) + more) for found, more, count in matrices)
        return self.outside + sum(each)

    def shared(self, parallel: int) -> Model:
        layers = tuple((layer.shared(parallel), count) for layer, count in self.layers)
        return replace(self, layers=layers, vocab=-(-self.vocab // parallel))

    def bytes_of(self, matrix: Matrix) -> float:
        if self.quantized == "mxfp4" and matrix.copies > 1:
            return matrix.parameters * FP4_BITS / 8
        if self.quantized == "fp8" and matrix.name != "router":
            return matrix.parameters * (1 + 4 / SCALED**2)
        return matrix.parameters * self.itemsize

    def weight_bytes(self, parallel: int = 1) -> int:
        own = self.shared(parallel)
        return round(own.outside * own.itemsize) + sum(
            round(count * (sum(map(own.bytes_of, layer.matrices(own.hidden))) + layer.others * own.itemsize))
            for layer, count in own.layers
        )

    def cache_bytes(self, tokens: int, parallel: int = 1) -> int:
        """Bytes of K and V of one sequence of so many tokens in each of so many GPUs, all layers."""
        layers = ((layer.attention, count) for layer, count in self.shared(parallel).layers)
        numbers = sum(count * attention.cache_numbers(tokens) for attention, count in layers if attention)
        return self.itemsize * numbers
