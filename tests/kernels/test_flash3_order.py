"""flash3's producer and consumers, run as threads on the CPU: none waits for ever, the result is right."""

import math
import time
from collections import Counter
from itertools import product

import pytest
import torch
from attention_cases import in_turn
from gluon_threads import DeadlockError, Descriptor, Products

from engine.algorithms.flash3 import BLOCKS, schedule
from engine.model.traffic import requested_bytes
from engine.problem.problem import Mask, Problem, Tiling
from engine.schedule.step import Tensor
from kernels import reference_attention
from kernels.algorithms.flash3 import forward as flash3
from kernels.call.options import Options
from kernels.hopper import consumer
from kernels.launch.block_times import BlockTimes
from kernels.reference import visible_mask

MASKS = {"none": (False, None), "causal": (True, None), "one": (True, 1), "window": (True, 200)}
SHAPES = [
    (1, 1, 1, 1, 1),
    (1, 2, 1, 1, 700),  # consumers without a row leave early what the others still read
    (1, 4, 2, 200, 600),
    (2, 1, 1, 450, 130),  # causal rows that see no key
    (1, 3, 3, 400, 400),
    (1, 2, 2, 130, 450),  # 64 rows see but one key block in part
]
TILINGS = {"few keys": 10**9, "many keys": 0}  # by the number that counts as few


def grid():
    """Shapes x masks, tilings in turn; two shapes in all. That of 64 for few keys is that of 128."""
    for (s, shape), (m, mask) in product(enumerate(SHAPES), enumerate(MASKS)):
        alike = (64, "few keys") if (s + m) % 2 else (128, "many keys")
        for kind, (head_dim, tiling) in enumerate((alike, (64, "many keys"), (256, "many keys"))):
            if kind == (s + m) % 3 or s in (2, 3):
                yield pytest.param(shape, mask, head_dim, tiling, id=f"{shape}-{mask}-{head_dim}-{tiling}")


@pytest.fixture
def started(monkeypatch):
    """The products that warp groups start: rows, what is summed over, columns."""
    monkeypatch.setattr(Products, "SIZES", [])
    return Products.SIZES


def check(shape, head_dim, causal, window, times=None, size=1.0, atol=1e-5):
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_kv = shape
    q = size * torch.randn(batch, heads, seq_q, head_dim)
    k, v = torch.randn(2, batch, kv_heads, seq_kv, head_dim)
    out = torch.full_like(q, math.nan)
    lse = torch.full(q.shape[:3], math.nan)
    scale = head_dim**-0.5
    flash3._launch(q, k, v, out, lse, causal, window, scale, times)
    exact_out, exact_lse = reference_attention(q, k, v, causal=causal, window=window, scale=scale)
    torch.testing.assert_close(out.double(), exact_out, atol=atol, rtol=0)
    torch.testing.assert_close(lse.double(), exact_lse.double(), atol=atol, rtol=0)


def prepared(head_dim, rows, keys, window, causal=True):
    """The arguments of a launch."""
    q, k = (torch.empty(1, 1, length, head_dim) for length in (rows, keys))
    return flash3._prepared(q, k, k, q, causal, window, 0.1)[2]


@pytest.mark.parametrize(("shape", "mask", "head_dim", "tiling"), list(grid()))
def test_partitions_finish_with_the_right_result(on_threads, monkeypatch, shape, mask, head_dim, tiling):
    monkeypatch.setattr(flash3, "FEW_KEYS", TILINGS[tiling])
    check(shape, head_dim, *MASKS[mask])


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize(("keys", "window"), [(300, 63), (300, 66), (362, None), (363, 65)])
def test_a_tile_with_one_hidden_pair_is_masked(on_threads, keys, window, head_dim):
    """Above the diagonal, or before the window: a corner of a tile is enough."""
    check((1, 1, 1, 300, keys), head_dim, True, window)


BETWEEN = [(128, 128), (400, 400), (321, 449), (65, 65), (130, 386), (449, 321)]  # queries, keys
EDGES = [(None, 0), (None, 10**9), (128, 0), (256, 0)]


@pytest.mark.parametrize(("sizes", "edges"), in_turn(BETWEEN, EDGES, by=2), ids=str)
def test_edges_of_a_mask_that_lie_between_blocks(on_threads, monkeypatch, sizes, edges):
    """With more queries than keys the first rows see nothing, not half a block."""
    window, few = edges
    monkeypatch.setattr(flash3, "FEW_KEYS", few)
    check((1, 2, 1, *sizes), 128, True, window)


def test_half_a_last_key_block_that_is_not_seen_is_not_multiplied(on_threads, started):
    """Scores of the first consumer, counted in the mask itself; P V is of whole blocks."""
    check((1, 1, 1, 640, 640), 128, True, None)
    seen = visible_mask(640, 640, Options(True, None))
    halves = seen.unflatten(0, (-1, 64)).unflatten(2, (-1, 2, 64)).any(dim=1).any(dim=-1)  # of consumers
    blocks = halves.any(dim=2)
    cut = int((blocks & ~halves[..., 1]).sum())
    assert Counter(started) == {(64, 128, 64): cut, (64, 128, 128): 2 * int(blocks.sum()) - cut}


@pytest.mark.parametrize("least", [0, flash3.HELD_KEYS])
def test_columns_that_only_pad_a_head_are_not_multiplied(on_threads, started, monkeypatch, least):
    """Where a mask hides later keys; 80 columns are 64 and 16, of scores of 64 or 128 keys and of P V."""
    monkeypatch.setattr(flash3, "HELD_KEYS", least)
    check((1, 1, 1, 640, 640), 80, True, None)
    scores = {(64, columns, keys) for columns in (64, 16) for keys in (64, 128)}
    assert {*started} == scores | {(64, 128, 64), (64, 128, 16)}


SIZES = [(192, 192), (700, 700), (449, 449), (385, 449), (200, 330), (576, 640), (321, 449), (100, 450)]


@pytest.mark.parametrize(("sizes", "window"), in_turn(SIZES, [128, 256, 200, 384], by=2), ids=str)
def test_windows_whose_key_blocks_begin_where_tiles_do(on_threads, monkeypatch, sizes, window):
    """Three consumers; before the first key there is a part of a block, at times of more than half of one."""
    monkeypatch.setattr(flash3, "FEW_KEYS", 0)
    check((1, 2, 1, *sizes), 64, True, window)


@pytest.mark.parametrize("window", [128, 384])
def test_half_a_last_key_block_of_a_window_is_not_multiplied(on_threads, monkeypatch, started, window):
    """Scores of the first and the third consumer; every second tile has keys in front that there are not."""
    monkeypatch.setattr(flash3, "FEW_KEYS", 0)
    check((1, 1, 1, 960, 960), 64, True, window)
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
def test_where_key_blocks_begin_and_the_edges_of_a_mask_lie(on_threads, problem, shifted, edges):
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
def test_the_producer_asks_for_the_boxes_that_the_engine_counts(on_threads, monkeypatch, rows, keys, window):
    """Of Q, K and V, those that hang over the first or the last key or query too; the heads share keys."""
    copied = Counter()

    class Watched(Descriptor):
        def rows(self, batch, head, row, column=0):
            copied[self.base.data_ptr()] += self.block_type.nbytes // 2  # float32 here
            return super().rows(batch, head, row, column)

    monkeypatch.setattr(flash3, "FEW_KEYS", 0)
    monkeypatch.setattr(flash3, "_descriptor", Watched)
    q, (k, v) = torch.randn(1, 4, rows, 64), torch.randn(2, 1, 2, keys, 64)
    out, lse = torch.empty_like(q), torch.empty(1, 4, rows)
    flash3._launch(q, k, v, out, lse, True, window, 0.1)
    problem = Problem(1, 4, 2, rows, keys, 64, "float16", Mask(True, window))
    read = requested_bytes(schedule(problem, Tiling(*BLOCKS[64]))).read
    for tensor, name in ((q, Tensor.Q), (k, Tensor.K), (v, Tensor.V)):
        assert read[name] == copied[tensor.data_ptr()]


@pytest.mark.parametrize("ahead", [64, 0, 32, -64])
def test_where_every_row_sees_a_key_of_its_first_block(on_threads, monkeypatch, ahead):
    """Where not, it has to be asked: no key's weight is exp(-inf - -inf)."""
    monkeypatch.setattr(flash3, "FEW_KEYS", 0)
    assert prepared(64, 320, 320 + ahead, None)["ALL_SEE"] == (ahead in (0, 64))
    check((1, 1, 1, 320, 320 + ahead), 64, True, None)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_large_scores_do_not_overflow(on_threads, monkeypatch, head_dim):
    """As they would, were a row's maximum that of some keys alone; in the tiling of many keys."""
    monkeypatch.setattr(flash3, "FEW_KEYS", 0)
    check((1, 1, 1, 300, 300), head_dim, True, None, size=200.0, atol=1e-2)


@pytest.mark.parametrize(("heads", "kv_heads", "together"), [(3, 3, 1), (3, 3, 2), (4, 2, 1)])
def test_heads_in_several_sets_are_all_computed(on_threads, monkeypatch, heads, kv_heads, together):
    """Of three heads, two at a time, the last is a set of its own; heads that share keys stay together."""
    room = together * 2 * 200 * 128 * 4  # K and V in float32
    monkeypatch.setattr("kernels.tilings.flash3.L2_FOR_KEYS", room)
    check((1, heads, kv_heads, 200, 200), 128, True, None)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_a_trace_has_every_tile_once_and_one_after_another_on_its_sm(on_threads, mask):
    times, before = BlockTimes(), time.monotonic_ns()
    check((1, 3, 3, 577, 577), 128, *MASKS[mask], times=times)
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
    on_threads, monkeypatch, mask, blocks
):
    """SMs that draw it sooner take it before others are free for it, and end apart."""
    counter = torch.zeros(1, dtype=torch.int32)
    drawn = []

    class Watched(Descriptor):
        def rows(self, batch, head, row, column=0):
            if self.base is keys:
                drawn.append(int(counter))
            return super().rows(batch, head, row, column)

    monkeypatch.setattr(flash3, "_descriptor", Watched)
    monkeypatch.setattr(flash3, "multiprocessors", lambda device: 1)
    monkeypatch.setattr(flash3, "zeroed_counter", lambda device: counter)
    queries, keys, values = torch.randn(3, 1, 2, 400, 128)
    out, lse = torch.empty_like(queries), torch.empty(1, 2, 400)
    causal, window = MASKS[mask]
    flash3._launch(queries, keys, values, out, lse, causal, window, 0.1)
    ahead = Mask(causal, window).looks_ahead
    expected = [tile + (ahead and key > 0) for tile, seen in enumerate(blocks) for key in range(seen)]
    assert drawn == expected


def test_an_order_that_deadlocks_is_caught(on_threads, monkeypatch):
    def skip_without_turns(blocks, visit, keys, values, *_):
        for skipped in range(visit, visit + blocks):
            keys.release(skipped)
            values.release(skipped)
        return visit + blocks

    monkeypatch.setattr(consumer, "skip", skip_without_turns)
    monkeypatch.setattr(flash3, "FEW_KEYS", 0)
    with pytest.raises((DeadlockError, AssertionError)):
        check((1, 1, 1, 1, 700), 64, False, None)
