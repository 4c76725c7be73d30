"""Bytes across HBM, step by step and over time: they add up, come when their block does, and wait in L2."""

import json

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.model.launch import launch
from engine.model.simulated_timeline import simulate_timeline
from engine.model.timeline import TimelineError
from engine.problem.hardware import GPUS
from engine.recordings.file import SHELF, recording_of
from engine.schedule.step import Operation, Tensor
from engine.studies import sampled_calls
from engine.studies.sampled_calls import SampledCall, crossings, modelled_flow, outline

CALLS = {
    "unfused": {"algorithm": "standard", "seq": 2048, "causal": True},
    "flash1, ragged, shared keys": {"algorithm": "flash1", "seq": 500, "heads": 8, "kv_heads": 2},
    "flash1": {"algorithm": "flash1", "seq": 2048},
    "a window": {"algorithm": "flash2", "seq": 4096, "head_dim": 128, "kv_heads": 4, "window": 512},
    "flash3": {"algorithm": "flash3", "seq": 4000, "head_dim": 128, "causal": True},
    "split": {"algorithm": "split_kv", "seq": 1, "seq_kv": 65536, "heads": 32, "kv_heads": 8, "splits": 8},
    "backward": {"algorithm": "backward", "seq": 1024},
    "keys beyond a small cache": {"algorithm": "flash2", "seq": 8192, "heads": 4, "hardware": "t4"},
    "O beyond the cache": {"algorithm": "flash1", "seq": 2048, "heads": 64, "hardware": "t4"},
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_intervals_add_up_to_the_modelled_bytes_and_none_is_beyond_the_memory(call):
    experiment = Experiment.of(**call)
    flow, dram = modelled_flow(experiment, 1e-6), simulate(experiment).traffic.dram
    assert flow.read.sum() == pytest.approx(dram.total_read, rel=1e-9)
    assert flow.written.sum() + flow.left == pytest.approx(dram.total_written, rel=1e-9)
    both = flow.read + flow.written
    assert both.min() >= -1
    assert both[:-1].max() <= experiment.gpu.memory_bytes_per_second * 1e-6 + 1
    assert len(both) == np.ceil(simulate_timeline(experiment).seconds / 1e-6)


@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"documents": 4}])
def test_every_tile_is_fetched_by_the_first_block_that_comes_to_it(mask):
    """Block by block and visit by visit, of what stays in L2."""
    experiment = Experiment.of(seq=2048, heads=4, kv_heads=2, **mask)
    timeline, (kernel,) = simulate_timeline(experiment), launch(experiment).kernels
    interval, rows = timeline.seconds / 12, experiment.tiling.block_q * 64 * 2
    moves = []
    for head, block, begin, end in zip(
        timeline.head, timeline.query_block, timeline.start, timeline.end, strict=True
    ):
        first, visits = kernel.phase.first[block], kernel.phase.visits[block]
        each = (end - begin) / (1 + len(kernel.phase.each) * visits + len(kernel.phase.after))
        moves.append((begin, each, ("Q", head, block)))
        for visit in range(visits):
            for at, step in enumerate(kernel.phase.each):
                if step.tensor.name in "KV":
                    when = begin + (1 + visit * len(kernel.phase.each) + at) * each
                    moves.append((when, each, (step.tensor.name, head // 2, first + visit)))
    expected, seen = np.zeros(12), set()
    for when, lasts, tile in sorted(moves, key=lambda move: move[0]):
        if tile not in seen:
            seen.add(tile)
            for part in np.linspace(when, when + lasts, 50, endpoint=False):
                expected[min(int(part / interval), 11)] += rows / 50
    found = modelled_flow(experiment, interval)
    assert found.read == pytest.approx(expected, abs=0.002 * expected.sum())
    assert found.written.sum() == pytest.approx(0, abs=1)  # O fits L2


def test_what_is_stored_is_written_when_l2_is_full():
    experiment = Experiment.of(algorithm="standard", seq=4096, head_dim=128)
    flow = modelled_flow(experiment, 1e-6)
    share = experiment.gpu.l2_copies(1) / experiment.gpu.l2_bytes
    before = np.flatnonzero(flow.written > 0.1 * flow.written.max())[0]
    rate = 16 * 4096 * 4096 * 2 / simulate(experiment).modelled.parts["scores"]  # of S, bytes a second
    assert 0.7 < before * 1e-6 * rate * share < 1.1
    assert 0 < flow.left < experiment.gpu.l2_bytes


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_what_samples_are_told_to_be_is_what_the_file_s_numbers_give(gpu):
    """Sums of the raw numbers, one by one."""
    rows = json.loads((SHELF / f"{gpu}.json").read_text())["samples"]
    assert len(rows) == len(recording_of(gpu).samples) >= 21
    for row, raw in zip(recording_of(gpu).samples, rows, strict=True):
        first = next(at for at, share in enumerate(raw["sms"]) if share > 5)  # thousandths
        reads, writes = raw["read"][first:], raw["written"][first:]
        both, count = [one + other for one, other in zip(reads, writes, strict=True)], len(reads)
        span = max(round(4e-6 / raw["interval"]), 1, count // 64)
        low, high = span - 1 - (span - 1) // 2, (span - 1) // 2 + 1
        sums = [sum(both[max(at - low, 0) : at + high]) for at in range(count)]
        told = outline(SampledCall(row, "", GPUS[gpu]).sampled)
        assert told.total == 32 * (sum(both) + raw.get("left", 0))
        assert told.peak == pytest.approx(32 * max(sums) / (span * raw["interval"]))
        rates = [sum(reads[max(at - low, 0) : at + high]) * count / span / sum(reads) for at in range(count)]
        clear = [at for at in range(count) if rates[at] > 2]
        begun = [at for at in clear if at == clear[0] or min(rates[clear[clear.index(at) - 1] : at]) <= 1]
        assert told.waves == pytest.approx([at / count for at in begun])


def test_a_call_of_too_many_steps_is_refused(monkeypatch):
    monkeypatch.setattr(sampled_calls, "MOST_STEPS", 1000)
    with pytest.raises(TimelineError, match="at most 1,000 steps"):
        modelled_flow(Experiment(), 1e-6)


@pytest.mark.parametrize("values", CALLS.values(), ids=CALLS)
def test_the_steps_of_one_head_add_up_to_its_share_of_the_dram_bytes(values):
    simulation = simulate(Experiment.of(**values))
    found, columns = crossings(simulation.launch, simulation.traffic), simulation.schedule.columns
    dram, heads = simulation.traffic.dram, simulation.traffic.heads
    for operation, moved, by in (
        (Operation.LOAD, found.read, dram.read),
        (Operation.STORE, found.written, dram.written),
    ):
        assert not moved[columns.operation != operation].any()
        for tensor, amount in by.items():
            if amount:
                assert moved[columns.tensor == tensor].sum() * heads == pytest.approx(amount, rel=1e-9)
    assert (found.read <= columns.read_bytes * (1 + 1e-6)).all()
    assert (found.written <= columns.written_bytes * (1 + 1e-6)).all()


def test_a_tile_crosses_when_it_is_first_touched_and_never_again_while_it_stays_in_the_cache():
    """By a set of the tiles seen so far: K and V of N 1,024, 8,192 B a tile, are read once, not 16 times."""
    simulation = simulate(Experiment.of(seq=1024, head_dim=64))
    found, columns = crossings(simulation.launch, simulation.traffic), simulation.schedule.columns
    seen: set[tuple[int, int]] = set()
    for step in np.flatnonzero(np.isin(columns.tensor, (Tensor.K, Tensor.V))).tolist():
        tile = int(columns.tensor[step]), int(columns.key_block[step])
        assert found.read[step] == pytest.approx(0 if tile in seen else 64 * 64 * 2)
        assert found.first[step] == (tile not in seen)
        seen.add(tile)
    assert found.read.sum() == pytest.approx(3 * 1024 * 64 * 2)  # Q, K and V once


def test_where_keys_outgrow_the_cache_every_later_touch_crosses_with_one_chance():
    simulation = simulate(Experiment.of(**CALLS["keys beyond a small cache"]))
    found, columns = crossings(simulation.launch, simulation.traffic), simulation.schedule.columns
    later = (columns.tensor == Tensor.K) & ~found.first
    chances = found.read[later] / columns.read_bytes[later]
    dram, asked = simulation.traffic.dram.read[Tensor.K], simulation.traffic.requested.read[Tensor.K]
    once = 4 * 8192 * 64 * 2
    assert dram > 1.01 * once
    np.testing.assert_allclose(chances, (dram - once) / (asked - once), rtol=1e-6)  # bytes are whole
