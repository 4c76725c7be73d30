"""Modelled DRAM bytes against an H200's counters, and the cache against a slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.l2 import Cache
from engine.schedule import Tensor

# dram__bytes_read.sum over Q, K and V once, plain flash2 kernel, float16, measured on an H200 with ncu
COUNTED = [
    pytest.param(1, 16, 4096, 64, 1.000, id="K-and-V-fit"),
    pytest.param(1, 1, 65536, 64, 2.973, id="K-and-V-do-not-fit"),
    pytest.param(1, 8, 32768, 32, 1.402, id="two-heads-straddle-the-capacity"),
]


@pytest.mark.parametrize(("batch", "heads", "seq", "block_kv", "ratio"), COUNTED)
def test_flash2_reads_what_the_counters_of_an_h200_say(batch, heads, seq, block_kv, ratio):
    experiment = Experiment.of(
        batch=batch, heads=heads, seq=seq, head_dim=128, block_q=128, block_kv=block_kv, hardware="h200"
    )
    traffic = simulate(experiment).traffic
    assert traffic.dram.total_read / traffic.compulsory.total_read == pytest.approx(ratio, rel=0.03)


def test_unfused_attention_moves_what_the_counters_of_an_h200_say():
    """Per kernel, MB read and written: products 34.3 / 509.8, softmax 536.9 / 518.4, output 555.3 / 11.2."""
    traffic = simulate(Experiment.of(algorithm="standard", heads=16, seq=4096, head_dim=128)).traffic
    assert traffic.dram.total_read == pytest.approx(34.3e6 + 536.9e6 + 555.3e6, rel=0.02)
    assert traffic.dram.total_written == pytest.approx(509.8e6 + 518.4e6 + 11.2e6, rel=0.06)


def test_scores_that_fit_the_cache_are_not_read_from_memory():
    small, large = (
        simulate(Experiment.of(algorithm="standard", heads=1, seq=seq)).traffic.dram for seq in (1024, 16384)
    )
    assert small.read[Tensor.S] == small.read[Tensor.P] == 0
    assert large.read[Tensor.S] == 2 * 16384**2


def test_flash1_rewrites_the_output_in_memory_once_it_outgrows_the_cache():
    fits, spills = (
        simulate(Experiment.of(algorithm="flash1", heads=heads, seq=8192)).traffic for heads in (1, 64)
    )
    assert fits.dram == fits.compulsory
    assert spills.dram.written[Tensor.O] == spills.requested.written[Tensor.O]


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_keeps_its_keys_in_the_cache(causal):
    experiment = Experiment.of(heads=1, seq=2**18, head_dim=128, window=1024, causal=causal)
    traffic = simulate(experiment).traffic
    assert traffic.dram.total_read < 1.02 * traffic.compulsory.total_read


def test_heads_that_share_keys_fetch_them_once_where_they_fit():
    shared, own = (
        simulate(Experiment.of(heads=16, kv_heads=kv, seq=32768, head_dim=128)).traffic.dram.read[Tensor.K]
        for kv in (1, 16)
    )
    assert shared * 10 < own


@given(st.lists(st.integers(0, 12), max_size=80), st.integers(3, 40))
def test_the_cache_drops_the_least_recently_used(keys, capacity):
    cache, again, known = Cache(capacity), 0, set()
    sizes = np.arange(13) % 3 + 1
    recent: list[int] = []
    for key in keys:
        cache.touch((key,), int(sizes[key]))
        hit = key in recent
        again += 0 if hit or key not in known else int(sizes[key])
        known.add(key)
        recent = [other for other in recent if other != key] + [key]
        while sizes[recent].sum() > capacity:
            recent.pop(0)
    assert cache.again == again
    assert [key for (key,) in cache.held] == recent
