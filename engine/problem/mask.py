"""Which keys a query sees. What is true of a kind of mask stands here: everything else asks a `Mask`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

Edges = tuple[np.ndarray, np.ndarray]


class MaskError(ValueError):
    """What cannot be done under a mask, in one sentence."""


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees: those that every kind of mask leaves. A kind at its default hides nothing.

    Query i stands at key position i + (seq_kv - seq_q). A kind is a field, and what it means in `keys`,
    `arguments` and `text`; a kind that hides keys between others says so by `has_holes` and `sees`.

    >>> low, stop = Mask(causal=True, window=2).keys(np.arange(4), 4)
    >>> low.tolist(), stop.tolist()
    ([0, 0, 1, 2], [1, 2, 3, 4])
    """

    causal: bool = False  # only keys at or before the query's position
    # only that many keys, the query's own included; it implies causal, unless there are keys ahead
    window: int | None = None
    # the keys are so many documents of equal length, end to end, or documents of these lengths, which add up
    # to the keys; a query sees its own one's
    documents: int | tuple[int, ...] = 1
    ahead: int = 0  # how many keys after its own a query with a window sees too, unless it is causal
    prefix: int = 0  # so many first keys every query sees, beside no window and one document alone

    SERVED: ClassVar = frozenset({"causal", "window", "documents", "ahead", "prefix"})  # by kernels

    @classmethod
    def of(cls, window_text: str | int | None = None, documents_text: str | int = 1, **kinds: Any) -> Mask:
        """From what links hold: a window of so many keys, or of keys before and after as 4:2; documents by
        their number, or by their lengths as 100:28; and every other kind by its name."""
        if isinstance(window_text, str):
            before, kinds["ahead"] = (int(part) for part in window_text.split(":"))
            window_text = before + 1
        if isinstance(documents_text, str):
            documents_text = tuple(int(part) for part in documents_text.split(":"))
        return cls(window=window_text, documents=documents_text, **kinds)

    @property
    def window_text(self) -> str | int | None:
        """The window as links hold it."""
        return f"{self.window - 1}:{self.ahead}" if self.window and self.ahead else self.window

    @property
    def documents_text(self) -> str | int:
        """The documents as links hold them."""
        return self.documents if isinstance(self.documents, int) else ":".join(map(str, self.documents))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds that hide something, by their fields' names."""
        return frozenset(one.name for one in fields(self) if getattr(self, one.name) != one.default)

    @property
    def hides(self) -> bool:
        """Whether it hides anything at all."""
        return bool(self.kinds)

    @property
    def looks_ahead(self) -> bool:
        """Whether a query may see keys after its own position."""
        return not self.causal and (self.window is None or self.ahead > 0)

    @property
    def packed(self) -> bool:
        """Whether the keys are several documents."""
        return self.documents != 1

    @property
    def keys_after(self) -> int | None:
        """How many keys after its own a query sees; None where there is no end but its document's."""
        if self.causal:
            return 0
        return None if self.window is None else self.ahead

    def span(self, count: int) -> int:
        """The most keys, up to its own, that one query can see of `count`; documents aside."""
        return min(self.window or count, count)

    @property
    def has_holes(self) -> bool:
        """Whether a query may miss keys between two that it sees: no tile is then full."""
        return False

    def keys(self, position: np.ndarray, count: int) -> Edges:
        """First and one past the last of `count` keys that queries at these positions see; equal for none.

        Neither falls from one position to the next.
        """
        low, stop = self._document(position, count)
        first, after = low, self.keys_after
        if self.window is not None:
            low = np.clip(position - self.window + 1, low, stop)
        if after is None:
            return low, stop
        first = np.maximum(first, min(self.prefix, count))
        return low, np.maximum(np.clip(position + after + 1, first, stop), low)

    def sees(self, position: np.ndarray, key: np.ndarray, count: int) -> np.ndarray:
        """[positions, keys] bool: which of these keys, of `count` in all, queries at these positions see."""
        low, stop = self.keys(position, count)
        return (key >= low[:, None]) & (key < stop[:, None])

    def _document(self, position: np.ndarray, count: int) -> Edges:
        """First and one past the last key of the document at each position; before the first key, the first.

        Document i of D starts at key i N // D.
        """
        at = np.clip(position, 0, count - 1)
        if not isinstance(self.documents, int):
            edges = self.document_edges(count)
            document = np.searchsorted(edges, at, side="right")
            return edges[document - 1], edges[document]
        documents = min(self.documents, count)
        if documents == 1:  # no division: this is asked for every row of a million
            return np.zeros_like(position), np.full_like(position, count)
        document = ((at + 1) * documents - 1) // count
        return document * count // documents, (document + 1) * count // documents

    def document_edges(self, count: int) -> np.ndarray:
        """[documents + 1] the key at which each document starts, and one past the last of `count` keys."""
        if not isinstance(self.documents, int):
            return np.concatenate(([0], np.cumsum(self.documents, dtype=np.int64)))
        documents = min(self.documents, count)
        return np.arange(documents + 1) * count // documents

    def document_lengths(self, count: int) -> list[int]:
        """The keys of each document."""
        return np.diff(self.document_edges(count)).tolist()

    def fault(self, count: int) -> tuple[str, str, str] | None:
        """What is wrong with it for so many keys: the parameter, its value and what it must be."""
        if self.prefix and (self.packed or self.window):
            return "prefix", str(self.prefix), "0 with a window or documents, which may hide its keys"
        if isinstance(self.documents, int) or sum(self.documents) == count:
            return None
        must = f"a number of documents, or lengths that add up to seq_kv, which is {count}"
        return "documents", self.documents_text, must

    def resized(self, keys: int, of: int) -> Mask:
        """The same with `keys` keys in place of `of`: documents of given lengths shrink or grow alike."""
        if isinstance(self.documents, int):
            return self
        ends = [round(sum(self.documents[: i + 1]) * keys / of) for i in range(len(self.documents))]
        lengths = tuple(end - start for start, end in zip([0, *ends], ends, strict=False))
        return replace(self, documents=lengths)

    def shrunk(self, length: Callable[[int], int]) -> Mask:
        """The same picture on fewer keys: every distance that it knows as `length` makes it."""
        kept = {name: getattr(self, name) for name in ("window", "ahead", "prefix")}
        return replace(self, **{name: value and length(value) for name, value in kept.items()})

    @property
    def unserved(self) -> str | None:
        """Why no kernel here computes it, in one sentence; None where some do."""
        others = " and ".join(sorted(self.kinds - self.SERVED))
        return f"No kernel here takes a mask with {others}: it is modelled only." if others else None

    def arguments(self, count: int) -> dict[str, Any]:
        """What says the same to the kernels, of `count` keys; raises MaskError where none computes it."""
        if self.unserved:
            raise MaskError(self.unserved)
        window = (self.window - 1, self.ahead) if self.window and self.ahead else self.window
        given = {"causal": self.causal, "window": window} | ({"prefix": self.prefix} if self.prefix else {})
        return given | {"documents": self.document_lengths(count)} if self.packed else given

    @property
    def text(self) -> str:
        """It in a few words, within a sentence: 8 documents, causal."""
        named = []
        if self.packed:
            several = isinstance(self.documents, int)
            named.append(f"{self.documents if several else len(self.documents):,} documents")
        if self.window:
            named.append(f"window {self.window_text}" if self.ahead else f"window {self.window:,}")
        elif self.causal:
            named.append("causal")
        if self.prefix:
            named.append(f"prefix {self.prefix:,}")
        return ", ".join(filter(None, (*named, self.others))) or "no mask"

    @property
    def others(self) -> str:
        """The kinds that have no words of their own here, with their values: stride 5."""
        others = sorted(self.kinds - Mask.SERVED)
        return ", ".join(f"{kind} {getattr(self, kind)}" for kind in others)


NO_MASK = Mask()
