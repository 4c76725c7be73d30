"""FlashAttention-3's blocks and buffers are its kernel's, its boxes those of a walk over the tiles."""

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.algorithms.flash3 import BLOCKS
from engine.model.simulated_timeline import simulate_timeline
from engine.model.traffic import counts
from engine.problem.inputs import make_inputs
from engine.schedule.step import Operation, Tensor
from engine.studies.timeline_files import block_requests
from engine.trace.execute import execute
from kernels.algorithms.flash3.forward import TILING, _ways, tiling
from tests.engine.strategies import dense_mask

CASES = [  # head dim, queries, keys, window
    (64, 2048, 2048, 1024),
    (64, 2113, 2113, 1024),
    (64, 1601, 1601, 1000),
    (64, 1700, 1703, 1000),  # tiles that begin anywhere: at times a block less than those at multiples of 128
    (64, 1500, 2700, 896),
    (64, 1, 1500, 1024),
    (64, 2000, 2000, 1088),  # up to 64 keys more than whole blocks: they begin at multiples of 128
    (64, 2000, 2000, 1089),
    (64, 2000, 2064, 1089),
    (64, 1700, 1600, 1000),  # more queries than keys
    (64, 1030, 1030, 1024),
    (64, 1538, 1538, 1536),
    (64, 1600, 1600, 1600),  # no window
    (64, 1600, 1600, 767),  # few keys
    (128, 1601, 1601, 1024),
    (256, 1601, 1601, 1024),
]


def experiment_of(head_dim: int, rows: int, keys: int, window: int, **more) -> Experiment:
    given = {"head_dim": head_dim, "seq": rows, "seq_kv": keys, "window": window, "hardware": "h200"}
    return Experiment.of(algorithm="flash3", **{"heads": 1, "kv_heads": 1} | given | more)


def walked(experiment: Experiment) -> tuple[int, int]:
    """(boxes of 64 queries, key blocks) of one head: those that hold a pair that the mask shows."""
    problem = experiment.problem
    seen, rows, keys = dense_mask(problem), problem.seq_q, problem.seq_kv
    window = problem.mask.window if problem.mask.window < keys else None
    kernel = tiling(problem.head_dim, rows, keys, True, window)
    width, tile = kernel["BLOCK_KV"], 64 * kernel["CONSUMERS"]
    shifted = _ways(problem.head_dim, rows, keys, True, window, width, **kernel)["SHIFTED"]
    boxes = blocks = 0
    for row in range(0, rows, tile):
        begin = row + keys - rows if shifted else 0
        columns = np.flatnonzero(seen[row : row + tile].any(axis=0))
        boxes += kernel["CONSUMERS"]
        blocks += len({(int(key) - begin) // width for key in columns})
    return boxes, blocks


@pytest.mark.parametrize("case", CASES, ids=str)
def test_requests_are_those_of_every_box_of_the_kernel(case):
    experiment = experiment_of(*case, heads=6, kv_heads=2, batch=2)
    boxes, blocks = walked(experiment)
    row = 2 * case[0]  # bytes
    read = simulate(experiment).traffic.requested.read
    assert read[Tensor.Q] == 12 * boxes * 64 * row
    assert read[Tensor.K] == read[Tensor.V] == 12 * blocks * BLOCKS[case[0]][1] * row


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_boxes_of_all_blocks_and_of_all_steps_add_up(case):
    experiment = experiment_of(*case)
    found = simulate(experiment)
    assert counts(found.schedule).requested == found.schedule.columns.moved()
    assert block_requests(simulate_timeline(experiment))[1].sum() == found.traffic.requested.total


def test_a_block_asks_for_the_boxes_of_its_own_tile():
    """The second tile begins at key 192, its key blocks at -64, 64, 192 and 320; on the grid it has three."""
    experiment = experiment_of(64, 2048, 2048, 1024)
    timeline = simulate_timeline(experiment)
    tiles, amounts = block_requests(timeline)
    second = timeline.query_block == 1
    around = 192 * 128 * 2 + 192 * 4  # Q, O and lse
    assert (tiles[second].tolist(), amounts[second].tolist()) == ([3], [around + 2 * 4 * 128 * 128])
    columns = simulate(experiment).schedule.columns
    keys = (columns.query_block == 1) & (columns.tensor == Tensor.K)
    assert columns.key_block[keys].tolist() == [2, 1, 0]
    assert columns.read_bytes[keys].tolist() == [128 * 128, 128 * 128, 2 * 128 * 128]


@pytest.mark.parametrize("case", [(64, 1601, 1601, 1000), (64, 1500, 1503, 1000)], ids=str)
def test_what_is_executed_asks_for_as_much(case):
    experiment = experiment_of(*case)
    trace = execute(experiment, *(array[0] for array in make_inputs(experiment.problem)))
    assert trace.counted == simulate(experiment).traffic.per_head.requested


def test_what_the_chip_must_fetch_does_not_hang_on_where_blocks_begin():
    found = simulate(experiment_of(64, 2048, 2048, 1024)).traffic.compulsory.read
    assert found[Tensor.K] == found[Tensor.V] == 2048 * 128


@pytest.mark.parametrize(
    ("heads", "keys", "window", "by_tma"), [(16, 2048, 1024, 48_889_856), (1, 17661, 844, 28_770_304)]
)
def test_a_chip_counts_the_boxes_that_hang_over_the_beginning_whole(heads, keys, window, by_tma):
    """Bytes that TMA read, by an H200's counter: the first call would have 786,432 fewer of rows inside."""
    found = simulate(experiment_of(64, keys, keys, window, heads=heads, kv_heads=heads))
    assert found.traffic.requested.total_read == by_tma


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
