"""What the player is sent: it unpacks to the engine's own numbers, and stays small and quick to build."""

from __future__ import annotations

import json

import numpy as np
import pytest

from app.player import payload
from engine.execute import row_statistics
from engine.experiment import ALGORITHMS, Experiment
from engine.inputs import make_inputs
from engine.schedules import build
from engine.timeline import step_seconds

SCENARIOS = {
    "default": {},
    "ragged, more keys": {"seq": 500, "seq_kv": 777, "block_q": 128},
    "causal window": {"seq": 300, "causal": True, "window": 70, "block_kv": 32},
    "fewer keys, rows that see none": {"seq": 200, "seq_kv": 90, "causal": True},
    "one row": {"seq": 1, "seq_kv": 64},
}


def unpack(block: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Header and arrays, read back by the documented layout alone."""
    size = int.from_bytes(block[:4], "little")
    header = json.loads(block[4 : 4 + size])
    arrays = {
        name: np.frombuffer(block, np.dtype(kind).newbyteorder("<"), length, 4 + size + offset)
        for name, kind, offset, length in header["arrays"]
    }
    return header, arrays


@pytest.fixture(params=SCENARIOS.values(), ids=SCENARIOS.keys())
def scenario(request) -> Experiment:
    return Experiment.of(**request.param)


def test_packing_and_unpacking_returns_header_and_arrays():
    arrays = {"a": np.arange(5, dtype=np.uint8), "b": np.array([1.5, -np.inf], np.float32), "c": np.zeros(0)}
    header, read = unpack(payload.pack({"name": "é"}, arrays))
    assert header["name"] == "é"
    assert all(np.array_equal(read[name], values) for name, values in arrays.items())


def test_every_array_starts_on_an_eight_byte_boundary():
    block = payload.build(Experiment.of(seq=100))
    header, _ = unpack(block)
    start = 4 + int.from_bytes(block[:4], "little")
    assert {(start + offset) % 8 for _, _, offset, _ in header["arrays"]} == {0}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_steps_are_those_of_the_schedule(scenario, algorithm):
    header, arrays = unpack(payload.build(scenario))
    experiment = scenario.changed(algorithm=algorithm)
    columns = build(experiment).columns
    table = np.array(header["runs"][algorithm]["kinds"])[arrays[f"{algorithm}.kind"]].T
    sent = ("phase", "operation", "tensor", "read_bytes", "written_bytes")
    for name, values in zip(sent, table, strict=False):
        np.testing.assert_array_equal(values, getattr(columns, name), err_msg=name)
    np.testing.assert_array_equal(table[5], step_seconds(experiment, build(experiment)))
    for name in ("query", "key"):
        block = getattr(columns, f"{name}_block")
        np.testing.assert_array_equal(
            arrays[f"{algorithm}.{name}"], np.where(block < 0, payload.NO_BLOCK, block), err_msg=name
        )


def test_the_rows_carry_the_engines_statistics(scenario):
    _, arrays = unpack(payload.build(scenario))
    q, k, _ = make_inputs(scenario.problem)
    expected = row_statistics(scenario, q[0], k[0], arrays["rows"])
    np.testing.assert_allclose(arrays["m"], expected.m.ravel(), rtol=1e-5)
    np.testing.assert_allclose(arrays["l"], expected.l.ravel(), rtol=1e-5)


def test_every_query_block_has_a_row_and_its_shares_add_up_to_one():
    scenario = Experiment.of(seq=500, block_q=128, causal=True)
    _, arrays = unpack(payload.build(scenario))
    assert set(arrays["rows"] // 128) == {0, 1, 2, 3}
    np.testing.assert_allclose(arrays["share"].reshape(4, -1).sum(1), 1, rtol=1e-5)


def test_unfused_attention_sends_one_maximum_a_row():
    _, arrays = unpack(payload.build(Experiment.of(algorithm="standard")))
    assert len(arrays["m"]) == len(arrays["rows"])


def test_a_large_problem_is_drawn_smaller_and_says_what_was_asked():
    header, arrays = unpack(payload.build(Experiment.of(seq=2**20, causal=True)))
    assert header["asked"]["seq_kv"] == 2**20
    assert header["drawn"]["seq_kv"] == 4096
    assert len(arrays["stop"]) == 64


def test_the_largest_drawing_stays_below_half_a_megabyte():
    assert len(payload.build(Experiment.of(seq=2**20))) < 500_000


def test_the_same_scenario_is_packed_once():
    assert payload.build(Experiment.of(seq=640)) is payload.build(Experiment.of(seq=640))
