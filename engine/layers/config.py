"""A model's config.json, read field by field: what is missing or wrong is an error, what is taken is said."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.layers.families import FAMILIES, PLAIN
from engine.layers.model import Attention, Layer, Mlp, Model, Recurrent
from engine.parameter import LARGEST_SEQUENCE, shown
from engine.problem.dtype import DTYPES
from engine.root import ROOT

FOLDER = ROOT / "assets" / "models"
MOST_BYTES, DEEPEST = 10**6, 32
MOST_LAYERS, MOST_HEADS, MOST_HEAD_DIM, MOST_WIDTH, MOST_WORDS = 1024, 1024, 256, 2**22, 2**24
NAMES = {  # a field and what some families call it
    "hidden_size": ("n_embd", "d_model", "n_embed", "dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "head_dim": ("attention_head_dim", "kv_channels"),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim", "d_ff"),
    "vocab_size": ("padded_vocab_size",),
    "max_position_embeddings": ("n_positions",),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": ("experts_per_token", "moe_topk", "top_k_experts", "moe_top_k"),
    "moe_intermediate_size": ("expert_ffn_hidden_size", "moe_ffn_hidden_size"),
    "sliding_window": ("local_attention",),
    "torch_dtype": ("dtype",),
}
INSIDE = ("text_config", "llm_config", "language_config")  # where a model of several kinds has its language
MIXERS = {  # what `layer_types` holds, and the letters of `hybrid_override_pattern`
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "*": "full",
    "sliding_attention": "window",
    "chunked_attention": "chunk",
    "linear_attention": "linear",
    "mamba": "mamba",
    "mamba2": "mamba",
    "M": "mamba",
    "-": "mlp",
    "mlp": "mlp",
    "E": "moe",
    "moe": "moe",
}
HARMLESS = re.compile(  # fields that change neither a shape nor what a query sees
    r"architectures|auto_map|transformers_version|_name_or_path|pretraining_tp|problem_type|ep_size|"
    r".*(rope|rotary|mscale|dropout|drop$|token|_id$|_ids$|eps|epsilon|initiali|_std$|activation|_act$|hidden_act|"
    r"use_cache|cache_impl|return_|output_|label|summary_|task_spec|gradient|router_|aux_loss|norm_topk|topk_|"
    r"^topk|scoring|routed_scaling|^n_group$|n_ctx|context_length|query_pre_attn|final_logit|swiglu|logits|"
    r"rescale|residual|time_step|chunk_size$|mamba_.*bias|mamba_hidden|kernels|use_qk_norm|layer_norm_type|"
    r"embd|embedding_mult|multiplier|max_seq|scale_attn|reorder|torchscript|is_decoder|tokenizer|head_type|"
    r"max_position|ssm_dtype|jitter|qk_head_dim|classifier|position_embedding_type|type_vocab|pruned|deterministic|"
    r"sparse_pred|pooling|attn_implementation|image|vision|audio|video|attention_scal|ssm_cfg|^max_window_layers$|"
    r"^n_inner$|^mlp_only|_step$|^intermediate_size$|^use_sliding|^sliding_window|^num_key_value_heads$|"
    r".*(penalty|beam)|max_length|temperature|top_[kp]|typical_p|ignore_index|seq_aux|full_attention_int|^expand$|"
    r"^attention_bias$|^mlp_bias$|^use_bias$|^time_).*"
)
LEFT_OUT = {  # fields that are understood, and what is done about them
    "num_nextn_predict_layers": "its layers that predict further tokens are left out",
    "mtp_num_hidden_layers": "its layers that predict further tokens are left out",
    "index_topk": "attention is taken over all keys, not over the {} that a query selects",
    "vision_config": "its vision tower is left out",
    "audio_config": "its audio tower is left out",
}
REQUIRED = object()


class ConfigError(ValueError):
    """A config that cannot be read: `faults` has one sentence for each field."""

    def __init__(self, *faults: str):
        super().__init__(" ".join(faults))
        self.faults = faults


def names() -> tuple[str, ...]:
    """The models that are shipped."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


@lru_cache(maxsize=32)
def shipped(name: str) -> Model:
    """A shipped model; raises ConfigError for a name that is none."""
    if name not in names():
        raise ConfigError(
            f"model is {shown(name)}; it must be one of {', '.join(names())}, or a config.json."
        )
    return read((FOLDER / f"{name}.json").read_bytes(), name)


def opened(path_or_name: str) -> Model:
    """A shipped model, or the one of a file; raises ConfigError."""
    path = Path(path_or_name)
    if path.suffix != ".json" and not path.is_file():
        return shipped(path_or_name)
    try:
        with path.open("rb") as file:
            return read(file.read(MOST_BYTES + 1), path.stem)
    except OSError as error:
        fault = f"model is {shown(path_or_name)}, which cannot be read: {error.strerror}."
        raise ConfigError(fault) from None


def read(text: bytes | str, name: str = "config") -> Model:
    """The model that a config.json describes; raises ConfigError with a sentence for each field.

    >>> read('{"model_type": "llama", "hidden_size": 4096}')
    Traceback (most recent call last):
        ...
    engine.layers.config.ConfigError: num_hidden_layers is missing; it must be a whole number from 1 to \
1,024. num_attention_heads is missing; it must be a whole number from 1 to 1,024. vocab_size is missing; \
it must be a whole number from 1 to 16,777,216. intermediate_size is missing; it must be a whole number \
from 1 to 4,194,304.
    """
    return _Reader(_parsed(text), name).model()


def _parsed(text: bytes | str) -> dict[str, Any]:
    """The object that a JSON text holds."""
    if len(text) > MOST_BYTES:
        raise ConfigError(f"The file has more than {MOST_BYTES:,} bytes; a config.json has a few thousand.")
    try:
        found = json.loads(text)
    except RecursionError:
        raise ConfigError(f"The file is nested more than {DEEPEST} deep; a config.json is not.") from None
    except UnicodeDecodeError:
        raise ConfigError("The file is not text; it must be a model's config.json.") from None
    except ValueError as error:
        where = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(f"The file is not JSON{where}; it must be a model's config.json.") from None
    level, depth = [found], 0
    while level:
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        depth += 1
        if depth > DEEPEST:
            raise ConfigError(f"The file is nested more than {DEEPEST} deep; a config.json is not.")
    if not isinstance(found, dict):
        raise ConfigError(f"The file holds a {type(found).__name__}; a config.json holds an object.")
    return found


def _shown(value: Any) -> str:
    """A value as a sentence has it: what is no plain number is quoted and cut."""
    return str(value) if type(value) in (int, float, bool) and abs(value) < 10**15 else shown(value)


class _Reader:
    """One config, with what is wrong with it and what is to be said."""

    def __init__(self, config: dict[str, Any], name: str):
        self.name, self.faults, self.said = name, [], []
        self.outside, self.asked = config, {"title", "source", "date", *INSIDE}
        inside = next((config[key] for key in INSIDE if isinstance(config.get(key), dict)), {})
        self.config = {**config, **inside} if inside else config
        self.type, self.family = "", PLAIN
        self.type = str(self.given("model_type") or "")[:60]
        self.family = FAMILIES.get(self.type, PLAIN)
        if self.type not in FAMILIES:
            named = f"model_type is {self.type!r}, which" if self.type else "model_type is missing: the model"
            self.said.append(f"{named} is read as one of llama's pattern, by the fields that it has.")

    # Single fields.

    def given(self, field: str) -> Any:
        """A field's value under any of its names; the family's where it is left out; None for null."""
        names = (field, *NAMES.get(field, ()))
        self.asked.update(names)
        for name in names:
            if self.config.get(name) is not None:
                return self.config[name]
        if field in self.family.given:
            value = self.family.given[field]
            self.say(f"{field} is left out: {value:,}, which {self.type} has then, is taken.")
            return value
        return None

    def whole(self, field: str, most: int, default: Any = REQUIRED, least: int = 1) -> Any:
        """A whole number; what is none, or missing without a default, is a fault."""
        value = self.given(field)
        must = f"it must be a whole number from {least:,} to {most:,}."
        if value is None:
            if default is not REQUIRED:
                return default
            self.fault(f"{field} is missing; {must}")
        elif isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fault(f"{self.spelled(field)} is {_shown(value)}; {must}")
        else:
            return value
        return least or 1

    def flag(self, field: str, default: bool) -> bool:
        """Yes or no."""
        value = self.given(field)
        if value is not None and not isinstance(value, bool):
            self.fault(f"{field} is {shown(value)}; it must be true or false.")
        return default if value is None else bool(value)

    def listed(self, field: str) -> list | None:
        """A list, of whatever; None where there is none."""
        value = self.given(field)
        if value is not None and not isinstance(value, list):
            self.fault(f"{field} is {shown(value)}; it must be a list.")
            return None
        return value

    def spelled(self, field: str) -> str:
        """A field as the config has it."""
        return next((name for name in (field, *NAMES.get(field, ())) if name in self.config), field)

    def fault(self, sentence: str) -> None:
        """Note what is wrong, once."""
        if sentence not in self.faults:
            self.faults.append(sentence)

    def say(self, sentence: str) -> None:
        """Note what is to be said, once."""
        if sentence not in self.said:
            self.said.append(sentence)

    # The model.

    def model(self) -> Model:
        """All of it; raises ConfigError with all faults."""
        family, hidden = self.family, self.whole("hidden_size", MOST_WIDTH)
        mixers = self._mixers(self.whole("num_hidden_layers", MOST_LAYERS))
        heads, vocab = self.whole("num_attention_heads", MOST_HEADS), self.whole("vocab_size", MOST_WORDS)
        alone = bool({"mlp", "moe"} & {*mixers})  # a layer is attention or an MLP, not both
        mlps = (
            mixers if alone else ["moe" if self._is_sparse(index) else "mlp" for index in range(len(mixers))]
        )
        parts: dict[str, Any] = {
            "mlp": self._mlp(hidden) if "mlp" in mlps else None,
            "moe": self._experts(hidden) if "moe" in mlps else None,
            **{name: self._recurrent(name, hidden) for name in ("linear", "mamba") if name in mixers},
        }
        if {"full", "window", "chunk"} & {*mixers}:
            whole = self._attention(hidden, heads)
            parts |= {
                name: self._masked(whole, name) for name in ("full", "window", "chunk") if name in mixers
            }
        positions = self.whole("max_position_embeddings", MOST_WIDTH, 0) if family.positions else 0
        model = Model(
            *(self.name, (), hidden, vocab),
            tied=self.flag("tie_word_embeddings", family.tied),
            dtype=self._dtype(),
            quantized=self._quantized(),
            causal=family.causal,
            others=hidden * (positions + family.norm_parts * bool(family.norms)),
            title=str(self.outside.get("title", ""))[:60] or self.name,
            source=str(self.outside.get("source", "")),
            date=str(self.outside.get("date", "")),
        )
        norms, layers = 1 if alone else family.norms, Counter()
        for mixer, mlp in zip(mixers, mlps, strict=True):
            first = None if mixer in ("mlp", "moe") else parts[mixer]
            second = parts[mlp] if mlp in ("mlp", "moe") else None
            layers[first, second] += 1
        kinds = tuple(
            (Layer(first, second, norms, self._small(first, second, hidden, norms)), count)
            for (first, second), count in layers.items()
        )
        self._leftovers()
        if self.faults:
            raise ConfigError(*self.faults)
        return replace(model, layers=kinds, said=tuple(self.said))

    def _mixers(self, count: int) -> list[str]:
        """What every layer is: full, window, chunk, linear, mamba, mlp or moe."""
        pattern, listed = self.given("hybrid_override_pattern"), self.listed("layer_types")
        if isinstance(pattern, str) or listed:
            named = list(pattern) if isinstance(pattern, str) else listed
            field = "hybrid_override_pattern" if isinstance(pattern, str) else "layer_types"
            if len(named) != count:
                self.fault(f"{field} has {len(named):,} layers; it must have num_hidden_layers, {count:,}.")
            for each in named:
                if not isinstance(each, str) or each not in MIXERS:
                    self.fault(f"{field} has {shown(each)}; each must be one of {', '.join(MIXERS)}.")
                    return ["full"] * count
            return [MIXERS[each] for each in named]
        if period := self.whole("attn_layer_period", MOST_LAYERS, 0):
            offset = self.whole("attn_layer_offset", MOST_LAYERS, 0, 0)
            return ["full" if index % period == offset else "mamba" for index in range(count)]
        if interval := self.whole("full_attention_interval", MOST_LAYERS, 0):
            return ["linear" if (index + 1) % interval else "full" for index in range(count)]
        if "llama4" in self.type and self.whole("attention_chunk_size", LARGEST_SEQUENCE, 0):
            rope = self.listed("no_rope_layers") or [bool((index + 1) % 4) for index in range(count)]
            return ["chunk" if each else "full" for each in rope[:count]]
        if not self.whole("sliding_window", LARGEST_SEQUENCE, 0, 0) or not self.flag(
            "use_sliding_window", True
        ):
            return ["full"] * count
        if every := self.whole("global_attn_every_n_layers", MOST_LAYERS, 0):
            return ["window" if index % every else "full" for index in range(count)]
        every = self.whole("sliding_window_pattern", MOST_LAYERS, self.family.full_every)
        first = (
            self.whole("max_window_layers", MOST_LAYERS, 0, 0) if self.config.get("use_sliding_window") else 0
        )
        return [
            "full" if index < first or (every and not (index + 1) % every) else "window"
            for index in range(count)
        ]

    def _attention(self, hidden: int, heads: int) -> Attention:
        """What the attention of all layers has alike."""
        terms = {
            "softcap": self._softcap(),
            "sinks": self.family.sinks or self.flag("attention_sink_bias", False),
            "slopes": self.family.slopes or self.flag("alibi", False),
        }
        if self.given("kv_lora_rank") is not None:
            rope = self.whole("qk_rope_head_dim", MOST_HEAD_DIM)
            return Attention(
                *(heads, heads, self.whole("qk_nope_head_dim", MOST_HEAD_DIM) + rope),
                self.whole("v_head_dim", MOST_HEAD_DIM),
                latent=self.whole("kv_lora_rank", MOST_WIDTH),
                rope_dim=rope,
                q_latent=self.whole("q_lora_rank", MOST_WIDTH, None),
                **terms,
            )
        kv_heads = 1 if self.flag("multi_query", False) else heads
        kv_heads = self.whole("num_key_value_heads", MOST_HEADS, kv_heads)
        if not self.faults and heads % kv_heads:
            field, asked = self.spelled("num_key_value_heads"), self.spelled("num_attention_heads")
            self.fault(f"{field} is {kv_heads}; it must divide {asked}, which is {heads}.")
        own = hidden // heads
        if not self.faults and hidden % heads and self.given("head_dim") is None:
            self.fault(f"head_dim is missing, and hidden_size, {hidden}, is no multiple of {heads} heads.")
        head_dim = self.whole("head_dim", MOST_HEAD_DIM, own)
        if not self.faults and head_dim > MOST_HEAD_DIM:
            self.fault(f"head_dim is {head_dim}, hidden_size over heads; it must be at most {MOST_HEAD_DIM}.")
        v_dim = self.whole("v_head_dim", MOST_HEAD_DIM, head_dim)
        return Attention(heads, kv_heads, head_dim, v_dim, gated=self.family.gate, **terms)

    def _softcap(self) -> float | None:
        cap = self.given("attn_logit_softcapping")
        if cap is None or (type(cap) in (int, float) and 0 < cap < math.inf):
            return cap and float(cap)
        self.fault(f"attn_logit_softcapping is {_shown(cap)}; it must be a number above 0.")
        return None

    def _masked(self, attention: Attention, kind: str) -> Attention:
        """The attention of one kind of layer."""
        if kind == "window":
            return replace(attention, window=self.whole("sliding_window", LARGEST_SEQUENCE))
        if kind == "chunk":
            return replace(attention, chunk=self.whole("attention_chunk_size", LARGEST_SEQUENCE))
        return attention

    def _is_sparse(self, index: int) -> bool:
        """Whether a layer's MLP is a choice of experts."""
        if not self.whole("num_experts", MOST_WIDTH, 0, 0):
            return False
        if index < self.whole("first_k_dense_replace", MOST_LAYERS, 0, 0):
            return False
        listed, frequency = self.listed("moe_layers"), self.given("moe_layer_freq")
        if listed is not None:
            return index in listed
        if isinstance(frequency, list):
            return index < len(frequency) and bool(frequency[index])
        if index in (self.listed("mlp_only_layers") or ()):
            return False
        offset = self.whole("expert_layer_offset", MOST_LAYERS, 0, 0)
        counted = (("moe_layer_freq", index), ("expert_layer_period", index - offset))
        counted += ("decoder_sparse_step", index + 1), ("interleave_moe_layer_step", index + 1)
        return all(at % self.whole(field, MOST_LAYERS, 1) == 0 for field, at in counted)

    def _mlp(self, hidden: int) -> Mlp:
        field = "intermediate_size_mlp" if self.given("intermediate_size_mlp") else "intermediate_size"
        default = REQUIRED if self.family.gated else 4 * hidden  # what GPT-2's pattern takes
        return Mlp(self.whole(field, MOST_WIDTH, default), self.family.gated)

    def _experts(self, hidden: int) -> Mlp:
        experts = self.whole("num_experts", 2**16)
        width = self.whole("moe_intermediate_size", MOST_WIDTH, None)
        width = self.whole("intermediate_size", MOST_WIDTH) if width is None else width
        shared = self.whole("n_shared_experts", 2**16, None, 0)
        shared = width * (self.whole("num_shared_experts", 2**16, 0, 0) if shared is None else shared)
        if self.type == "llama4_text":
            shared = width
        for field in ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"):
            shared = self.whole(field, MOST_WIDTH, shared, 0)
        active = self.whole("num_experts_per_tok", 2**16)
        if active > experts:
            self.fault(f"num_experts_per_tok is {active}; it must be at most the {experts} experts.")
        return Mlp(width, self.family.gated, experts, active, shared)

    def _recurrent(self, kind: str, hidden: int) -> Recurrent:
        """A layer with a state; what its scan takes of time is left out, and said so."""
        self.say(
            "What its layers without attention compute between their matrices, and their states, is left out."
        )
        if kind == "linear":
            keys = self.whole("linear_num_key_heads", MOST_HEADS) * self.whole(
                "linear_key_head_dim", MOST_WIDTH
            )
            heads = self.whole("linear_num_value_heads", MOST_HEADS)
            values = heads * self.whole("linear_value_head_dim", MOST_WIDTH)
            return Recurrent(
                "linear attention", ((2 * keys + 2 * values + 2 * heads, hidden), (hidden, values))
            )
        states = self.whole("ssm_state_size", MOST_WIDTH, 0) or self.whole("mamba_d_state", MOST_WIDTH)
        if heads := self.whole("mamba_num_heads", MOST_WIDTH, 0):
            inner = heads * self.whole("mamba_head_dim", MOST_WIDTH)
            mixed = 2 * inner + 2 * self.whole("n_groups", MOST_WIDTH) * states + heads
            return Recurrent("Mamba", ((mixed, hidden), (hidden, inner)))
        inner = hidden * self.whole("mamba_expand", 64)
        rank = self.given("mamba_dt_rank")
        steps = rank if isinstance(rank, int) and 0 < rank <= MOST_WIDTH else -(-hidden // 16)
        return Recurrent(
            "Mamba", ((2 * inner, hidden), (steps + 2 * states, inner), (inner, steps), (hidden, inner))
        )

    def _small(self, mixer: Any, mlp: Mlp | None, hidden: int, norms: int) -> int:
        """Numbers of a layer beside its matrices: norms, biases, sinks, filters."""
        family, biases = self.family, set(self.family.biases)
        biases |= (
            {"qkv", "out"} if self.flag("attention_bias", False) or self.flag("use_bias", False) else set()
        )
        biases |= {"mlp"} if self.flag("mlp_bias", False) else set()
        numbers = norms * family.norm_parts * hidden
        if isinstance(mixer, Attention):
            rows = {matrix.name: matrix.rows for matrix in mixer.matrices(hidden)}
            numbers += family.head_norms * mixer.head_dim + mixer.heads * mixer.sinks
            numbers += (rows.get("Q, K, V", 0) if "qkv" in biases else 0) + hidden * ("out" in biases)
            numbers += (mixer.latent or 0) + (mixer.q_latent or 0)  # their norms
        if isinstance(mixer, Recurrent):
            numbers += self._filters(mixer, hidden)
        if mlp and ("mlp" in biases or (mlp.experts > 1 and self.family.sinks)):
            every = mlp.matrices(hidden)
            numbers += sum(matrix.rows * matrix.copies for matrix in every)
        if mlp and mlp.shared and self.given("shared_expert_intermediate_size"):
            numbers += hidden  # the gate of the shared expert
        if mlp and mlp.experts > 1 and self.given("topk_method") == "noaux_tc":
            numbers += mlp.experts  # a bias of each in the choice
        return numbers

    def _filters(self, mixer: Recurrent, hidden: int) -> int:
        """Numbers of a layer with a state beside its matrices: convolution, decay, steps and norms."""
        inner = mixer.shapes[-1][1]
        if mixer.name == "linear attention":
            heads = self.whole("linear_num_value_heads", MOST_HEADS)
            mixed = mixer.shapes[0][0] - inner - 2 * heads
            width = self.whole("linear_conv_kernel_dim", MOST_WIDTH, 4)
            return mixed * width + 2 * heads + self.whole("linear_value_head_dim", MOST_WIDTH)
        if heads := self.whole("mamba_num_heads", MOST_WIDTH, 0):
            mixed = mixer.shapes[0][0] - inner - heads
            return mixed * (self.whole("conv_kernel", MOST_WIDTH, 4) + 1) + 3 * heads + inner
        states = self.whole("mamba_d_state", MOST_WIDTH)
        width = self.whole("mamba_d_conv", MOST_WIDTH, 4) + 1
        return inner * (width + states + 2) + mixer.shapes[2][1] + 2 * states

    def _dtype(self) -> str:
        """Of the weights and of K and V."""
        found = self.given("torch_dtype") or self.outside.get("torch_dtype") or self.outside.get("dtype")
        if found is None:
            self.say("torch_dtype is missing: bfloat16 is taken.")
            return "bfloat16"
        named = str(found).removeprefix("torch.")
        if named not in DTYPES:
            self.fault(f"torch_dtype is {shown(found)}; it must be one of {', '.join(DTYPES)}.")
            return "bfloat16"
        return named

    def _quantized(self) -> str:
        """How its checkpoint keeps most weights."""
        found = self.given("quantization_config") or self.outside.get("quantization_config")
        method = found.get("quant_method") if isinstance(found, dict) else found
        if method is None or method in ("mxfp4", "fp8"):
            return method or ""
        self.say(f"quantization_config is {shown(method)}, which is not known here: 16 bits are taken.")
        return ""

    def _leftovers(self) -> None:
        """Say of every field that is left over what is done about it."""
        for field, value in self.config.items():
            if field in LEFT_OUT and value:
                self.say(f"{field} is given: {LEFT_OUT[field].format(value)}.")
            elif not (field in self.asked or value in (None, False, [], {}, "") or HARMLESS.fullmatch(field)):
                self.say(f"{shown(field)[1:-1]} is {_shown(value)}: it is not known here and left out.")
