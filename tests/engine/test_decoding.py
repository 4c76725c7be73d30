"""Split keys and decoding: the kernel's choices, parts that merge to float64, bytes as counted, pages."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.measuring.clock import Repeats
from engine.measuring.sections import own_blocks, timed_decoding, together
from engine.problem.inputs import make_inputs
from engine.problem.problem import Mask, Problem
from engine.problem.terms import SINK
from engine.recordings.file import dumps, loads, recordings
from engine.recordings.recording import Recording, identity
from engine.recordings.timing import Decoding
from engine.schedule.step import Tensor
from engine.studies import decoding as studies
from engine.studies.decoding import MOST_ROOM, PAGE_SIZES, SEQUENCES, lengths_of, paging_of
from engine.trace.execute import execute
from tests.engine.closed_form import split_kv_bytes
from tests.engine.strategies import exact_attention, experiments, tile_counts
from tests.engine.test_execute import check
from tests.engine.test_recording import DEVICE

SPLITS = st.sampled_from([1, 2, 3, 5, 8, 40])
LONG = {"heads": 32, "kv_heads": 8, "seq": 1, "seq_kv": 65536, "head_dim": 128, "causal": True}
KINDS = [(512, None, 64, 1), (9000, None, 128, 1), (9000, 700, 32, 1), (9000, None, 256, 1)]
KINDS += [(9000, None, 64, 2), (9000, 700, 64, 2)]
CACHED = Experiment.of(**LONG)


@st.composite
def split(draw, **options) -> Experiment:
    """Any small experiment with its keys split."""
    return draw(experiments(algorithms=("split_kv",), **options)).changed(splits=draw(SPLITS))


def one_key_head(experiment: Experiment, seed: int = 1):
    """q [group * seq_q, d] with packed rows, k and v [seq_kv, d]; and q by head, [group, seq_q, d]."""
    problem = experiment.problem
    q, k, v = make_inputs(problem, seed, heads=problem.heads // problem.kv_heads)
    return q.swapaxes(0, 1).reshape(-1, problem.head_dim), k[0], v[0], q


@given(split())
def test_visited_tiles_are_those_that_the_packed_rows_see_and_splits_share_them_evenly_in_order(experiment):
    problem, tiling, simulation = experiment.problem, experiment.tiling, simulate(experiment)
    counts, (seen, size) = simulation.traffic.per_head, tile_counts(experiment, problem.group)
    assert counts.tiles_visited == (seen > 0).sum()
    assert counts.tiles_full == (seen == size).sum()
    assert counts.flops == 2 * (problem.head_dim + problem.v_dim) * size[seen > 0].sum()
    phase, splits, bounds = simulation.schedule.phases[0], tiling.splits, simulation.schedule.bounds
    for block in range(len(bounds.first)):
        programs = range(block * splits, (block + 1) * splits)
        visited = [key for at in programs for key in range(phase.first[at], phase.stop[at])]
        assert visited == list(range(bounds.first[block], bounds.stop[block]))
        share = -(-len(visited) // splits)
        left = [min(share, max(0, len(visited) - at * share)) for at in range(splits)]
        assert phase.visits[list(programs)].tolist() == left


@given(split())
def test_the_combined_parts_are_attention_of_the_bytes_that_are_asked_for(experiment):
    rows, k, v, q = one_key_head(experiment)
    found, simulation = execute(experiment, rows, k, v), simulate(experiment)
    for head, mine in enumerate(q):
        rows_of_head = slice(head, None, len(q))
        check(found.out[rows_of_head], found.lse[rows_of_head], experiment.problem, (mine, k, v))
    asked = simulation.traffic.per_head.requested
    assert found.counted == asked == simulation.schedule.columns.moved()
    assert found.peak_sram_bytes <= simulation.footprint.sram_bytes
    heads = experiment.problem.batch * experiment.problem.kv_heads
    assert simulation.traffic.requested == asked.times(heads)  # keys of a key head once a row block


@given(split(masked=False, terms=False))
def test_the_bytes_are_those_of_the_formula(experiment):
    for causal in (False, True):
        one = experiment.changed(causal=causal)
        found = simulate(one)
        assert found.traffic.per_head.requested.total == split_kv_bytes(one)
        assert (len(found.schedule.phases) == 1) == (one.tiling.splits == 1)  # no second kernel


def test_the_bytes_are_those_that_a_gpu_counted():
    """An H200's counters of the real kernels; lse moves in sectors of 32 bytes there, 8 times its size."""
    rows = [row for row in recordings()[0].counters if row.provider == "split_kv" and row.kernels]
    assert len(rows) >= 4
    for row in rows:
        splits = int(row.kernels[0].grid.split(" x ")[0]) // (row.problem.batch * row.problem.kv_heads)
        own = {"algorithm": "split_kv", "splits": splits, "block_q": 16, "block_kv": 128}  # the kernel's
        traffic = simulate(Experiment(problem=row.problem).changed(**own)).traffic
        lse = traffic.requested.read[Tensor.PARTIAL_LSE]
        assert row.total("tile_read") == pytest.approx(traffic.requested.total_read + 7 * lse, rel=2e-4)
        assert row.total("dram_read") == pytest.approx(traffic.dram.total_read, rel=0.02)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("heads", [(1, 1), (32, 8), (64, 1), (128, 1)])
@pytest.mark.parametrize(("keys", "window", "head_dim", "documents"), KINDS)
def test_rows_and_splits_are_the_kernels_own_choice(dtype, heads, keys, window, head_dim, documents):
    """With documents by all keys: it works out on the GPU alone which keys a query sees of its document."""
    torch = pytest.importorskip("torch")
    dispatch = pytest.importorskip("kernels.dispatch.dispatch")
    split_count = pytest.importorskip("kernels.algorithms.split_kv").split_count
    q = torch.empty(1, heads[0], 1, head_dim, dtype=getattr(torch, dtype))
    k = torch.empty(1, heads[1], keys, head_dim, dtype=q.dtype)
    seen = window if documents == 1 else None
    call = dispatch.checked(q, k, k, causal=True, window=seen, algorithm="split_kv", stand_in=True)
    scenario = Experiment.of(
        heads=heads[0], kv_heads=heads[1], seq_kv=keys, window=window, head_dim=head_dim, dtype=dtype,
        causal=True, block_kv=call.block_kv, documents=documents,
    )  # fmt: skip
    decoding = studies.decoding_of(scenario)
    assert decoding.tiling.block_q == call.block_q
    row = own_blocks(Decoding("split_kv", "", decoding.problem, block_q=1))  # what is recorded with the times
    assert (row.block_q, row.block_kv) == (call.block_q, call.block_kv)
    assert studies.kernel_splits(decoding) == split_count(call, decoding.gpu.sms)


@pytest.mark.parametrize(
    ("mask", "keys"),
    [({}, 5000), ({"window": 77}, 77), ({"documents": 7}, 715), ({"documents": "4900:100"}, 100)],
)
def test_the_query_sees_what_its_mask_leaves(mask, keys):
    """The last of 7 documents begins at key 6 · 5,000 // 7 = 4,285. The cache is the scenario's."""
    scenario = Experiment.of(seq=5000, heads=8, kv_heads=2, splits=4, batch=3, **mask)
    decoding = studies.decoding_of(scenario)
    assert studies.keys_seen(decoding) == keys
    assert (decoding.problem.seq_q, decoding.problem.seq_kv, decoding.tiling.splits) == (1, 5000, 4)
    assert decoding.problem.mask.window == mask.get("window")
    assert studies.decoding_of(decoding) == decoding


@given(experiments(most_heads=2))
def test_the_parts_merge_to_float64(experiment):
    for splits in (1, 3, 40):
        parts = studies.parts_of(studies.decoding_of(experiment.changed(splits=splits)))
        problem = parts.experiment.problem
        _, k, v, q = one_key_head(parts.experiment, seed=0)
        out, lse, scores = exact_attention(problem, q[0], k, v)
        np.testing.assert_allclose(parts.exact, out[0], rtol=1e-9, atol=1e-12)
        assert parts.exact_lse == pytest.approx(lse[0])
        assert parts.merged[-1][2] == pytest.approx(lse[0], abs=1e-4)
        unit = 2.0**-7 if problem.dtype == "bfloat16" else 2.0**-10
        assert np.abs(parts.merged[-1][3:] - out[0]).max() <= 4 * unit * np.abs(v).max()
        assert parts.error <= 4 * unit * np.abs(v).max()
        for at, ((low, high), m, total) in enumerate(zip(parts.keys, parts.m, parts.l, strict=True)):
            own = np.append(scores[0, low:high], SINK if problem.sinks and at == 0 else -np.inf)
            assert (low < high) == np.isfinite(m)
            if low < high:
                assert m == pytest.approx(own.max(), rel=1e-5, abs=1e-5)
                assert total == pytest.approx(np.exp(own - own.max()).sum(), rel=1e-4)
        seen = [key for low, high in parts.keys for key in range(low, high)]
        assert seen == np.flatnonzero(np.isfinite(scores[0])).tolist()


def test_merging_a_part_more_is_attention_over_its_keys_too():
    scenario = Experiment.of(heads=1, seq_kv=640, dtype="float32", splits=5)
    parts = studies.parts_of(studies.decoding_of(scenario))
    _, k, v, q = one_key_head(parts.experiment, seed=0)
    for step in range(1, 6):
        stop = parts.keys[step - 1][1]
        scores = k[:stop].astype(np.float64) @ q[0, 0] / 8
        weights = np.exp(scores - scores.max())
        np.testing.assert_allclose(parts.merged[step][3:], weights @ v[:stop] / weights.sum(), atol=1e-5)
        assert parts.merged[step][2] == pytest.approx(scores.max() + np.log(weights.sum()), abs=1e-5)
    assert parts.merged[0].tolist()[:3] == [-np.inf, 0, -np.inf]


@given(experiments(most_heads=2))
def test_blocks_are_key_heads_times_splits_times_rows_and_go_round_the_sms(experiment):
    decoding = studies.decoding_of(experiment.changed(splits=3))
    found, heads = studies.spread(simulate(decoding)), decoding.problem.batch * decoding.problem.kv_heads
    assert len(found.blocks) == experiment.gpu.sms
    assert found.blocks.max() - found.blocks.min() <= 1
    assert found.busy == min(found.blocks.sum(), experiment.gpu.sms)
    assert found.grid[:2] == (heads, 3)
    assert found.launched == heads * 3 * found.grid[2] >= found.blocks.sum()  # less those without keys


def test_the_nearest_recorded_cache_is_shown():
    rows = studies.recorded_near(recordings()[0], studies.decoding_of(Experiment.of(seq_kv=50_000)))
    assert {row.problem.seq_kv for row in rows} == {65536}
    like = studies.recorded_decoding(rows, "h200")
    assert {row.block_kv for row in rows if row.provider == "split_kv"} == {like.tiling.block_kv}
    for row in rows:
        if row.provider == "split_kv":  # the bytes that the recorded rate counts
            assert row.bytes_per_second * row.times.p50 == pytest.approx(studies.key_reads(simulate(like)))
    assert (like.problem, like.tiling.block_q) == (rows[0].problem, 16)
    assert studies.recorded_near(Recording(DEVICE), like) == ()
    for heads, kv_heads, recorded in ((64, 16, 8), (8, 8, 32), (16, 16, 32), (8, 1, 8)):  # shared alike
        decoding = studies.decoding_of(Experiment.of(**{**LONG, "heads": heads, "kv_heads": kv_heads}))
        near = studies.recorded_near(recordings()[0], decoding)
        assert {row.problem.kv_heads for row in near} == {recorded}


def test_bytes_of_keys_are_read_once_for_the_heads_that_share_them_and_by_the_sms_that_have_a_block():
    """Key heads of 65,536 keys with 128 numbers of 2 B, K and V; an SM a block, as unsplit."""
    for heads, kv_heads, rows in ((32, 8, 1), (128, 1, 2)):
        values = LONG | {"heads": heads, "kv_heads": kv_heads, "hardware": "h200"}
        unsplit = simulate(studies.decoding_of(Experiment.of(**values)).changed(splits=1))
        keys = 2 * kv_heads * 65536 * 128 * 2
        assert studies.key_reads(unsplit) == keys
        assert studies.rate(unsplit) == pytest.approx(keys / unsplit.modelled.seconds)
        assert (studies.spread(unsplit).grid[2], studies.spread(unsplit).busy) == (rows, kv_heads * rows)


def test_splits_pages_and_a_copy_are_timed_in_turns_each_result_checked():
    """In blocks of this machine; every row is kept, in a file too."""
    (planned, *_) = together("decoding", "problem")
    problem = Problem(1, 2, 1, 1, 64, 16, "float32", Mask(True))
    rows = [own_blocks(replace(row, problem=problem)) for row in planned if row.page_size != 256]
    assert {row.page_size for row in rows} == {None, 16, 64}
    assert {row.splits for row in rows} >= {None, 1, 256}
    cuda = pytest.importorskip("torch").cuda.is_available()
    wanted = [row for row in rows if row.splits in (None, 2) and not row.provider.startswith("sdpa")]
    found = timed_decoding(wanted, Repeats(1, 1, 0.0), cuda)
    kept, asked = ([identity(row) for row in each if row.provider != "copy"] for each in (found, wanted))
    assert kept == asked
    for row in found:
        moved = 2**30 // (1 if cuda else 64) if row.provider == "copy" else 2 * 64 * 16 * 4
        assert row.bytes_per_second == pytest.approx(moved / row.times.p50)
    assert loads(dumps(Recording(DEVICE, decoding=tuple(found))).encode()).decoding == tuple(found)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("sequences", SEQUENCES[::3])
def test_every_key_has_a_slot_of_its_own(sequences, page_size):
    paging = paging_of(CACHED.problem, sequences, page_size)
    pool = np.full((paging.pages, page_size), -1)
    for sequence, (pages, length) in enumerate(zip(paging.table, paging.lengths, strict=True)):
        for key in range(length):
            slot = pages[key // page_size], key % page_size
            assert pool[slot] == -1
            pool[slot] = sequence
    taken = (pool >= 0).any(1)
    assert (pool >= 0).sum() == sum(lengths_of(sequences, MOST_ROOM))
    assert paging.taken == taken.sum() == sum(-(-length // page_size) for length in paging.lengths)
    assert paging.unused_slots == (pool[taken] < 0).sum()
    assert paging.taken_slots == pool[taken].size
    assert np.array_equal(paging.owners[:, 0], pool[:, 0])  # a page is filled from its first slot on
    assert np.array_equal(paging.owners[:, 1], (pool >= 0).sum(1))
    free = paging.pages - taken.sum()
    average = taken.sum() / sequences
    assert paging.more * average <= free < (paging.more + 1) * average


def test_prompts_lie_together_and_what_is_generated_takes_turns():
    first, second = paging_of(CACHED.problem, 2, 16).table
    prompt = -(-(paging_of(CACHED.problem, 2, 16).lengths[0] // 2) // 16)
    assert first[:prompt] == tuple(range(prompt))
    assert second[0] == prompt
    assert any(after - before > 1 for before, after in pairwise(first))


@pytest.mark.parametrize(("keys", "room"), [(1, 256), (700, 512), (2048, 2048), (65536, MOST_ROOM)])
def test_the_room_is_the_scenarios_as_far_as_it_is_drawn(keys, room):
    paging = paging_of(CACHED.changed(seq_kv=keys).problem, 8, 256)
    assert paging.room == room
    assert paging.key_bytes == 2 * 8 * 128 * 2  # K and V of 8 KV heads of 128 numbers of 2 bytes
    assert max(paging.lengths) <= room
    assert paging.taken <= paging.pages == 8 * room // 256
