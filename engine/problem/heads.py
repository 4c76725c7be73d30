"""Real heads: q, k and v of a call with their tokens, of the small model on a text or read from a file.

A scenario names its numbers by the text, or by the key that a file is kept by, so that a link, a page and
the process that runs kernels mean the same ones.
"""

import json
import math
import re
import zipfile
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from engine.problem.cache import keep_file, kept_file
from engine.small import tensor_file
from engine.small.model import layers_of, small

MOST_BYTES = 256 * 2**20  # of a file, and of what it unpacks to
MOST_TOKENS, MOST_HEADS, MOST_HEAD_DIM = 16384, 256, 256
MOST_IN_MEMORY = 4
KEY = re.compile(r"([0-9a-f]{12})(?::(\d{1,3}))?")
TYPED = re.compile(r"text:(\d)\.(\d)(?::(.*))?", re.DOTALL)  # a layer and a head of the small model, a text
SENTENCE = "It is a truth universally acknowledged, that a single man must be in want of a wife."
TENSORS = ("q", "k", "v")


class HeadsError(ValueError):
    """Why a file or a text is no head, in one sentence."""


@dataclass(frozen=True, eq=False)
class Heads:
    """q [heads, seq_q, d], k [kv_heads, seq_kv, d] and v [kv_heads, seq_kv, d or another], float32.

    >>> Heads.of(q=np.ones((4, 8, 16)), k=np.ones((2, 8, 16)), v=np.ones((2, 8, 16))).group
    2
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    tokens: tuple[str, ...] = ()  # the text of each key, or none
    scale: float = 1.0  # what scores are multiplied by
    mask: dict[str, Any] = field(default_factory=dict)  # flat values of a model's mask, as far as known
    name: str = ""  # what a scenario calls them, where that is no key

    @classmethod
    def of(cls, q, k, v, tokens=(), scale: float | None = None) -> "Heads":
        """Checked; raises HeadsError."""
        arrays = {}
        for name, given in zip(TENSORS, (q, k, v), strict=True):
            array = np.asarray(given)
            if array.ndim != 3 or not array.size or array.dtype.kind not in "fiu":
                what = f"{name} has shape {array.shape} and type {array.dtype}"
                raise HeadsError(f"{what}; it must be numbers of three axes: heads, tokens, head dim")
            arrays[name] = np.ascontiguousarray(array, np.float32)
            if not np.isfinite(arrays[name]).all():
                raise HeadsError(f"{name} holds NaN or infinity; every number must be finite")
        (heads, seq_q, dim), (kv_heads, seq_kv, _) = arrays["q"].shape, arrays["k"].shape
        for fits, sentence in (
            (heads <= MOST_HEADS, f"q has {heads} heads; it must have at most {MOST_HEADS}"),
            (seq_kv <= MOST_TOKENS, f"k has {seq_kv:,} tokens; it must have at most {MOST_TOKENS:,}"),
            (dim <= MOST_HEAD_DIM, f"q has head dim {dim}; it must be at most {MOST_HEAD_DIM}"),
            (arrays["k"].shape[2] == dim, f"k has head dim {arrays['k'].shape[2]}; it must be q's, {dim}"),
            (
                arrays["v"].shape[:2] == (kv_heads, seq_kv),
                f"v is {arrays['v'].shape[:2]}; its heads and tokens must be k's, {kv_heads, seq_kv}",
            ),
            (heads % kv_heads == 0, f"k has {kv_heads} heads; it must be a divisor of q's {heads}"),
            (seq_q <= seq_kv, f"q has {seq_q:,} tokens; it must have no more than k's {seq_kv:,}"),
        ):
            if not fits:
                raise HeadsError(sentence)
        texts = tuple(str(token) for token in np.asarray(tokens).reshape(-1).tolist())
        if texts and len(texts) != seq_kv:
            raise HeadsError(f"tokens has {len(texts):,} words; it must have one for each of k's {seq_kv:,}")
        used = dim**-0.5 if scale is None else float(scale)
        if not (math.isfinite(used) and used > 0):
            raise HeadsError(f"scale is {used}; it must be a positive number")
        return cls(**arrays, tokens=texts, scale=used)

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return len(self.q) // len(self.k)

    def values(self) -> dict[str, Any]:
        """The flat values of a scenario that has all of it."""
        return {
            "heads": len(self.q), "kv_heads": len(self.k), "seq": self.q.shape[1], "seq_kv": self.k.shape[1],
            "head_dim": self.q.shape[2], "head_dim_v": self.v.shape[2], "batch": 1,
            **self.mask,
        }  # fmt: skip

    def packed(self) -> bytes:
        """As a file that `read` takes."""
        file = BytesIO()
        np.savez(file, q=self.q, k=self.k, v=self.v, tokens=np.array(self.tokens, str), scale=self.scale)
        return file.getvalue()


def read(file: bytes | str | Path) -> Heads:
    """The heads of an .npz or .safetensors file, or of its bytes; raises HeadsError, or OSError of a path."""
    if not isinstance(file, bytes):
        with Path(file).open("rb") as opened:
            file = opened.read(MOST_BYTES + 1)
    if len(file) > MOST_BYTES:
        raise HeadsError(f"The file has more than {MOST_BYTES:,} bytes; it must have at most those")
    found = _npz(file) if file[:2] == b"PK" else _safetensors(file)
    if missing := [name for name in TENSORS if name not in found]:
        raise HeadsError(f"The file has no {missing[0]}; it must have q, k and v")
    return Heads.of(**found)


def _npz(file: bytes) -> dict[str, Any]:
    """What is known of an .npz; a header is read before what it promises."""
    found = {}
    try:
        with zipfile.ZipFile(BytesIO(file)) as archive:
            for name in (*TENSORS, "tokens", "scale"):
                if f"{name}.npy" not in archive.namelist():
                    continue
                size = archive.getinfo(f"{name}.npy").file_size
                if size > MOST_BYTES:
                    raise HeadsError(f"{name} has {size:,} bytes; it must have at most {MOST_BYTES:,}")
                with archive.open(f"{name}.npy") as part:
                    content = BytesIO(part.read(MOST_BYTES))
                version = np.lib.format.read_magic(content)
                header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
                shape, _, dtype = header(content)
                if dtype.hasobject or math.prod(shape) * dtype.itemsize > size:
                    raise HeadsError(f"{name} is {shape} of {dtype}, which its file does not hold as numbers")
                content.seek(0)
                array = np.lib.format.read_array(content, allow_pickle=False)
                found[name] = array.item() if name == "scale" and array.size == 1 else array
    except HeadsError:
        raise
    except Exception as error:  # whatever the bytes do to zipfile and NumPy
        raise HeadsError(f"The file is no .npz that can be read ({type(error).__name__})") from None
    return found


def _safetensors(file: bytes) -> dict[str, Any]:
    """The same of a .safetensors."""
    try:
        found, said = tensor_file.read(file, TENSORS)
        found |= {"tokens": json.loads(said["tokens"])} if "tokens" in said else {}
        return found | ({"scale": float(said["scale"])} if "scale" in said else {})
    except ValueError:
        raise HeadsError("The file is neither an .npz nor a .safetensors that can be read") from None


def keep(heads: Heads) -> str:
    """The name of heads in a scenario: their own, or a key by which they are known while this server runs."""
    return heads.name or keep_file(heads.packed(), ".npz")


@lru_cache(MOST_IN_MEMORY)
def _of_key(key: str) -> Heads:
    return read(kept_file(key, ".npz"))


def kept(inputs: str) -> tuple[Heads, int] | None:
    """The heads that a scenario's `inputs` names, and the one that is meant first; None where none are."""
    if inputs.startswith("text:"):
        try:
            return typed(inputs), text_of(inputs)[1]
        except HeadsError:
            return None
    named = KEY.fullmatch(inputs)
    if named is None:
        return None
    try:
        heads, first = _of_key(named[1]), int(named[2] or 0)
    except (OSError, HeadsError):
        return None
    return (heads, first) if first < len(heads.q) else None


def text_of(inputs: str) -> tuple[int, int, str] | None:
    """The layer, the head and the text of such a name; None of another."""
    named = TYPED.fullmatch(inputs)
    return named and (int(named[1]), int(named[2]), SENTENCE if named[3] is None else named[3])


@lru_cache(maxsize=64)
def typed(inputs: str) -> Heads:
    """A layer of the small model on a text, or SENTENCE, by a name as "text:3.1:A text"; raises HeadsError.

    >>> typed("text:3.1:It is a truth").tokens
    ('(begin)', 'It', ' is', ' a', ' t', 'r', 'ut', 'h')
    """
    shape, named = small().shape, text_of(inputs)
    if named is None or named[0] >= shape.layers or named[1] >= shape.heads:
        must = f"a layer from 0 to {shape.layers - 1}, a head from 0 to {shape.heads - 1} and a text"
        raise HeadsError(f"The name is {inputs[:30]!r}; it must be {must}, as text:3.1:It is")
    layer, _, text = named
    try:
        tokens, layers = layers_of(text)
    except ValueError as error:
        raise HeadsError(str(error)) from None
    window = shape.window_of(layer)
    mask = {"causal": True, "window": window if window and window < len(tokens) else None}
    q, k, v = layers[layer]
    return Heads(q, k, v, tokens, shape.head_dim**-0.5, mask, inputs)
