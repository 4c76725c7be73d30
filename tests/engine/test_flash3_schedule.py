"""FlashAttention-3 as the engine has it: the kernel's own blocks and buffers, key blocks from the last on."""

import pytest

from engine import Experiment, simulate
from engine.algorithms.flash3 import BLOCKS
from engine.schedule.step import Operation
from kernels.algorithms.flash3.forward import TILING, tiling

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
