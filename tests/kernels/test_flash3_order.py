"""flash3's partitions as threads on the CPU, in both passes: none waits for ever, all results are right."""

import time
from collections import Counter

import pytest
import torch
from attention_cases import ON_CPU, in_turn
from flash3_cases import check, drawn, few_keys, run, share
from gluon_threads import DeadlockError, Descriptor, Products
from triton.experimental.gluon import language as gl

from engine.algorithms.flash3 import BLOCKS, schedule
from engine.model.traffic import requested_bytes
from engine.problem.problem import Mask, Problem, Tiling
from engine.schedule.step import Tensor
from kernels.algorithms.flash3 import backward as flash3_backward
from kernels.algorithms.flash3 import forward as flash3
from kernels.backward.shared_key_blocks import Shares
from kernels.call.options import Options
from kernels.hopper import backward_common, backward_wide, consumer
from kernels.launch.block_times import BlockTimes
from kernels.reference import visible_mask

pytestmark = [pytest.mark.usefixtures("on_threads"), ON_CPU]
CAUSAL = {"causal": True}
MASKS = {"none": {}, "causal": CAUSAL, "one": {**CAUSAL, "window": 1}, "window": {**CAUSAL, "window": 150}}
SHAPES = [
    (1, 1, 1, 1, 1),
    (1, 2, 1, 1, 700),  # consumers without a row leave early what the others still read
    (1, 4, 2, 140, 400),
    (2, 1, 1, 450, 130),  # causal rows that see no key
    (1, 3, 3, 330, 330),
    (1, 2, 2, 130, 450),  # 64 rows see but one key block in part, and some keys no row sees
]
TILINGS = [(64, 10**9), (64, 0), (128, 0), (256, 0)]  # that of 64 for few keys is that of 128
HEAD_DIMS = [64, 128, 256]


@pytest.fixture
def started(monkeypatch):
    """The products that warp groups start: rows, what is summed over, columns."""
    monkeypatch.setattr(Products, "SIZES", [])
    return Products.SIZES


def prepared(head_dim, rows, keys, window, causal=True):
    """The arguments of a launch."""
    q, k = (torch.empty(1, 1, length, head_dim) for length in (rows, keys))
    return flash3._prepared(q, k, k, q, causal, window, 0.1)[2]


@pytest.mark.parametrize(("shape", "mask", "tiling"), in_turn(SHAPES, MASKS, TILINGS), ids=str)
def test_partitions_finish_with_the_right_results(monkeypatch, shape, mask, tiling):
    head_dim, few = tiling
    few_keys(monkeypatch, few)
    share(monkeypatch, None)
    check(shape, head_dim, **MASKS[mask])


CORNERS = [(300, 300, 63), (300, 300, 66), (300, 362, None), (300, 363, 65), (130, 192, None)]
CORNERS += [(130, 192, 190), (130, 192, 125), (130, 193, 126), (130, 194, 65)]


@pytest.mark.parametrize(("corner", "head_dim"), [*in_turn(CORNERS, HEAD_DIMS, by=2), (None, 128)], ids=str)
def test_a_tile_with_one_hidden_pair_is_masked(monkeypatch, corner, head_dim):
    """Past the last key, above the diagonal, before the window: a corner of a tile is enough."""
    share(monkeypatch, None)
    if corner is None:
        return check((1, 1, 1, 130, 191), head_dim)
    rows, keys, window = corner
    return check((1, 1, 1, rows, keys), head_dim, causal=True, window=window)


BETWEEN = [(128, 128), (400, 400), (321, 449), (65, 65), (130, 386), (449, 321)]  # queries, keys
EDGES = [(None, 0), (None, 10**9), (128, 0), (256, 0)]


@pytest.mark.parametrize(("sizes", "edges"), in_turn(BETWEEN, EDGES, by=2), ids=str)
def test_edges_of_a_mask_that_lie_between_blocks(monkeypatch, sizes, edges):
    """With more queries than keys the first rows see nothing, not half a block."""
    window, few = edges
    few_keys(monkeypatch, few)
    check((1, 2, 1, *sizes), 128, gradients=False, causal=True, window=window)


@pytest.mark.parametrize("window", [None, 64, 66, 128, 150])  # 66: one pair in a last block
@pytest.mark.parametrize(("heads", "rows", "keys"), [(1, 320, 320), (2, 192, 192), (1, 130, 450)])
def test_queries_at_the_edges_that_see_no_key_of_a_consumer(heads, rows, keys, window):
    head_dim = 64 if (rows == 192) == (window in (None, 66)) else 128
    check((1, heads, 1, rows, keys), head_dim, causal=True, window=window)


def seen_blocks(window, rows, keys):
    """[blocks of queries, blocks of keys] of 640 of each: whether any pair is seen."""
    seen = visible_mask(640, 640, Options(True, window))
    return seen.unflatten(0, (-1, rows)).unflatten(2, (-1, keys)).any(dim=1).any(dim=2)


def test_half_a_last_key_block_that_is_not_seen_is_not_multiplied(started):
    """Scores of the first consumer, counted in the mask itself; P V is of whole blocks."""
    check((1, 1, 1, 640, 640), 128, gradients=False, causal=True)
    blocks, halves = seen_blocks(None, 64, 128), seen_blocks(None, 64, 64)
    cut = int((blocks & ~halves[:, 1::2]).sum())
    assert Counter(started) == {(64, 128, 64): cut, (64, 128, 128): 2 * int(blocks.sum()) - cut}


@pytest.mark.parametrize("window", [None, 64, 128, 192])
def test_queries_that_see_no_key_of_a_consumer_are_not_multiplied(started, monkeypatch, window):
    """Backward: of 64 queries each, and half a block of 128 at the diagonal."""
    launch = flash3_backward._launch
    monkeypatch.setattr(flash3_backward, "_launch", lambda *given: (started.clear(), launch(*given))[1])
    visits = int(seen_blocks(window, 64, 64).sum())
    check((1, 1, 1, 640, 640), 128, causal=True, window=window)
    assert started.count((64, 128, 64)) == 2 * visits  # S and dP
    assert started.count((64, 64, 128)) == 2 * visits  # dV and dK
    blocks = int(seen_blocks(window, 128, 128).sum())
    check((1, 1, 1, 640, 640), 64, causal=True, window=window)
    assert started.count((64, 64, 128)) == 2 * (2 * blocks - 5)  # S and dP but of halves, which are 5
    assert started.count((64, 128, 64)) == 2 * (2 * blocks - 5)


@pytest.mark.parametrize("least", [0, flash3.HELD_KEYS])
def test_columns_that_only_pad_a_head_are_not_multiplied(started, monkeypatch, least):
    """80 columns are 64, in halves where Q is held, and 16, of scores of 64 or 128 keys and of P V."""
    monkeypatch.setattr(flash3, "HELD_KEYS", least)
    check((1, 1, 1, 640, 640), 80, gradients=False, causal=True)
    scores = {(64, columns, keys) for columns in ((64 if least else 32), 16) for keys in (64, 128)}
    assert {*started} == scores | {(64, 128, 64), (64, 128, 16)}


SIZES = [(192, 192), (700, 700), (449, 449), (385, 449), (200, 330), (576, 640), (321, 449), (100, 450)]


@pytest.mark.parametrize(("sizes", "window"), in_turn(SIZES, [128, 256, 200, 384], by=2), ids=str)
def test_windows_whose_key_blocks_begin_where_tiles_do(monkeypatch, sizes, window):
    """Three consumers; before the first key there is a part of a block, at times of more than half of one."""
    few_keys(monkeypatch, 0)
    check((1, 2, 1, *sizes), 64, gradients=False, causal=True, window=window)


@pytest.mark.parametrize("window", [128, 384])
def test_half_a_last_key_block_of_a_window_is_not_multiplied(monkeypatch, started, window):
    """Scores of the first and the third consumer; every second tile has keys in front that there are not."""
    few_keys(monkeypatch, 0)
    check((1, 1, 1, 960, 960), 64, gradients=False, causal=True, window=window)
    rows = torch.arange(0, 960, 64)  # of consumers
    before = -rows.div(192, rounding_mode="floor") * 192 % 128
    last = (rows + 63 + before).div(128, rounding_mode="floor")
    first = ((rows - window + 1).clamp(min=0) + before).div(128, rounding_mode="floor")
    blocks, halves = int((last - first + 1).sum()), int((rows % 192 != 64).sum())
    assert Counter(started) == {(64, 64, 64): halves, (64, 64, 128): blocks - halves, (64, 128, 64): blocks}


@pytest.mark.parametrize(
    ("problem", "shifted", "edges"),
    [
        ((64, 4096, 4096, 1024), True, "between"),
        ((64, 4096, 4160, 1024), True, "between"),
        ((64, 4096, 4128, 1024), True, "anywhere"),  # 64 rows end in the midst of a block
        ((64, 4096, 4096, 1000), True, "anywhere"),
        ((64, 4096, 4096, 1089), True, "anywhere"),
        ((64, 4096, 4096, 1088), False, "anywhere"),  # every second tile would take a block more
        ((64, 4096, 4032, 1024), False, "anywhere"),  # rows that see nothing
        ((64, 4096, 4096, 512), False, "between"),  # two consumers
        ((128, 4096, 4096, 1024), False, "between"),
        ((128, 1024, 1024, None), False, "halved"),
        ((128, 4096, 4096, None), False, "between"),  # many blocks follow: it holds up the second consumer
        ((128, 4096, 4096, 500), False, "anywhere"),
        ((128, 4095, 4223, None), False, "between"),
        ((128, 1024, 1088, None), False, "anywhere"),  # the diagonal ends in the midst of a block
        ((128, 1152, 1024, None), False, "anywhere"),  # rows that see nothing
        ((64, 1024, 1024, None), False, "halved"),
        ((64, 4096, 4096, None), False, "anywhere"),  # three consumers
        ((256, 1024, 1024, None), False, "anywhere"),  # blocks of 64 keys
    ],
)
def test_where_key_blocks_begin_and_the_edges_of_a_mask_lie(problem, shifted, edges):
    arguments = prepared(*problem)
    assert (arguments["SHIFTED"], arguments["EDGES"]) == (shifted, edges)
    assert prepared(*problem[:3], None, causal=False)["EDGES"] == "anywhere"


@pytest.mark.parametrize(
    ("rows", "keys", "window"),
    [
        *((700, 700, 128), (385, 449, 200), (200, 330, 320), (577, 580, 128)),
        *((449, 321, 200), (449, 321, 320), (385, 449, 128)),
    ],
)
def test_the_producer_asks_for_the_boxes_that_the_engine_counts(monkeypatch, rows, keys, window):
    """Of Q, K and V, those that hang over the first or the last key or query too; the heads share keys."""
    copied = Counter()

    class Watched(Descriptor):
        def rows(self, batch, head, row, column=0):
            copied[self.base.data_ptr()] += self.block_type.nbytes // 2  # float32 here
            return super().rows(batch, head, row, column)

    few_keys(monkeypatch, 0)
    monkeypatch.setattr(flash3, "_descriptor", Watched)
    q, k, v, *_ = drawn((1, 4, 2, rows, keys), 64)
    run(q, k, v, causal=True, window=window)
    problem = Problem(1, 4, 2, rows, keys, 64, "float16", Mask(True, window))
    read = requested_bytes(schedule(problem, Tiling(*BLOCKS[64]))).read
    for tensor, name in ((q, Tensor.Q), (k, Tensor.K), (v, Tensor.V)):
        assert read[name] == copied[tensor.data_ptr()]


@pytest.mark.parametrize("ahead", [64, 0, 32, -64])
def test_where_every_row_sees_a_key_of_its_first_block(monkeypatch, ahead):
    """Where not, it has to be asked: no key's weight is exp(-inf - -inf)."""
    few_keys(monkeypatch, 0)
    assert prepared(64, 320, 320 + ahead, None)["ALL_SEE"] == (ahead in (0, 64))
    check((1, 1, 1, 320, 320 + ahead), 64, gradients=False, causal=True)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_large_scores_do_not_overflow(monkeypatch, head_dim):
    """As they would, were a row's maximum that of some keys alone; in the tiling of many keys."""
    few_keys(monkeypatch, 0)
    check((1, 1, 1, 300, 300), head_dim, gradients=False, size=200.0, close=(1e-2, 1e-2), causal=True)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_keys_past_the_end_count_for_nothing_however_low_the_others_scores(monkeypatch, head_dim):
    """Their score is 0: beside scores below -90 their weight would be infinite, and dQ not a number."""
    share(monkeypatch, None)
    check((1, 1, 1, 70, 90), head_dim, apart=4.0 * (64 / head_dim) ** 0.25)


@pytest.mark.parametrize(("heads", "kv_heads", "together"), [(3, 3, 1), (3, 3, 2), (4, 2, 1)])
def test_heads_in_several_sets_are_all_computed(monkeypatch, heads, kv_heads, together):
    """Of three heads, two at a time, the last is a set of its own; heads that share keys stay together."""
    room = together * 2 * 200 * 128 * 4  # K and V in float32
    monkeypatch.setattr("kernels.tilings.flash3.L2_FOR_KEYS", room)
    monkeypatch.setattr(flash3_backward, "L2_FOR_ROWS", 1 if together == 1 else 2**40)
    check((1, heads, kv_heads, 200, 200), 128, causal=True)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_a_trace_has_every_tile_once_and_one_after_another_on_its_sm(mask):
    times, before = BlockTimes(), time.monotonic_ns()
    run(*drawn((1, 3, 3, 577, 577), 128)[:3], times=times, **MASKS[mask])
    tiles = times.kernels["attention"]
    assert tiles.shape == (3 * 5, 3)
    assert set(tiles[:, 0].tolist()) == {0, 1}
    assert (tiles[:, 1] > before).all()
    assert (tiles[:, 2] < time.monotonic_ns()).all()
    for sm in (0, 1):
        mine = tiles[tiles[:, 0] == sm, 1:]
        moments = mine[mine[:, 0].argsort()].reshape(-1)
        assert (moments.diff() >= 0).all()


@pytest.mark.parametrize(
    ("mask", "blocks"),  # of 128 keys, by tile: both heads' heaviest come first
    [("none", [4] * 8), ("causal", [4, 4, 3, 3, 2, 2, 1, 1]), ("window", [3] * 4 + [2, 2, 1, 1])],
)
def test_an_unequal_tile_is_drawn_when_the_keys_of_the_one_before_are_all_asked_for(
    monkeypatch, mask, blocks
):
    """SMs that draw it sooner take it before others are free for it, and end apart."""
    counter = torch.zeros(1, dtype=torch.int32)
    taken = []

    class Watched(Descriptor):
        def rows(self, batch, head, row, column=0):
            if self.base is keys:
                taken.append(int(counter))
            return super().rows(batch, head, row, column)

    monkeypatch.setattr(flash3, "_descriptor", Watched)
    monkeypatch.setattr(flash3, "multiprocessors", lambda device: 1)
    monkeypatch.setattr(flash3, "zeroed_counter", lambda device: counter)
    queries, keys, values, *_ = drawn((1, 2, 2, 400, 400), 128)
    run(queries, keys, values, **MASKS[mask])
    ahead = Mask(**MASKS[mask]).looks_ahead
    expected = [tile + (ahead and key > 0) for tile, seen in enumerate(blocks) for key in range(seen)]
    assert taken == expected


@pytest.mark.parametrize(("coarse", "fine"), [(2, 3), (3, 0)])
@pytest.mark.parametrize(
    ("shape", "head_dims"),  # the second of whole query blocks, of two heads
    [((1, 1, 1, 320, 450), (64, 128)), ((1, 4, 2, 384, 190), (128, 256)), ((2, 1, 1, 390, 200), (256, 64))],
    ids=str,
)
def test_key_blocks_that_several_blocks_of_threads_share(monkeypatch, shape, coarse, fine, head_dims):
    """Two in so many shares each, and the last one more finely."""
    head_dim = head_dims[fine > 0]
    key_blocks = shape[0] * shape[2] * -(-shape[4] // (64 if head_dim == 256 else 128))
    share(monkeypatch, Shares(key_blocks - 2 - (fine > 0), 2 * coarse, coarse, fine, fine or 1))
    check(shape, head_dim)


@pytest.mark.parametrize("head_dim", [72, 96, 160])
def test_shared_key_blocks_of_head_dims_between(monkeypatch, head_dim):
    """Whose sums a Triton kernel adds."""
    share(monkeypatch, Shares(0, 2, 2, 0, 1))
    check((1, 1, 1, 130, 64 if head_dim > 128 else 128), head_dim)


SPOILT = {  # turns that are not taken, and fewer buffers for what consumers exchange
    "turns": (consumer, "skip", None, (1, 1, 1, 1, 700), 64, {}),
    "dS": (backward_wide, "D_SCORES", gl.constexpr(1), (1, 1, 1, 450, 130), 256, {}),
    "exchanged": (backward_common, "EXCHANGES", gl.constexpr(2), (1, 1, 1, 450, 130), 128, {}),
    "exchanged where causal": (
        backward_common,
        "EXCHANGES",
        gl.constexpr(1),
        (1, 1, 1, 450, 450),
        128,
        CAUSAL,
    ),
}


@pytest.mark.parametrize(
    ("module", "name", "instead", "shape", "head_dim", "mask"), SPOILT.values(), ids=SPOILT
)
def test_a_wrong_order_is_caught(monkeypatch, module, name, instead, shape, head_dim, mask):
    """By a deadlock, or by what one consumer writes over what the other still reads."""

    def skip_without_turns(blocks, visit, keys, values, *_):
        for skipped in range(visit, visit + blocks):
            keys.release(skipped)
            values.release(skipped)
        return visit + blocks

    few_keys(monkeypatch, 0)
    share(monkeypatch, None)
    monkeypatch.setattr(module, name, instead or skip_without_turns)
    with pytest.raises((DeadlockError, AssertionError)):
        check(shape, head_dim, gradients=module is not consumer, **mask)
