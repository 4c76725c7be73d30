"""Layers that are recorded: what is timed computes what the model says, whichever attention stands in it."""

import json

import pytest

from engine.layers.config import read
from engine.layers.phase import DECODE, PREFILL
from engine.measuring import clock, layers
from engine.measuring.recorder import Recorder
from engine.recordings.file import load
from engine.recordings.timing import LayerTiming
from tests.engine.test_recording import DEVICE

torch = pytest.importorskip("torch")

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "layer_types": ["full_attention"]}
LATENT = {
    **{"model_type": "deepseek_v3", "num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 512},
    **{"qk_nope_head_dim": 32, "qk_rope_head_dim": 64, "v_head_dim": 32, "first_k_dense_replace": 1},
}
MODELS = {
    "llama": TINY,
    "experts": {**TINY, "model_type": "gpt_oss", "head_dim": 16, **EXPERTS},
    "latent": {**TINY, **LATENT},
}
TIMED = {"llama": PREFILL, "experts": PREFILL, "latent": DECODE}
CLOSE = 0.06  # of numbers about 1: some steps of bfloat16


@pytest.fixture
def tiny(monkeypatch):
    models = {name: read(json.dumps(config), name) for name, config in MODELS.items()}
    monkeypatch.setattr(layers, "shipped", models.__getitem__)
    rows = [[LayerTiming(name, model.layers[0][0].kind, TIMED[name], 8, 1)] for name, model in models.items()]
    monkeypatch.setattr(layers, "together", lambda *_: rows)
    monkeypatch.setattr(layers, "REPEATS", clock.Repeats(1, 1, 0.1))
    return models


def built(name: str, phase: str, tokens: int = 12, batch: int = 1) -> layers.Built:
    torch.manual_seed(0)
    row = LayerTiming(name, layers.shipped(name).layers[0][0].kind, phase, tokens, batch)
    model, layer = layers._layer(row)
    weights = [layers._weights(each, False) for each in layer.matrices(model.hidden)]
    return layers.Built(layer, layers._problem(row), model.hidden, weights, False)


def close(one, other) -> bool:
    return (one.float() - other.float()).abs().max() < CLOSE * other.float().abs().max()


@pytest.mark.parametrize("phase", [PREFILL, DECODE])
def test_a_layer_gives_the_same_by_both_attentions_and_something_else_by_neither(tiny, phase):
    made = built("llama", phase)
    calls = *made.attentions().values(), made.pytorch()
    ours, fixed, pytorch = (made.run(each, 1) for each in calls)
    assert close(ours, pytorch)
    assert not close(fixed, pytorch)


def test_experts_give_each_token_what_its_own_weigh(tiny):
    made = built("experts", PREFILL)
    *_, router, up, down = made.weights
    h = made.make(made.rows, 64)
    lots = made.lots[0]
    values, chosen = lots.topk(2)

    def weighed(row, weights, ids):
        each = zip(weights, ids, strict=True)
        return sum(weight * layers.mlp(row[None], [up[at], down[at]])[0] for weight, at in each)

    tokens = zip(h, values.softmax(-1), chosen, strict=True)
    expected = torch.stack([weighed(*token) for token in tokens])
    assert close(layers.experts(h, [router, up, down], lots, 2), expected)


def test_a_latent_decoded_is_the_last_row_of_its_prefill(tiny):
    """Projections absorbed, one key head: the same numbers as K and V made for every head."""
    whole, last = built("latent", PREFILL), built("latent", DECODE)
    whole.weights[1] *= 8  # queries: so that weights of keys differ
    last.weights, own, kept = whole.weights, whole.layer.attention, []
    _, h = layers.between.norm(*whole.inputs)
    out, _ = whole.mixed(h, lambda q, k, v: kept.extend((q, k)) or whole.attentions()["times"](q, k, v))
    queries, keys = (each[0, :, :, -own.rope_dim :] for each in kept)
    _, latent, _ = (h @ whole.weights[0].mT).split((own.q_latent, own.latent, own.rope_dim), 1)
    last.cache[0, 0, 0] = cached = torch.cat((layers.between.norm(latent)[1], keys[0]), -1)

    def attend(q, k, v):
        q, k = q.clone(), k.clone()
        q[0, :, 0, own.latent :], k[0, 0, -1] = queries[:, -1], cached[-1]  # turned by the last place
        scores = (q.float() @ k.float().mT) * own.head_dim**-0.5
        return (scores.softmax(-1) @ k[..., : own.latent].float()).bfloat16()

    found, _ = last.mixed(h[-1:], attend)
    assert close(found[0], out[-1])


def test_recorded_layers_are_kept_row_by_row_and_read_back(tiny, tmp_path):
    path = tmp_path / "layers.json"
    for _ in range(2):  # the second finds everything there
        recorder = Recorder(path, DEVICE, 600.0, lambda line: None)
        layers.record(recorder)
        recorder.close()
    found = load(path)
    assert {row.model: row.phase for row in found.layers} == TIMED
    assert all(row.times.p50 > 0 < row.rest.p50 and row.skipped is None for row in found.layers)
    llama, experts, latent = found.layers
    assert llama.pytorch
    assert "sinks" in experts.refused
    assert "latent" in latent.refused


def test_a_layer_that_cannot_be_timed_says_why(tiny, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(layers, "_weights", full)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10**9, 80 * 10**9))
    row = layers.together()[0][0]
    assert "out of memory" in next(layers._timed([row], False)).skipped
