"""What the models of a family do alike and their config.json does not say, by its `model_type`.

Read in the models' code as Hugging Face's transformers has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
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
    biases: frozenset[str] = frozenset()
    tied: bool = False
    positions: bool = False
    causal: bool = True
    sinks: bool = False
    slopes: bool = False
    full_every: int = 0
    gate: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)


ALL = frozenset(("qkv", "out", "mlp"))
PLAIN = Family()
OLD = {"gated": False, "norm_parts": 2, "biases": ALL}
GPT2 = Family(**OLD, tied=True, positions=True)
BERT = Family(**OLD, tied=True, positions=True, causal=False)
GEMMA_3 = {"vocab_size": 262_208, "sliding_window": 4096}
GEMMA_3 = Family(norms=4, head_norms=2, tied=True, full_every=6, given=GEMMA_3)
QWEN_3 = Family(head_norms=2)
LIKE_LLAMA = (
    "llama mistral ministral mixtral phi3 phimoe granite deepseek deepseek_v2 deepseek_v3 kimi_k2 jamba "
    "smollm3 mimo exaone internlm3 seed_oss llama4_text"
)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        **dict.fromkeys(LIKE_LLAMA.split(), PLAIN),
        "gpt2": GPT2,
        "gpt_bigcode": GPT2,
        "opt": GPT2,
        "gpt_neo": GPT2,
        "gpt_neox": Family(**OLD),
        "gptj": Family(gated=False, norms=1, norm_parts=2, biases=frozenset({"mlp"})),
        "bloom": Family(**OLD, tied=True, slopes=True),
        "mpt": Family(gated=False, tied=True, slopes=True),
        "falcon": Family(gated=False, norms=1, norm_parts=2, tied=True),
        "phi": Family(gated=False, norms=1, norm_parts=2, biases=ALL),
        "starcoder2": Family(**OLD, tied=True),
        "stablelm": Family(norm_parts=2),
        "olmo": Family(norms=0),
        "olmo2": Family(head_norms=2),
        "cohere": Family(norms=1, tied=True),
        "cohere2": Family(norms=1, tied=True, full_every=4),
        "glm4": Family(norms=4),
        "nemotron": Family(gated=False, norm_parts=2),
        "nemotron_h": Family(gated=False),
        "bert": BERT,
        "roberta": BERT,
        "xlm-roberta": BERT,
        "distilbert": BERT,
        "modernbert": Family(tied=True, causal=False, full_every=3),
        "qwen2": Family(biases=frozenset({"qkv"})),
        "qwen2_moe": Family(biases=frozenset({"qkv"})),
        **dict.fromkeys(("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"), QWEN_3),
        **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), Family(head_norms=2, gate=True)),
        "gemma": Family(tied=True),
        "gemma2": Family(norms=4, tied=True, full_every=2),
        "gemma3_text": GEMMA_3,
        "gemma3": GEMMA_3,
        "gpt_oss": Family(sinks=True, full_every=2),
    }
)
