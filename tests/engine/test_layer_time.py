"""Attention's slice of a layer, held against the layer's matrices by hand and what a slice can give."""

import pytest

from engine.experiment import Experiment
from engine.layers.config import shipped
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.studies.your_model import PROMPTS, TAUGHT, layer_time, taught

MATRICES = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336  # Llama 3 8B: q and o, k and v, the MLP
PEAK = 989.5e12  # FLOP/s of an H200 in 16 bits, by its data sheet


@pytest.mark.parametrize("tokens", PROMPTS)
def test_a_layer_gains_no_more_than_attentions_slice_allows(tokens):
    at = layer_time(shipped(TAUGHT), tokens, "h200")
    share = at.shares[0]
    assert 1 < at.gain < 1 / (1 - share)
    assert at.gain == pytest.approx(1 / (1 - share + share / at.attention_gain))  # Amdahl
    assert at.gain < at.attention_gain
    peak = 2 * MATRICES * tokens / PEAK
    assert peak < at.rest
    assert tokens < 4096 or at.rest < 1.5 * peak  # where the products' starts no longer count


def test_attention_in_it_is_the_models_own_and_stored_scores_end_where_memory_does():
    at = taught(Experiment.of(seq=8192, hardware="h200"))
    call = {"heads": 32, "kv_heads": 8, "seq": 8192, "head_dim": 128, "dtype": "bfloat16", "causal": True}
    for algorithm, seconds in (("standard", at.standard), ("flash3", at.fast)):
        asked = Experiment.of(algorithm=algorithm, hardware="h200", **call).in_own_tiling()
        alone = simulate(asked).modelled
        lower = (
            GPUS["h200"].reached.sustained_clock if alone.limited else 1.0
        )  # a prompt's other layers heat it
        assert alone.seconds <= seconds <= alone.seconds / lower
    assert (at.tokens, at.label) == (8192, "FlashAttention-3")
    stored = {tokens: 2 * 2 * 32 * tokens**2 for tokens in PROMPTS}  # S and P in 16 bits
    for tokens, size in stored.items():
        assert layer_time(shipped(TAUGHT), tokens, "h200").fits == (size < 141e9), tokens
