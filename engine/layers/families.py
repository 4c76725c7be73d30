"""What the models of a family do alike and their config.json does not say, by its `model_type`.

Read in the models' code as Hugging Face's transformers has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Family:
    """One family.

    Attributes:
        gated: whether the MLP has a gate.
        norms, norm_parts: normalisations of a layer, and vectors of each: 2 where it has a bias.
        head_norms: vectors of a head dim that normalise Q and K.
        biases: of "qkv", "out" and "mlp", what has a bias where no field says so.
        tied: whether the embedding is the last matrix where no field says so.
        positions: whether positions are learned vectors.
        causal: whether a token sees none after it.
        sinks, slopes: whether each head has one.
        full_every: of layers with a window, every so-manieth has none; 0: all have one.
        gate: whether Q's matrix gives a gate for O.
        given: fields at the values that they have where config.json leaves them out.
    """

    gated: bool = True
    norms: int = 2
    norm_parts: int = 1
    head_norms: int = 0
    biases: tuple[str, ...] = ()
    tied: bool = False
    positions: bool = False
    causal: bool = True
    sinks: bool = False
    slopes: bool = False
    full_every: int = 0
    gate: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)


ALL = ("qkv", "out", "mlp")
OLD = {"gated": False, "norm_parts": 2, "biases": ALL}
GEMMA_3 = {"vocab_size": 262_208, "sliding_window": 4096}
FAMILIES = {  # by names that share one
    "llama mistral mixtral phi3 deepseek_v2 deepseek_v3 kimi_k2 jamba granite smollm3 mimo": Family(),
    "llama4_text": Family(),
    "gpt2 gpt_bigcode opt": Family(**OLD, tied=True, positions=True),
    "bert roberta xlm-roberta distilbert": Family(**OLD, tied=True, positions=True, causal=False),
    "modernbert": Family(tied=True, causal=False),
    "gpt_neox": Family(**OLD),
    "starcoder2": Family(**OLD, tied=True),
    "bloom": Family(**OLD, tied=True, slopes=True),
    "falcon": Family(gated=False, norms=1, norm_parts=2, tied=True),
    "phi": Family(gated=False, norms=1, norm_parts=2, biases=ALL),
    "nemotron": Family(gated=False, norm_parts=2),
    "nemotron_h": Family(gated=False),
    "olmo2": Family(head_norms=2),
    "cohere2": Family(norms=1, tied=True, full_every=4),
    "qwen2 qwen2_moe": Family(biases=("qkv",)),
    "qwen3 qwen3_moe qwen3_vl_text qwen3_vl_moe_text": Family(head_norms=2),
    "qwen3_next qwen3_5_text qwen3_5_moe_text": Family(head_norms=2, gate=True),
    "gemma": Family(tied=True),
    "gemma2": Family(norms=4, tied=True, full_every=2),
    "gemma3 gemma3_text": Family(norms=4, head_norms=2, tied=True, full_every=6, given=GEMMA_3),
    "gpt_oss": Family(sinks=True, full_every=2),
}
FAMILIES: Mapping[str, Family] = {name: one for names, one in FAMILIES.items() for name in names.split()}
