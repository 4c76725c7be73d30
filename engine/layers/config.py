"""A model's config.json, read field by field: what is missing or wrong is an error, what is taken is said."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as made_anew
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.layers.model import Attention, Layer, Mlp, Model, Recurrent
from engine.parameter import LARGEST_SEQUENCE, shown
from engine.problem.dtype import DTYPES
from engine.root import ROOT, Refusal

FOLDER = ROOT / "assets" / "models"
MOST_BYTES, DEEPEST = 10**6, 32
MOST_LAYERS, MOST_HEADS, MOST_HEAD_DIM, MOST_WIDTH, MOST_WORDS = 1024, 1024, 256, 2**22, 2**24
FIELDS = json.loads((ROOT / "assets" / "config_fields.json").read_text("utf-8"))  # which says what it holds
NAMES, INSIDE, MIXERS, LEFT_OUT = (FIELDS[name] for name in ("names", "inside", "mixers", "left_out"))
EVERY = {  # by which field every so-manieth layer has experts: what is added to its index, counted from 0
    **{"moe_layer_freq": 0, "decoder_sparse_step": 1, "interleave_moe_layer_step": 1},
}
HARMLESS = re.compile("|".join(FIELDS["harmless"]))
REQUIRED = object()
MLPS = "mlp", "moe"  # the others of MIXERS let tokens see one another


@dataclass(frozen=True)
class Family:
    gated: bool = True  # whether the MLP has a gate
    # norms, norm_parts: normalisations of a layer, and vectors of each: 2 where it has a bias
    norms: int = 2
    norm_parts: int = 1
    head_norms: int = 0  # vectors of a head dim that normalise Q and K
    biases: tuple[str, ...] = ()  # of "qkv", "out" and "mlp", what has a bias where no field says so
    tied: bool = False  # whether the embedding is the last matrix where no field says so
    positions: bool = False  # whether positions are learned vectors
    causal: bool = True  # whether a token sees none after it
    # sinks, slopes: whether each head has one
    sinks: bool = False
    slopes: bool = False
    full_every: int = 0  # of layers with a window, every so-manieth has none; 0: all have one
    gate: bool = False  # whether Q's matrix gives a gate for O
    # fields at the values that they have where config.json leaves them out
    given: Mapping[str, Any] = made_anew(default_factory=dict)


FAMILIES = {name: Family(**own) for names, own in FIELDS["families"].items() for name in names.split()}


class ConfigError(Refusal, ValueError):
    """A config that cannot be read: `faults` has one sentence for each field."""

    def __init__(self, *faults: str):
        super().__init__(" ".join(faults))
        self.faults = faults


def names() -> tuple[str, ...]:
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
    """The model that a config.json describes; raises ConfigError with a sentence for each field."""
    return _Reader(_parsed(text), name).model()


def _parsed(text: bytes | str) -> dict[str, Any]:
    if len(text) > MOST_BYTES:
        raise ConfigError(f"The file has more than {MOST_BYTES:,} bytes; a config.json has a few thousand.")
    try:
        found = json.loads(text)
        deep = _depth(found) > DEEPEST
    except RecursionError:
        deep = True
    except UnicodeDecodeError:
        raise ConfigError("The file is not text; it must be a model's config.json.") from None
    except ValueError as error:
        where = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(f"The file is not JSON{where}; it must be a model's config.json.") from None
    if deep:
        raise ConfigError(f"The file is nested more than {DEEPEST} deep; a config.json is not.")
    if not isinstance(found, dict):
        raise ConfigError(f"The file holds a {type(found).__name__}; a config.json holds an object.")
    return found


def _depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inside), default=0)


def _shown(value: Any) -> str:
    """A value as a sentence has it: what is no plain number is quoted and cut."""
    return str(value) if type(value) in (int, float, bool) and abs(value) < 10**15 else shown(value)


class _Reader:
    """One config, with what is wrong with it and what is to be said: sentences, each once."""

    def __init__(self, config: dict[str, Any], name: str):
        self.name, self.faults, self.said = name, {}, {}  # sentences are keys
        self.asked = {"title", "source", "date", *INSIDE}
        inside = next((config[key] for key in INSIDE if isinstance(config.get(key), dict)), {})
        self.config = {**config, **inside}
        self.family = Family()
        self.type = str(self.given("model_type") or "")[:60]
        self.family = FAMILIES.get(self.type, self.family)
        if self.type not in FAMILIES:
            named = f"model_type is {self.type!r}, which" if self.type else "model_type is missing: the model"
            self.say(f"{named} is read as one of llama's pattern, by the fields that it has.")

    def fault(self, sentence: str) -> None:
        self.faults[sentence] = None

    def say(self, sentence: str) -> None:
        self.said[sentence] = None

    def given(self, field: str) -> Any:
        """A field's value under any of its names; the family's where it is left out; None for null."""
        names = (field, *NAMES.get(field, ()))
        self.asked.update(names)
        value = next((self.config[name] for name in names if self.config.get(name) is not None), None)
        if value is None and field in self.family.given:
            value = self.family.given[field]
            self.say(f"{field} is left out: {value:,}, which {self.type} has then, is taken.")
        return value

    def whole(self, field: str, most: int, default: Any = REQUIRED, least: int = 1) -> Any:
        """A whole number; what is none, or missing without a default, is a fault."""
        value = self.given(field)
        must = f"it must be a whole number from {least:,} to {most:,}."
        if value is None and default is not REQUIRED:
            return default
        if type(value) is int and least <= value <= most:
            return value
        spelled = next((name for name in (field, *NAMES.get(field, ())) if name in self.config), field)
        self.fault(
            f"{field} is missing; {must}" if value is None else f"{spelled} is {_shown(value)}; {must}"
        )
        return 1

    def of_type(self, field: str, kind: type, default: Any, must: str) -> Any:
        """A value of a type, or the default; anything else is a fault."""
        value = self.given(field)
        if value is not None and not isinstance(value, kind):
            self.fault(f"{field} is {_shown(value)}; it must be {must}.")
        return value if isinstance(value, kind) else default

    def flag(self, field: str, default: bool = False) -> bool:
        return self.of_type(field, bool, default, "true or false")

    def listed(self, field: str) -> list:
        return self.of_type(field, list, [], "a list")

    # The model.

    def model(self) -> Model:
        """All of it; raises ConfigError with all faults."""
        family, hidden = self.family, self.whole("hidden_size", MOST_WIDTH)
        mixers = self._mixers(self.whole("num_hidden_layers", MOST_LAYERS))
        heads, vocab = self.whole("num_attention_heads", MOST_HEADS), self.whole("vocab_size", MOST_WORDS)
        alone = bool({*MLPS} & {*mixers})  # a layer is attention or an MLP, not both
        sparse = map(self._is_sparse, range(len(mixers)))
        mlps = mixers if alone else ["moe" if each else "mlp" for each in sparse]
        parts: dict[str, Any] = {
            "mlp": self._mlp(hidden) if "mlp" in mlps else None,
            "moe": self._experts() if "moe" in mlps else None,
            **{name: self._recurrent(name, hidden) for name in ("linear", "mamba") if name in mixers},
        }
        if {"full", "window", "chunk"} & {*mixers}:
            whole = parts["full"] = self._attention(hidden, heads)
            for name, field in (("window", "sliding_window"), ("chunk", "attention_chunk_size")):
                if name in mixers:
                    parts[name] = replace(whole, **{name: self.whole(field, LARGEST_SEQUENCE)})
        positions = self.whole("max_position_embeddings", MOST_WIDTH, 0) if family.positions else 0
        norms, layers = 1 if alone else family.norms, Counter()
        for mixer, mlp in zip(mixers, mlps, strict=True):
            pair = parts[mixer] if mixer not in MLPS else None, parts[mlp] if mlp in MLPS else None
            layers[Layer(*pair, norms, self._small(*pair, hidden, norms))] += 1
        named = ((name, str(self.config.get(name, ""))) for name in ("title", "source", "date"))
        text = {name: " ".join(words.split())[:300] for name, words in named}
        text["title"] = text["title"][:60] or self.name
        model = Model(
            *(self.name, tuple(layers.items()), hidden, vocab, self.flag("tie_word_embeddings", family.tied)),
            **{"dtype": self._dtype(), "quantized": self._quantized(), "causal": family.causal, **text},
            others=hidden * (positions + family.norm_parts * bool(family.norms)),
        )
        self._leftovers()
        if self.faults:
            raise ConfigError(*self.faults)
        return replace(model, said=tuple(self.said))

    def _mixers(self, count: int) -> list[str]:
        """What every layer is: full, window, chunk, linear, mamba, mlp or moe."""
        pattern = self.of_type("hybrid_override_pattern", str, "", "text")
        if named := list(pattern) or self.listed("layer_types"):
            field = "hybrid_override_pattern" if pattern else "layer_types"
            if len(named) != count:
                self.fault(f"{field} names {len(named):,} layers; num_hidden_layers is {count:,}.")
            if unknown := [each for each in named if not isinstance(each, str) or each not in MIXERS]:
                must = f"each must be one of {', '.join(MIXERS)}."
                self.fault(f"{field} has {shown(unknown[0])}; {must}")
                return ["full"] * count
            return [MIXERS[each] for each in named]
        counted = range(1, count + 1)
        if period := self.whole("attn_layer_period", MOST_LAYERS, 0):
            offset = self.whole("attn_layer_offset", MOST_LAYERS, 0, 0)
            return ["mamba" if (index - 1 - offset) % period else "full" for index in counted]
        if interval := self.whole("full_attention_interval", MOST_LAYERS, 0):
            return ["linear" if index % interval else "full" for index in counted]
        if "llama4" in self.type and self.whole("attention_chunk_size", LARGEST_SEQUENCE, 0):
            chunked = self.listed("no_rope_layers") or [index % 4 for index in counted]
            return ["chunk" if each else "full" for each in chunked[:count]]
        if not (
            self.flag("use_sliding_window", True) and self.whole("sliding_window", LARGEST_SEQUENCE, 0, 0)
        ):
            return ["full"] * count
        if every := self.whole("global_attn_every_n_layers", MOST_LAYERS, 0):
            return ["window" if (index - 1) % every else "full" for index in counted]
        every = self.whole("sliding_window_pattern", MOST_LAYERS, self.family.full_every)
        asked = "use_sliding_window" in self.config
        first = self.whole("max_window_layers", MOST_LAYERS, 0, 0) if asked else 0
        return ["full" if index <= first or (every and index % every == 0) else "window" for index in counted]

    def _attention(self, hidden: int, heads: int) -> Attention:
        cap = self.of_type("attn_logit_softcapping", int | float, None, "a number above 0")
        if cap is not None and not 0 < cap < math.inf:
            self.fault(f"attn_logit_softcapping is {_shown(cap)}; it must be a number above 0.")
        sinks = self.family.sinks or self.flag("attention_sink_bias")
        slopes = self.family.slopes or self.flag("alibi")
        terms = {"softcap": cap and float(cap), "sinks": sinks, "slopes": slopes, "gated": self.family.gate}
        if self.given("kv_lora_rank") is not None:
            rope = self.whole("qk_rope_head_dim", MOST_HEAD_DIM)
            plain, v_dim = (self.whole(f"{each}_head_dim", MOST_HEAD_DIM) for each in ("qk_nope", "v"))
            latents = self.whole("kv_lora_rank", 512), rope, self.whole("q_lora_rank", MOST_WIDTH, None)
            named = dict(zip(("latent", "rope_dim", "q_latent"), latents, strict=True))
            return Attention(heads, heads, rope + plain, v_dim, **terms | {"gated": False} | named)
        kv_heads = self.whole("num_key_value_heads", MOST_HEADS, 1 if self.flag("multi_query") else heads)
        head_dim = self.whole("head_dim", MOST_HEAD_DIM, hidden // heads)
        if not self.faults:
            if heads % kv_heads:
                self.fault(f"num_key_value_heads is {kv_heads}; it must divide the {heads} heads.")
            if self.given("head_dim") is None and (hidden % heads or head_dim > MOST_HEAD_DIM):
                must = f"which is none of 1 to {MOST_HEAD_DIM}"
                self.fault(f"head_dim is missing, and hidden_size is {hidden} over {heads} heads, {must}.")
        return Attention(
            heads, kv_heads, head_dim, self.whole("v_head_dim", MOST_HEAD_DIM, head_dim), **terms
        )

    def _is_sparse(self, index: int) -> bool:
        first = self.whole("first_k_dense_replace", MOST_LAYERS, 0, 0)
        listed, frequency = self.listed("moe_layers"), self.given("moe_layer_freq")
        some = self.whole("num_experts", MOST_WIDTH, 0, 0)
        if not some or index < first or index in self.listed("mlp_only_layers"):
            return False
        if listed or isinstance(frequency, list):
            return index in listed if listed else index < len(frequency) and bool(frequency[index])
        offset = self.whole("expert_layer_offset", MOST_LAYERS, 0, 0)
        every = {**EVERY, "expert_layer_period": -offset}
        return all((index + more) % self.whole(field, MOST_LAYERS, 1) == 0 for field, more in every.items())

    def _mlp(self, hidden: int) -> Mlp:
        field = "intermediate_size_mlp" if self.given("intermediate_size_mlp") else "intermediate_size"
        default = REQUIRED if self.family.gated else 4 * hidden  # what GPT-2's pattern takes
        return Mlp(self.whole(field, MOST_WIDTH, default), self.family.gated)

    def _experts(self) -> Mlp:
        experts, active = self.whole("num_experts", 2**16), self.whole("num_experts_per_tok", 2**16)
        if active > experts:
            self.fault(f"num_experts_per_tok is {active}; it must be at most the {experts} experts.")
        own = "moe_intermediate_size" if self.given("moe_intermediate_size") else "intermediate_size"
        width = self.whole(own, MOST_WIDTH)
        always = width * self.whole("n_shared_experts", 2**16, int(self.type == "llama4_text"), 0)
        for field in ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"):
            always = self.whole(field, MOST_WIDTH, always, 0)
        return Mlp(width, self.family.gated, experts, active, always)

    def _recurrent(self, kind: str, hidden: int) -> Recurrent:
        """A layer with a state, of which the matrices are counted."""
        self.say("Of layers without attention only the matrices are counted, not their scans and states.")
        if kind == "linear":
            keys, values = (
                self.whole(f"linear_num_{each}_heads", MOST_HEADS)
                * self.whole(f"linear_{each}_head_dim", MOST_WIDTH)
                for each in ("key", "value")
            )
            mixed = 2 * (keys + values + self.whole("linear_num_value_heads", MOST_HEADS))
            return Recurrent("linear attention", ((mixed, hidden), (hidden, values)))
        states = self.whole("ssm_state_size", MOST_WIDTH, 0) or self.whole("mamba_d_state", MOST_WIDTH)
        if heads := self.whole("mamba_num_heads", MOST_WIDTH, 0):
            inner = heads * self.whole("mamba_head_dim", MOST_WIDTH)
            mixed = 2 * inner + 2 * self.whole("n_groups", MOST_WIDTH) * states + heads
            return Recurrent("Mamba", ((mixed, hidden), (hidden, inner)))
        inner, rank = hidden * self.whole("mamba_expand", 64), self.given("mamba_dt_rank")
        steps = self.whole("mamba_dt_rank", MOST_WIDTH, 0) if rank != "auto" else -(-hidden // 16)
        shapes = (2 * inner, hidden), (steps + 2 * states, inner), (inner, steps), (hidden, inner)
        return Recurrent("Mamba", shapes)

    def _small(self, mixer: Any, mlp: Mlp | None, hidden: int, norms: int) -> int:
        """Numbers of a layer beside its matrices: norms, biases, sinks."""
        family, biases = self.family, {*self.family.biases}
        biases |= {"qkv", "out"} if self.flag("attention_bias") or self.flag("use_bias") else set()
        numbers = norms * family.norm_parts * hidden
        if isinstance(mixer, Attention):
            rows = {matrix.name: matrix.rows for matrix in mixer.matrices(hidden)}
            numbers += family.head_norms * mixer.head_dim + mixer.heads * mixer.sinks
            numbers += rows.get("Q, K, V", 0) * ("qkv" in biases) + hidden * ("out" in biases)
            numbers += (mixer.latent or 0) + (mixer.q_latent or 0)  # their norms
        if mlp and ("mlp" in biases or self.flag("mlp_bias") or (mlp.experts > 1 and family.sinks)):
            numbers += sum(matrix.rows * matrix.copies for matrix in mlp.matrices(hidden))
        if mlp and mlp.always and self.given("shared_expert_intermediate_size"):
            numbers += hidden  # the gate of the shared expert
        if mlp and mlp.experts > 1 and self.given("topk_method") == "noaux_tc":
            numbers += mlp.experts  # a bias of each in the choice
        return numbers

    def _dtype(self) -> str:
        found = str(self.given("torch_dtype") or "").removeprefix("torch.")
        if not found:
            self.say("torch_dtype is missing: bfloat16 is taken.")
        elif found not in DTYPES:
            self.fault(f"torch_dtype is {shown(found)}; it must be one of {', '.join(DTYPES)}.")
        return found if found in DTYPES else "bfloat16"

    def _quantized(self) -> str:
        """How its checkpoint keeps most weights."""
        found = self.given("quantization_config")
        method = found.get("quant_method") if isinstance(found, dict) else found
        if method and method not in ("mxfp4", "fp8"):
            self.say(f"quantization_config is {shown(method)}, which is not known here: 16 bits are taken.")
        return method if method in ("mxfp4", "fp8") else ""

    def _leftovers(self) -> None:
        """Say of every field that is left over what is done about it."""
        for field, value in self.config.items():
            if field in LEFT_OUT and value:
                self.say(f"{field} is given: {LEFT_OUT[field].format(_shown(value))}.")
            elif not (field in self.asked or value in (None, False, [], {}, "") or HARMLESS.search(field)):
                self.say(f"{shown(field)[1:-1]} is {_shown(value)}: it is not known here and left out.")
