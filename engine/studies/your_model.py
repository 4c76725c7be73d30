"""What the page of a model asks: attention's share over the length, and the same by standard attention."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from engine.algorithms import flash2, standard
from engine.layers.config import names
from engine.layers.model import Model
from engine.layers.phase import AUTO, PARALLEL, PHASES, PREFILL, Evaluated, Phase

OWN = "own"  # a model whose config.json was pasted
LENGTHS = tuple(2**power for power in range(7, 21))
COMPARED = MappingProxyType({standard.ALGORITHM.key: "standard", flash2.ALGORITHM.key: "FlashAttention-2"})
LITTLE = 0.05  # of the time: below it nobody notices which attention runs
CHOICES = {
    "model": ((*names(), OWN), "llama-3-8b"),
    "phase": (PHASES, PREFILL),
    "context": (LENGTHS, 8192),
    "together": (tuple(2**power for power in range(9)), 1),
    "parallel": (PARALLEL, 1),
}


class Share(NamedTuple):
    """Attention's part of a phase's time at one length."""

    tokens: int
    share: float


def shares(model: Model, phase: Phase) -> tuple[Share, ...]:
    """Attention's share at every length that a phase can have, whatever its own."""
    return _shares(model, replace(phase, tokens=LENGTHS[0]))


@lru_cache(maxsize=512)
def _shares(model: Model, phase: Phase) -> tuple[Share, ...]:
    return tuple(Share(tokens, replace(phase, tokens=tokens).of(model).attention_share) for tokens in LENGTHS)


def by_algorithm(model: Model, phase: Phase) -> dict[str, tuple[Share, ...]]:
    """The same by standard attention, by FlashAttention-2, and by what the kernels take by themselves."""
    given = {name: shares(model, replace(phase, algorithm=key)) for key, name in COMPARED.items()}
    return {**given, "auto": shares(model, replace(phase, algorithm=AUTO))}


def by_standard(model: Model, phase: Phase) -> Evaluated:
    """The same phase, its attention standard."""
    return replace(phase, algorithm=standard.ALGORITHM.key).of(model)


def unnoticed(found: tuple[Share, ...]) -> tuple[int, int] | None:
    """The lengths from which and up to which attention takes little, all between included; None: nowhere."""
    little = [each.share < LITTLE for each in found]
    if True not in little:
        return None
    first = little.index(True)
    last = little.index(False, first) - 1 if False in little[first:] else len(found) - 1
    return found[first].tokens, found[last].tokens
