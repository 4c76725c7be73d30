"""Modelled DRAM bytes against a slow twin that looks back over every use."""

import tracemalloc
from dataclasses import replace
from math import exp
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.model.l2 import APART, CHUNKS, NEVER_GONE, SIZES, SPREADING, UNEVEN, _lost, _pace, gone
from engine.model.launch import launch
from engine.model.reuse import Programs, _launched, walk
from engine.problem.hardware import GPUS
from engine.schedule.step import Tensor
from tests.engine.strategies import experiments

TINY = replace(GPUS["t4"], sms=3, l2_bytes=96 * 1024, l2_effective_bytes=48 * 1024)
# (head dim, rows of the last tile): its time over a whole tile's, median of an H200's traces of long calls
LAST_TILES = {(64, 14): 0.584, (64, 64): 0.592, (64, 128): 0.803, (128, 56): 0.814, (128, 64): 0.820}
# distance between the two blocks of an SM in the middle of every turn, a share of a pass: traced on an H200,
# d 64 in 128 x 64, of 131,072 keys and of 90,000
DISTANCES = [
    (0.093, 0.243, 0.339, 0.401, 0.441, 0.468, 0.486),
    (0.146, 0.347, 0.437, 0.478, 0.499, 0.510, 0.517),
]


def test_what_outgrows_the_cache_is_read_and_written_as_the_profiler_counts_it():
    """S and P of unfused attention by each kernel, at any length; O of flash1 at every visit."""
    for seq in (512, 1024, 16384):
        dram = simulate(Experiment.of(algorithm="standard", heads=1, seq=seq)).traffic.dram
        assert dram.read[Tensor.S] == dram.read[Tensor.P] == dram.written[Tensor.S] == 2 * seq**2
    flash1 = Experiment.of(algorithm="flash1", heads=1, seq=8192)
    fits, spills = (simulate(flash1.changed(heads=heads)).traffic for heads in (1, 64))
    assert fits.dram == fits.compulsory
    assert spills.dram.written[Tensor.O] == pytest.approx(spills.requested.written[Tensor.O], rel=1e-3)


def test_what_is_gone_grows_with_what_passed_and_with_a_smaller_cache():
    shares = np.linspace(0, 2, 50)
    assert (np.diff(gone(shares)) >= 0).all()
    usual, larger, smaller = gone(shares)
    assert ((larger <= usual) & (usual <= smaller)).all()
    assert gone([NEVER_GONE - 1e-9, 1])[0].tolist() == [0, 0.5]
    reads = [
        simulate(Experiment.of(heads=4, seq=32768, head_dim=128, hardware=name)).traffic.dram.total_read
        for name in ("b200", "h200", "t4")
    ]
    assert reads == sorted(reads)
    assert reads[0] < reads[-1]


LAST_TILES |= {(256, 64): 0.754, (256, 80): 0.993, (256, 114): 0.989}


@pytest.mark.parametrize(("tile", "seconds"), LAST_TILES.items())
def test_a_last_tile_takes_the_time_of_the_warp_groups_that_have_rows(tile, seconds):
    head_dim, rows = tile
    block = 192 if head_dim == 64 else 128
    seq = 100 * block + rows
    run = launch(Experiment.of(algorithm="flash3", seq=seq, head_dim=head_dim, hardware="h200"))
    first, last = _pace(run, np.array([0, 100]))
    assert last == 1
    assert first == pytest.approx(seconds, abs=0.09)


def uses(
    programs: Programs, sizes, sms: int, places: int, apart: float = 0.0, spreading: float = 0.0
) -> list[tuple[float, float]]:
    """(size, what was used since its last use) of every chunk used again, by the whole history."""
    waiting, history, again, step = list(range(len(programs.stream))), [], [], 0
    slots = [{"free": 0.0, "turns": 0, "program": None} for _ in range(sms * places)]

    def begin(number: int, slot: dict) -> None:
        program = slot["program"] = waiting.pop(0) if waiting else None
        if program is not None:
            slot["visits"] = max(programs.stop[program] - programs.first[program], 1)
            behind = number // sms / places * spreading * (1 - spreading) ** slot["turns"]
            speed = programs.pace[program] * (1 - apart * (number % sms % 8) / 7)
            slot["free"] += slot["visits"] * (1 + behind) / speed
            slot.update(turns=slot["turns"] + 1, begun=step, stop=int(slot["free"] + 1e-9))
            history.append((step, ("first", program), programs.around / 2))

    for number, slot in enumerate(slots):
        begin(number, slot)
    while running := [slot for slot in slots if slot["program"] is not None]:
        places_now = set()
        for slot in running:
            program, at = slot["program"], (step - slot["begun"]) * slot["visits"]
            at = int(at / (slot["stop"] - slot["begun"]) + 1e-9)
            chunk = programs.stop[program] - 1 - at if programs.reverse else programs.first[program] + at
            places_now.add((int(programs.stream[program]), int(chunk)))
        for place in sorted(places_now):
            if before := [when for when, what, *_ in history if what == place]:
                again.append((place, before[-1], step))
        history += [(step, place, sizes[place[1]]) for place in sorted(places_now)]
        for slot in running:
            history.append((step, ("visit", slot["program"], step), programs.visit))
            if slot["stop"] == step + 1:
                history.append((step, ("last", slot["program"]), programs.around / 2))
        step += 1
        for number, slot in enumerate(slots):
            if slot["program"] is not None and slot["stop"] == step:
                begin(number, slot)
    return [(sizes[place[1]], between(history, place, *steps)) for place, *steps in again]


def between(history: list[tuple], place: tuple[int, int], before: int, step: int) -> float:
    """What is used between a place's uses in two steps, on average over the orders of either step's uses."""
    others: dict[tuple, tuple[set, float]] = {}
    for when, what, size in history:
        if before <= when <= step and what != place:
            others.setdefault(what, (set(), size))[0].add(when)
    weights = {(before,): 1 / 2, (step,): 1 / 2, (before, step): 3 / 4 if step == before + 1 else 1 / 2}
    return sum(weights.get(tuple(sorted(whens)), 1) * size for whens, size in others.values())


@st.composite
def launches(draw) -> tuple[Programs, np.ndarray, int, int]:
    """Random programs over random ranges of random streams, on a few SMs."""
    count, chunks = draw(st.integers(1, 14)), draw(st.integers(1, 6))
    ranges = [
        sorted(draw(st.tuples(st.integers(0, chunks - 1), st.integers(1, chunks)))) for _ in range(count)
    ]
    first, stop = (np.array(column) for column in zip(*ranges, strict=True))
    stop = np.maximum(stop, first + 1)
    stream = np.array(sorted(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))))
    own, visit = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    pace = np.array(draw(st.lists(st.sampled_from([0.55, 0.7, 1.0]), min_size=count, max_size=count)))
    programs = Programs(stream, first, stop, draw(st.booleans()), float(own), float(visit), pace)
    sizes = np.array(draw(st.lists(st.integers(1, 9), min_size=chunks, max_size=chunks)))
    return programs, sizes, draw(st.integers(1, 4)), draw(st.integers(1, 3))


@given(
    launches(),
    st.sampled_from([0.0, 0.03, 0.4]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0, 4.25, 12.25]),
)
@settings(max_examples=180, deadline=None)
def test_a_walk_finds_what_a_look_back_over_every_use_finds(walked_over, apart, spreading, least):
    programs, sizes, sms, places = walked_over
    reuse = walk(programs, sizes, sms, places, 500, apart, spreading, least)
    walked = np.column_stack([reuse.size, reuse.since])
    expected = np.array(uses(programs, sizes, sms, places, apart, spreading)).reshape(-1, 2)
    expected = expected[expected[:, 1] >= least]
    for each in (walked, expected):  # rows in one order, whatever the last digits are
        each[:] = each[np.lexsort(each.round(6).T)]
    np.testing.assert_allclose(walked, expected, atol=1e-9)
    assert reuse.walked == pytest.approx(len(programs.stream))


def test_very_many_streams_take_memory_for_their_uses_alone():
    streams, chunks = 4000, 32
    last = np.full(streams, chunks)
    programs = Programs(np.arange(streams), 0 * last, last, False, 1.0, 0.0, np.ones(streams))
    tracemalloc.start()
    walk(programs, np.ones(chunks), 50, 1, 32 * chunks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25e6  # a place for every chunk at every step would be 52 MB


def tile_by_tile(experiment: Experiment, size: float = 1.0) -> float:
    """Bytes of K and V that DRAM delivers to flash2, every program stepped by single tiles on a TINY GPU.

    size: of its L2.
    """
    problem, tiling, run = experiment.problem, experiment.tiling, launch(experiment)
    schedule, (kernel,) = run.schedule, run.kernels
    phase, group = schedule.phases[0], problem.heads // problem.kv_heads
    order = range(len(phase.first))
    launched = [
        (head // group, int(phase.first[block]), int(phase.stop[block]))
        for head in range(problem.batch * problem.heads)
        for block in (order if problem.mask.looks_ahead else reversed(order))
    ]
    row = 2 * problem.head_dim * problem.itemsize  # of K and V, or of Q and O
    own = tiling.block_q * (row + 4) * 1.5 / TINY.l2_bytes  # in its own half, and in that of its address
    stream, first, stop = (np.array(column) for column in zip(*launched, strict=True))
    programs = Programs(stream, first, stop, False, own, 0.0, np.ones(len(first)))
    read = sum(len({(s, c) for s, a, b in launched for c in range(a, b) if c == chunk}) * rows * row
               for chunk, rows in enumerate(schedule.key_rows))  # fmt: skip
    running = stream[: TINY.sms * kernel.resident].tolist()  # each in its own half, and in the address's
    room = TINY.l2_bytes / (2 - 0.5 ** (len(running) / len(set(running))))
    sizes = schedule.key_rows * row / room
    spreading = SPREADING if problem.head_dim <= 64 else 0.0
    found = uses(programs, sizes, TINY.sms, kernel.resident, APART, spreading)
    for bytes_, since in found:
        chance = 0.0 if since < NEVER_GONE * size else 1 / (1 + exp((1 - since / size) / UNEVEN))
        read += chance * bytes_ * room
    return read


def on_tiny(found, **values):
    """What is found of a scenario on a T4 with a tiny cache."""
    launch.cache_clear()  # of what runs on the T4 that there is
    with patch("engine.experiment.GPUS", {**GPUS, "t4": TINY}):
        result = found(Experiment.of(hardware="t4", **values))
    launch.cache_clear()
    return result


def modelled(experiment: Experiment) -> float:
    """Bytes of K and V from DRAM, by the model."""
    read = simulate.__wrapped__(experiment).traffic.dram.read
    return read[Tensor.K] + read[Tensor.V]


def both_ways(**values) -> tuple[float, float]:
    """Bytes of K and V from DRAM: by the model, and by its twin."""
    return on_tiny(modelled, **values), on_tiny(tile_by_tile, **values)


@pytest.mark.parametrize("mask", [{}, {"causal": True}], ids=["none", "causal"])
@pytest.mark.parametrize("seq", [290, 320])
def test_the_range_is_that_of_the_twin_with_a_larger_and_a_smaller_cache(seq, mask):
    shape = {"heads": 2, "seq": seq, "head_dim": 64, "block_q": 32, "block_kv": 16, **mask}
    with patch("engine.model.l2.MOST_WAVES", 100):
        moved = on_tiny(lambda one: simulate.__wrapped__(one).traffic, **shape)
    ends = [on_tiny(lambda one, size=size: tile_by_tile(one, size), **shape) for size in SIZES[1:]]
    queries = moved.compulsory.read[Tensor.Q]
    assert moved.dram_range.read[0] / 0.97 - queries == pytest.approx(ends[0], rel=1e-3)
    assert moved.dram_range.read[1] / 1.03 - queries == pytest.approx(ends[1], rel=1e-3)
    assert ends[0] < 0.97 * ends[1]


@given(experiments())
@settings(max_examples=60, deadline=None)
def test_the_modelled_bytes_are_within_their_range_and_both_ends_within_what_can_be(experiment):
    moved = simulate(experiment).traffic
    for kind, ends in (("total_read", moved.dram_range.read), ("total_written", moved.dram_range.written)):
        every = moved.compulsory, moved.dram, moved.requested
        least, modelled, most = (getattr(each, kind) for each in every)
        registers = sum(kernel.registers for kernel in moved.refetched)
        assert round(0.97 * least) <= ends[0] <= modelled <= ends[1] <= round(1.03 * most) + registers


@pytest.mark.parametrize(
    "values",
    [
        {"heads": 16, "seq": 4096},
        {"heads": 4, "seq": 2**20, "window": 1024},
        {"algorithm": "flash3", "heads": 1, "seq": 131072, "head_dim": 128, "hardware": "h200"},
        {"algorithm": "split_kv", "heads": 32, "kv_heads": 8, "seq": 1, "seq_kv": 131072},
        {"algorithm": "flash1", "heads": 8, "seq": 2048, "head_dim": 128, "hardware": "h200"},
    ],
    ids=["all-fits", "a-window-fits", "nothing-is-left", "read-once", "rows-fit"],
)
def test_far_from_the_edge_there_is_no_range(values):
    assert not simulate(Experiment.of(**values)).traffic.dram_range.is_wide


def test_registers_that_are_put_aside_may_be_read_from_dram_and_come_through_l2():
    """Of flash2 at head dim 256 in 64 x 64 under a mask; an H200's counters have 543.5 MB from L2."""
    shape = {"batch": 32, "heads": 8, "seq": 439, "head_dim": 256, "block_q": 64, "hardware": "h200"}
    one = simulate(Experiment.of(algorithm="flash2", block_kv=64, causal=True, **shape))
    aside = 32 * 8 * 7 * 128 * 4 * 22  # blocks, threads, bytes, words
    assert one.traffic.refetched[0].registers == aside
    assert one.from_l2 == one.traffic.requested.total_read + aside == pytest.approx(543.5e6, rel=0.004)
    fewer = simulate(Experiment.of(algorithm="flash2", block_kv=32, causal=True, **shape))
    assert fewer.traffic.refetched[0].registers == 0


@given(
    heads=st.integers(1, 3),
    group=st.integers(1, 2),
    seq=st.integers(1, 16 * CHUNKS),
    head_dim=st.sampled_from([16, 64]),
    block_q=st.sampled_from([32, 64, 128]),
    block_kv=st.sampled_from([16, 32, 64]),
    mask=st.sampled_from([{}, {"causal": True}, {"window": 100}]),
)
@settings(max_examples=60, deadline=None)
def test_the_model_is_its_twin_with_every_program_stepped_tile_by_tile(heads, group, mask, **shape):
    with patch("engine.model.l2.MOST_WAVES", 100):
        modelled, stepped = both_ways(heads=heads * group, kv_heads=heads, **shape, **mask)
    assert modelled == pytest.approx(stepped, rel=1e-3)


@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"window": 150}], ids=["none", "causal", "window"])
@pytest.mark.parametrize("block_q", [64, 128])
def test_several_tiles_to_a_chunk_and_waves_that_are_not_walked_change_little(mask, block_q):
    modelled, stepped = both_ways(heads=4, seq=500, head_dim=64, block_q=block_q, block_kv=16, **mask)
    assert modelled == pytest.approx(stepped, rel=0.2)


def walks_of(experiment: Experiment) -> list[tuple]:
    """What every walk of its model is given."""
    _lost.cache_clear()
    with patch("engine.model.l2.walk", side_effect=walk) as walked:
        simulate.__wrapped__(experiment).traffic  # noqa: B018
    return [call.args for call in walked.call_args_list]


@pytest.mark.parametrize("algorithm", ["standard", "flash2", "flash3"])
def test_the_longest_contexts_are_followed_for_few_steps(algorithm):
    walks = walks_of(Experiment.of(algorithm=algorithm, heads=16, seq=2**20, head_dim=128))
    assert walks
    for programs, _sizes, abreast, places, steps, *_ in walks:
        assert len(programs.stream) <= 2**15
        assert steps * abreast * places <= 2**20


def test_waves_after_those_that_were_walked_read_as_much_as_these_and_more_than_the_first():
    """The first wave finds a cold cache and reads nothing again, so it says nothing of those to come."""
    scenario = {"heads": 4, "seq": 2048, "head_dim": 64, "block_q": 32, "block_kv": 64}
    with patch("engine.model.l2.APART", 0.0):  # SMs that stay in step
        with patch("engine.model.l2.MOST_WAVES", 100):
            whole = on_tiny(modelled, **scenario)
        with patch("engine.model.l2.MOST_WAVES", 3):
            some = on_tiny(modelled, **scenario)
    once = 2 * 4 * 2048 * 64 * 2  # K and V of all heads
    assert whole > 20 * once
    assert some - once == pytest.approx(whole - once, rel=0.02)


def test_blocks_on_an_sm_spread_evenly_where_softmax_binds():
    none = np.zeros(40, np.int64)
    programs = Programs(none, none, none + 1000, False, 0.0, 0.0, np.ones(40))
    run = _launched(programs, np.ones(2), np.array([0, 0.5]), SPREADING, 10**6)
    first, second = run.stop[::2], run.stop[1::2]
    distances = (second - first)[:7] / 1000
    middle = (np.concatenate([[0], distances[:-1]]) + distances) / 2
    np.testing.assert_allclose(middle, np.mean(DISTANCES, axis=0), atol=0.07)


@pytest.mark.parametrize(("head_dim", "spreading"), [(64, SPREADING), (80, 0.0), (128, 0.0)])
def test_blocks_on_an_sm_stay_in_step_where_products_bind(head_dim, spreading):
    """By traces of an H200: those of d 80 in 64 x 64 stay at the same keys."""
    one = Experiment.of(seq=70_527, head_dim=head_dim, block_q=64, block_kv=64, hardware="h200")
    assert walks_of(one)[-1][-1] == spreading


def test_two_copies_of_half_of_the_lines_take_room():
    gpu = GPUS["h200"]
    assert gpu.l2_partitions == 2
    assert [gpu.l2_copies(sms) for sms in (0, 1, 2)] == [1, 1.5, 1.75]
    assert gpu.l2_copies(132) == pytest.approx(2)
    assert GPUS["t4"].l2_copies(1) == GPUS["t4"].l2_copies(40) == 1
