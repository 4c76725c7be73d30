"""FlashAttention-3 as the engine has it: the kernel's own blocks and buffers, key blocks from the last on."""

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.algorithms.flash3 import BLOCKS
from engine.problem.hardware import KIB
from engine.problem.inputs import make_inputs
from engine.schedule.step import Operation
from engine.trace.forward import execute
from kernels.algorithms.flash3.forward import TILING, tiling
from tests.engine.strategies import exact_attention

CONSUMER_ROWS = 64


@pytest.mark.parametrize("head_dim", list(BLOCKS))
def test_blocks_and_buffers_are_those_of_the_kernel(head_dim):
    kernel = TILING[head_dim]
    assert BLOCKS[head_dim] == (kernel["CONSUMERS"] * CONSUMER_ROWS, kernel["BLOCK_KV"])
    found = simulate(Experiment.of(algorithm="flash3", head_dim=head_dim)).footprint
    rows, keys = BLOCKS[head_dim]
    assert [part.bytes for part in found.parts] == [
        kernel["Q_BUFFERS"] * rows * head_dim * 2,
        kernel["KV_BUFFERS"] * keys * head_dim * 2,
        kernel["KV_BUFFERS"] * keys * head_dim * 2,
    ]


@pytest.mark.parametrize("head_dim", list(BLOCKS))
@pytest.mark.parametrize("window", [None, 100, 767, 768, 5000])
@pytest.mark.parametrize("causal", [False, True])
def test_few_keys_have_the_blocks_that_the_kernel_gives_them(head_dim, window, causal):
    for seq, seq_kv in ((64, 64), (767, 767), (768, 768), (1535, 1535), (1536, 1536), (1, 800), (900, 800)):
        mask = {"causal": causal, "window": window}
        experiment = Experiment.of(algorithm="flash3", head_dim=head_dim, seq=seq, seq_kv=seq_kv, **mask)
        bounding = window if window is None or window < seq_kv else None
        kernel = tiling(head_dim, seq, seq_kv, causal or window is not None, bounding)
        blocks = (kernel["CONSUMERS"] * CONSUMER_ROWS, kernel["BLOCK_KV"])
        assert (experiment.tiling.block_q, experiment.tiling.block_kv) == blocks


def test_the_chip_at_head_dimension_128_by_hand():
    found = simulate(Experiment.of(algorithm="flash3", head_dim=128)).footprint
    assert [(part.label, part.bytes) for part in found.parts] == [
        ("2 × Q", 64 * KIB), ("2 × K", 64 * KIB), ("2 × V", 64 * KIB),
    ]  # fmt: skip
    assert found.sentence == (
        "Fits: 192 KiB of 227 KiB of shared memory. 1 thread block fits on each SM, but only 128 are "
        "launched: 128 of 132 SMs are busy."
    )


def test_small_blocks_stay_one_to_an_sm():
    assert simulate(Experiment.of(algorithm="flash3", head_dim=64)).footprint.blocks_per_sm == 1


@pytest.mark.parametrize(("head_dim", "blocks"), [(1, (192, 128)), (65, (128, 128)), (200, (128, 64))])
def test_a_head_dimension_in_between_is_cut_as_the_next_larger(head_dim, blocks):
    experiment = Experiment.of(algorithm="flash3", head_dim=head_dim, block_q=32, block_kv=32)
    assert (experiment.tiling.block_q, experiment.tiling.block_kv) == blocks
    assert (experiment.asked.block_q, experiment.asked.block_kv) == (32, 32)
    assert experiment.changed(algorithm="flash2").tiling.block_q == 32


def test_key_blocks_come_from_the_last_to_the_first():
    columns = simulate(Experiment.of(algorithm="flash3", seq=500, causal=True)).schedule.columns
    scores = columns.operation == Operation.SCORES
    for block in range(3):
        visited = columns.key_block[scores & (columns.query_block == block)]
        assert visited.tolist() == list(range(visited.max(), -1, -1))


def test_visits_hold_the_maximum_and_the_sum_of_all_keys_from_the_end():
    experiment = Experiment.of(algorithm="flash3", heads=1, seq=300, dtype="float32", head_dim=16)
    q, k, v = (array[0] for array in make_inputs(experiment.problem))
    trace = execute(experiment, q, k, v)
    _, _, scores = exact_attention(experiment.problem, q, k, v)
    for block in range(3):
        seen = scores[:, 128 * block :]
        m = seen.max(1)
        np.testing.assert_allclose(trace.m[:, block].ravel()[:300], m, rtol=1e-5)
        np.testing.assert_allclose(
            trace.l[:, block].ravel()[:300], np.exp(seen - m[:, None]).sum(1), rtol=1e-5
        )
    assert not trace.alpha[:, 2].ravel()[:300].any()


def test_it_asks_for_fewer_bytes_than_smaller_query_blocks_do():
    asked = {
        name: simulate(Experiment.of(algorithm=name, seq=4096)).traffic.requested.total
        for name in ("flash2", "flash3")
    }
    assert asked["flash3"] < 0.4 * asked["flash2"]  # blocks of 192 queries against 64
