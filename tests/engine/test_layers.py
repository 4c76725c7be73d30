"""A model's config as layers: counts and bytes as published, a layer by hand, and what is refused."""

import json
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Experiment, ExperimentError, simulate
from engine.__main__ import main
from engine.layers.config import FOLDER, ConfigError, names, opened, read, shipped
from engine.layers.model import Matrix
from engine.layers.phase import DECODE, PREFILL, TRAIN, Phase
from engine.layers.rest import START, product_seconds
from engine.problem.hardware import GPUS

REACHED = GPUS["h200"].reached
TURN = 2 * REACHED.reads / REACHED.copies - 1  # of a byte that is written

LLAMA = {
    **{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32},
    **{"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16"},
}
# `total_size` in model.safetensors.index.json of each on Hugging Face; GPT-2's 124,439,808 parameters
WEIGHTS = {
    "llama-3-8b": 16_060_522_496,
    "llama-3-70b": 141_107_412_992,
    "mistral-7b": 14_483_464_192,
    "gemma-2-9b": 18_483_411_968,
    "qwen3-8b": 16_381_470_720,
    "qwen3-30b-a3b": 61_064_245_248,
    "phi-3-mini": 7_642_159_104,
    "gpt2": 2 * 124_439_808,
}
CACHES = {  # model, tokens: bytes, as published
    ("llama-3-8b", 128_000): 15.625 * 2**30,  # huggingface.co/blog/llama31: 15.62 GB
    ("llama-3-70b", 128_000): 39.0625 * 2**30,  # the same: 39.06 GB
    ("deepseek-v3", 1): 70_272,  # arXiv 2505.09343, Table 1: 70.272 KB
    ("jamba-mini", 2**18): 4 * 2**30,  # arXiv 2403.19887, Table 1: 4 GB of 256K tokens
    ("llama-3-405b", 1): 516_096,  # arXiv 2505.09343, Table 1: 516.096 KB
}
JUNK = (None, 0, -1, 7, 2**31, 1.5, float("nan"), True, "", "é\n<b>", [], [1], [None] * 40, {"a": 1}, "M*-E")


def test_weights_keys_and_values_are_as_published():
    shape = {"hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128}
    large = read(json.dumps({**LLAMA, **shape}))  # 405B, which is not shipped
    assert {name: shipped(name).weight_bytes() for name in WEIGHTS} == WEIGHTS
    for (name, tokens), size in CACHES.items():
        assert (shipped(name) if name in names() else large).cache_bytes(tokens) == size, name


def test_experts_are_as_published():
    """arXiv 2508.10925, Table 1 and its checkpoints: 116.83 and 20.91 billion, 60.8 and 12.8 GiB."""
    large, small = shipped("gpt-oss-120b"), shipped("gpt-oss-20b")
    assert (round(large.parameters / 1e9, 2), round(small.parameters / 1e9, 2)) == (116.83, 20.91)
    assert (round(large.weight_bytes() / 2**30, 1), round(small.weight_bytes() / 2**30, 1)) == (60.8, 12.8)
    assert shipped("deepseek-v3").parameters // 10**9 == 671  # arXiv 2412.19437


def test_layers_alternate_as_their_models_do():
    kinds = {name: {layer.kind: count for layer, count in shipped(name).layers} for name in names()}
    assert len(kinds) >= 14
    assert list(kinds["gemma-2-9b"].values()) == [21, 21]
    assert kinds["gemma-3-27b"] == {"attention within 1,024 keys, MLP": 52, "attention, MLP": 10}
    assert kinds["deepseek-v3"] == {"latent attention, MLP": 3, "latent attention, 8 of 256 experts": 58}
    assert kinds["jamba-mini"] == {"Mamba, MLP": 12, "Mamba, 2 of 16 experts": 16, "attention, MLP": 4}
    assert kinds["nemotron-h-56b"] == {"Mamba": 54, "MLP": 54, "attention": 10}
    assert kinds["qwen3-next-80b-a3b"]["attention, 10 of 512 experts"] == 12
    assert set(kinds["gpt-oss-20b"].values()) == {12}
    for name in names():
        model = shipped(name)
        assert model.source.startswith("https://")
        assert model.date
        assert not [each for each in model.said if "not known" in each], name


def test_a_layer_of_llama_by_hand():
    """Prefill of 8,192 tokens: FLOPs over 93.5% of what products reach, bytes over what reads do."""
    n, hidden, width, queries, keys = 8192, 4096, 14336, 32 * 128, 2 * 8 * 128
    matrices = hidden * (queries + keys) + queries * hidden + 3 * hidden * width
    products = 2 * n * matrices / (0.935 * REACHED.matrix * 989.4e12)
    # 2 norms read 2 and write 2 numbers of 2 bytes per hidden one, positions turn Q and K, and a gate
    read = 2 * n * (2 * 2 * hidden + queries + keys // 2 + 2 * width)
    written = 2 * n * (2 * 2 * hidden + queries + keys // 2 + width)
    between = (read + TURN * written) / (REACHED.reads * 4.8e12)
    found = Phase(PREFILL, tokens=n).of(shipped("llama-3-8b"))
    (part,) = found.parts
    assert part.other_seconds == pytest.approx(products + between + 4 * REACHED.launch, rel=1e-9)
    alone = simulate(part.experiment).modelled
    assert alone.limited
    assert part.attention_seconds == pytest.approx(alone.seconds / REACHED.sustained_clock)
    assert part.experiment.record.key == "flash3"
    head = 2 * hidden * 128_256 / (REACHED.reads * 4.8e12) + 6.4e-6  # of the last token: its matrix is read
    assert found.seconds == pytest.approx(32 * part.seconds + head, rel=1e-3)
    step = Phase(TRAIN, tokens=n).of(shipped("llama-3-8b"))
    assert step.parts[0].other_seconds == pytest.approx(3 * part.other_seconds)


def test_a_decoded_layer_of_llama_by_hand():
    """16 tokens: weights and rows over what reads reach, 6.4 us a product, a launch for what lies between."""
    rows, hidden, width, queries, keys = 16, 4096, 14336, 32 * 128, 2 * 8 * 128
    shapes = ((queries + keys, hidden), (hidden, queries), (2 * width, hidden), (hidden, width))
    moved = sum(2 * (out * into + rows * (into + TURN * out)) for out, into in shapes)
    # norms, positions, K and V into the cache, the gate
    read = 2 * 2 * hidden + (queries + keys // 2) + keys + 2 * width
    written = read - width
    moved += 2 * rows * (read + TURN * written)
    (part,) = Phase(DECODE, 8192, rows).of(shipped("llama-3-8b")).parts
    expected = moved / (REACHED.reads * 4.8e12) + 4 * 6.4e-6 + 5 * REACHED.launch
    assert part.other_seconds == pytest.approx(expected)
    assert part.attention_seconds == simulate(part.experiment).modelled.seconds


def test_decoding_reads_weights_once_and_every_cache():
    few, many = (Phase(DECODE, 8192, batch).of(shipped("llama-3-8b")) for batch in (1, 64))
    weights = sum(matrix.parameters for matrix in few.model.layers[0][0].matrices(4096)) * 2
    assert few.parts[0].other_seconds > weights / 4.57e12
    assert many.parts[0].other_seconds < 1.1 * few.parts[0].other_seconds
    assert many.kv_cache_bytes == 64 * 2**30
    assert many.attention_share > 3 * few.attention_share
    assert many.sequences == (GPUS["h200"].memory_bytes - WEIGHTS["llama-3-8b"]) // 2**30
    experiment = many.parts[0].experiment
    assert (experiment.algorithm, experiment.problem.seq_q, experiment.problem.batch) == ("split_kv", 1, 64)


def test_a_batch_touches_experts():
    """Of 128 experts a token takes 8, 64 tokens almost all; two SMs read 128 of a matrix's rows at a time."""
    model, rate, tokens = shipped("qwen3-30b-a3b"), 25 * GPUS["h200"].clock_hz, 64  # of two SMs
    touched = 128 * (1 - (1 - 8 / 128) ** tokens)
    waves = [ceil(touched * tiles / 66) for tiles in (2 * 768 / 128, 2048 / 128)]
    expected = waves[0] * 128 * 2048 * 2 / rate + waves[1] * 128 * 768 * 2 / rate
    found = [
        product_seconds(model, matrix, "h200", tokens) - START - 2 * REACHED.launch
        for matrix in model.layers[0][0].matrices(model.hidden)
        if matrix.copies > 1
    ]
    assert sum(found) == pytest.approx(expected)
    one = [product_seconds(model, Matrix("", 4096, 4096, 16, 2), "h200", rows) for rows in (64, 1024)]
    full = 2 * 2 * 1024 * 4096**2 / (0.935 * REACHED.matrix * 989.4e12)  # 128 rows an expert
    assert one[1] == pytest.approx(1.5 * one[0], rel=0.1)
    assert one[1] > full


@pytest.mark.parametrize("parallel", [2, 4, 8])
def test_gpus_share_out_heads_and_widths(parallel):
    model = shipped("llama-3-70b")
    alone, shared = (Phase(PREFILL, 4096, parallel=count).of(model) for count in (1, parallel))
    assert shared.kv_cache_bytes * parallel == alone.kv_cache_bytes
    assert shared.weight_bytes * parallel == pytest.approx(alone.weight_bytes, rel=1e-3)
    assert shared.parts[0].experiment.problem.heads == 64 // parallel
    assert "What GPUs send one another is left out." in shared.said
    latent = shipped("deepseek-v3")  # whose latent lies on all
    assert latent.cache_bytes(4096, parallel) == latent.cache_bytes(4096)
    few = shipped("qwen3-30b-a3b")  # 4 key heads
    assert few.cache_bytes(64, 8) == few.cache_bytes(64, 4)


def test_an_experiment_has_the_mask_of_its_layer():
    parts = Phase(tokens=8192).of(shipped("gemma-2-9b")).parts
    assert [part.experiment.problem.mask.window for part in parts] == [4096, None]
    pieces = read(json.dumps({**LLAMA, "model_type": "llama4_text", "attention_chunk_size": 1000}))
    first, whole = Phase(tokens=2048).of(pieces).parts
    assert (first.count, first.experiment.problem.mask.documents) == (24, (1000, 1000, 48))
    assert not whole.experiment.problem.mask.packed
    encoder = read(json.dumps({**LLAMA, "model_type": "bert"}))
    assert not Phase().of(encoder).parts[0].experiment.problem.mask.hides


BAD = [  # what is wrong, and the sentence that says so
    (b" " * 10**7, "The file has more than 1,000,000 bytes; a config.json has a few thousand."),
    (b'{"a":' * 1000 + b"1" + b"}" * 1000, "nested more than 32 deep"),
    (b"[" * 10**5, "nested more than 32 deep"),
    (b"hidden_size: 4096", "The file is not JSON in line 1; it must be a model's config.json."),
    (b"\xff\xfe\x00", "it must be a model's config.json."),
    (b"[1, 2]", "The file holds a list; a config.json holds an object."),
    ({"num_attention_heads": -8}, "num_attention_heads is -8; it must be a whole number from 1 to 1,0"),
    ({"hidden_size": float("nan")}, "hidden_size is 'nan'; it must be a whole number from 1 to 4,194,304."),
    ({"num_hidden_layers": True}, "num_hidden_layers is True; it must be a whole number"),
    ({"intermediate_size": None}, "intermediate_size is missing; it must be a whole number"),
    ({"num_key_value_heads": 5}, "num_key_value_heads is 5; it must divide the 32 heads."),
    ({"hidden_size": 4097}, "head_dim is missing, and hidden_size is 4097 over 32 heads, which is none"),
    ({"layer_types": ["attention"]}, "layer_types names 1 layers; num_hidden_layers is 32."),
    ({"layer_types": ["hyena"] * 32}, "layer_types has 'hyena'; each must be one of full_attention,"),
    ({"torch_dtype": "int3"}, "torch_dtype is 'int3'; it must be one of float16, bfloat16, float32"),
    ({"attn_logit_softcapping": -1}, "attn_logit_softcapping is -1; it must be a number above 0."),
    ({"num_experts": 4, "num_experts_per_tok": 8}, "num_experts_per_tok is 8; it must be at most the 4"),
    ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no'; it must be true or false."),
]


@pytest.mark.parametrize(("given", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_a_bad_config_is_one_sentence_per_field(given, sentence):
    text = given if isinstance(given, bytes) else json.dumps({**LLAMA, **given})
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert len(caught.value.faults) == 1
    assert sentence in str(caught.value)
    assert str(caught.value).endswith((".", "config.json is not."))


@given(st.sampled_from(names()), st.data())
def test_whatever_stands_in_a_config_is_read_or_refused_in_sentences(name, data):
    config = json.loads((FOLDER / f"{name}.json").read_text())
    inside = config.get("text_config", config)
    for field in data.draw(st.lists(st.sampled_from([*inside, "index_topk", "layer_types"]), max_size=4)):
        inside[field] = data.draw(st.sampled_from(JUNK))
    try:
        model = read(json.dumps(config))
        said = model.said
        assert Phase(tokens=64).of(model).seconds > 0
    except ConfigError as error:
        said = error.faults
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in said)


def test_what_is_not_understood_is_said_by_field():
    model = read(json.dumps({**LLAMA, "model_type": "novel", "index_topk": 2048, "attn_window_shift": 3}))
    assert model.said == (
        "model_type is 'novel', which is read as one of llama's pattern, by the fields that it has.",
        "index_topk is given: attention is taken over all keys, not over the 2048 that a query selects.",
        "attn_window_shift is 3: it is not known here and left out.",
    )
    assert read(json.dumps({**LLAMA, "rope_theta": 5e5, "rms_norm_eps": 1e-5})).said == ()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"name": "rest"}, "phase is rest; it must be one of prefill, decode, train"),
        ({"tokens": 0}, "tokens is 0; it must be a whole number from 1 to 1,048,576"),
        ({"parallel": 3}, "parallel is 3; it must be one of 1, 2, 4, 8"),
        ({"parallel": 8}, "is 8; it must be a number that divides the 12 heads and the 12 key heads"),
    ],
)
def test_a_bad_phase_is_one_sentence(values, sentence):
    with pytest.raises(ExperimentError, match=sentence):
        Phase(**values).of(shipped("gpt2"))


def test_the_command_prints_one_object(capsys, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(LLAMA))
    assert main(["model", str(file), "--phase", "decode", "--tokens", "4096", "--batch", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (layer,) = found["layers"]
    assert {"kind", "count", "experiment", "attention_seconds", "other_seconds"} <= layer.keys()
    assert Experiment.of(**layer["experiment"]).problem.batch == 2
    assert found["kv_cache_bytes"] == 2 * opened(str(file)).cache_bytes(4096)
    assert found["weight_bytes"] == WEIGHTS["llama-3-8b"]
    assert 0 < found["attention_share"] < 1
    assert main(["model", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(names())
    assert main(["model", "gpt2", "--tokens", "128"]) == 0
    assert "attention, MLP" in capsys.readouterr().out
