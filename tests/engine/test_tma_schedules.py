"""FlashAttention-3 and 4: blocks and bytes are their kernels' and those of walks, maxima those of a loop."""

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.algorithms import flash4
from engine.algorithms.flash3 import BLOCKS
from engine.model.simulated_timeline import simulate_timeline
from engine.model.traffic import counts
from engine.problem.heads import Heads
from engine.problem.inputs import make_inputs
from engine.schedule.step import Tensor
from engine.small.model import small
from engine.studies.timeline_files import block_requests
from engine.trace.dense import exact_tiles
from engine.trace.execute import execute
from engine.trace.softmax import exp2_by_polynomial, exponentials
from kernels.algorithms.flash3.forward import TILING, _ways, tiling
from tests.engine.strategies import dense_mask, one_head, online

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
CONSUMER_ROWS = 64
B200 = {"algorithm": "flash4", "hardware": "b200", "heads": 1}


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
    found = simulate(experiment_of(*case))
    assert counts(found.schedule).requested == found.schedule.columns.moved()
    blocks = block_requests(simulate_timeline(found.experiment))
    assert blocks[1].sum() == found.traffic.requested.total


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


FOURTH = [
    {"seq": 700, "causal": True, "head_dim": 64},
    {"seq": 1000, "head_dim": 128, "window": 300},
    {"seq": 300, "seq_kv": 900, "head_dim": 64},
    {"seq": 100, "seq_kv": 400, "head_dim": 32},  # one query tile
    {"seq": 500, "head_dim": 192, "head_dim_v": 128, "causal": True},
    {"seq": 300, "head_dim": 256},  # two tiles' S and O do not fit tensor memory
]


@pytest.mark.parametrize("case", FOURTH, ids=str)
def test_requests_are_those_of_a_walk_over_the_tiles_and_of_the_execution(case):
    experiment = Experiment.of(**B200, **case)
    problem, seen = experiment.problem, dense_mask(experiment.problem)
    rows = 128 if problem.seq_q <= 128 or problem.v_dim > 128 else 256
    first = range(0, problem.seq_q, rows)
    visits = sum(seen[row : row + rows, key : key + 128].any() for row in first for key in keys_of(problem))
    found = simulate(experiment).traffic.requested
    assert found.read[Tensor.Q] == len(first) * rows * problem.head_dim * 2  # boxes of TMA, whole
    assert found.read[Tensor.K] == visits * 128 * problem.head_dim * 2
    assert found.read[Tensor.V] == visits * 128 * problem.v_dim * 2
    assert found.written[Tensor.O] == problem.seq_q * problem.v_dim * 2
    assert execute(experiment, *one_head(experiment)).counted == found


def keys_of(problem) -> range:
    return range(0, problem.seq_kv, 128)


@pytest.mark.parametrize("spread", [1.0, 12.0])
def test_a_maximum_stays_until_a_score_passes_it_by_more_than_two_to_the_eighth(spread):
    """By a loop over one row's key blocks in float64, last first; O and lse are those of float64 anyway."""
    experiment = Experiment.of(**B200, seq=640, head_dim=16)
    q, k, v = one_head(experiment)
    tensors = spread * q, k, v
    trace = execute(experiment, *tensors)
    exact = exact_tiles(experiment, *tensors)
    np.testing.assert_allclose(trace.out, exact.out, atol=2e-3 * np.abs(v).max())
    skipped = raised = 0
    for row in range(0, 640, 37):
        for block, visit in online(experiment, tensors, row, threshold=8).items():
            skipped += visit.m == visit.before < visit.largest
            raised += visit.m > visit.before
            at = row // 256, block, row % 256
            assert trace.m[at] == pytest.approx(visit.m, rel=1e-5)
            assert trace.alpha[at] == pytest.approx(visit.alpha, rel=1e-4)
    assert skipped > 0
    assert (raised > 18) == (spread > 1)  # of 18 rows, each of which takes its first


def test_the_polynomial_is_two_to_the_x():
    x = np.linspace(-130, 8, 200_001, dtype=np.float32)
    found, exact = exp2_by_polynomial(x), np.exp2(x.astype(np.float64))
    assert (found[x <= -127] == 0).all()
    inside = x > -126
    assert np.abs(found / exact - 1)[inside].max() < 8.8e-5  # arXiv 2603.05451
    assert exp2_by_polynomial(np.float32([-np.inf, 0, 3])).tolist() == [0, 1, 8]


def test_as_many_exponentials_are_polynomials_as_the_record_says():
    scores = np.float32(np.random.default_rng(0).uniform(-9, 0, (64, 128)))
    exact, pipeline = np.exp(scores.astype(np.float64)), flash4.ALGORITHM.pipeline
    off = np.abs(exponentials(scores, np.zeros((64, 1), np.float32), pipeline) / exact - 1) > 1e-6
    assert off.any(0).mean() == pipeline.polynomials == 24 / 128


@pytest.mark.parametrize(("head_dim", "v_dim", "stages"), [(64, 64, 10), (128, 128, 3), (192, 128, 2)])
def test_buffers_fill_the_shared_memory_that_the_public_kernel_sets_aside(head_dim, v_dim, stages):
    experiment = Experiment.of(**B200, seq=4096, head_dim=head_dim, head_dim_v=v_dim)
    held = simulate(experiment).footprint
    assert held.parts[1].label == f"{stages} × K or V"
    assert held.fits
    assert held.shared_bytes <= 224 * 1024
    assert flash4.tiles(experiment.problem) == 2


def test_fewer_exponentials_and_rescales_take_less_time_where_they_are_what_is_waited_for():
    third, fourth = (
        simulate(Experiment.of(**B200 | {"algorithm": each, "heads": 16}, seq=16384, head_dim=128)).modelled
        for each in ("flash3", "flash4")
    )
    assert 1.03 < third.seconds / fourth.seconds < 1.3


def test_real_heads_come_out_as_in_float64_and_are_rescaled_less_often_than_their_maxima_rise():
    """Of the small model that is shipped, on a text of its own language, last key block first."""
    words = "It was a wet evening, and the old gentleman would not be persuaded to leave the fire. "
    layers = small().run(small().tokens.encoded(words * 24))[1]
    rose = rescaled = 0
    for q, k, v in (layers[1], layers[3], layers[5]):
        heads = Heads.of(q, k, v)
        experiment = Experiment.of(algorithm="flash4", hardware="b200", causal=True, inputs=heads)
        one = experiment.changed(heads=1, kv_heads=1)
        tensors = [array[0] for array in make_inputs(experiment.problem, heads=1)]
        trace, exact = execute(one, *tensors), exact_tiles(one, *tensors)
        np.testing.assert_allclose(trace.out, exact.out, atol=2e-3 * np.abs(exact.out).max())
        scores = np.where(dense_mask(one.problem), tensors[0] @ tensors[1].T * one.problem.scale, -np.inf)
        tiles = [scores[:, at : at + 128].max(1) for at in keys_of(one.problem)][::-1]
        highest = np.maximum.accumulate(np.stack(tiles, 1), 1)
        rose += int(((highest[:, 1:] > highest[:, :-1]) & np.isfinite(highest[:, :-1])).sum())
        rescaled += int(((trace.alpha < 1) & (trace.alpha > 0)).sum())
    assert 0 < rescaled < rose / 3
