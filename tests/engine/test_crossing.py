"""The bytes that cross HBM step by step, against sets of tiles touched by hand and the model's own totals."""

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.schedule.step import Operation, Tensor
from engine.studies.hbm_over_time import crossings

SCENARIOS = {
    "flash2": {"algorithm": "flash2"},
    "unfused": {"algorithm": "standard", "causal": True},
    "flash1, ragged, shared keys": {"algorithm": "flash1", "seq": 500, "heads": 8, "kv_heads": 2},
    "backward": {"algorithm": "backward", "seq": 700},
    "split keys": {"algorithm": "split_kv", "seq": 1, "seq_kv": 8192, "splits": 4, "kv_heads": 4},
    "keys beyond a small cache": {"algorithm": "flash2", "seq": 8192, "heads": 4, "hardware": "t4"},
    "O beyond the cache": {"algorithm": "flash1", "seq": 8192, "heads": 64},
}


@pytest.mark.parametrize("values", SCENARIOS.values(), ids=SCENARIOS)
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
    simulation = simulate(Experiment.of(**SCENARIOS["keys beyond a small cache"]))
    found, columns = crossings(simulation.launch, simulation.traffic), simulation.schedule.columns
    later = (columns.tensor == Tensor.K) & ~found.first
    chances = found.read[later] / columns.read_bytes[later]
    dram, asked = simulation.traffic.dram.read[Tensor.K], simulation.traffic.requested.read[Tensor.K]
    once = 4 * 8192 * 64 * 2
    assert dram > 1.01 * once
    np.testing.assert_allclose(chances, (dram - once) / (asked - once), rtol=1e-6)  # bytes are whole
