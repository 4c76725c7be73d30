"""Agreement: scheduler, kernel and float64 hold the same m, l, alpha in every tile; a wrong one is found."""

from dataclasses import replace

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.measuring import agreement
from engine.measuring.agreement import AGREE, PAIRS, agree, compare, keep, kept, small_sibling, tolerances
from engine.measuring.interpreter import interpreter_seconds
from engine.problem.inputs import make_inputs
from engine.trace.dense import Held, exact_tiles
from engine.trace.execute import execute
from engine.worker.jobs import JobError

TINY = {"seq": 64, "heads": 1, "head_dim": 16, "block_q": 32, "block_kv": 16}
PACKED = {"documents": "37:0:27", "window": "7:3"}
TERMS = {"softcap": 4.0, "sinks": True, "slopes": True, "window": 40}
PREFIX = {"causal": True, "prefix": 20, "softcap": 30.0, "head_dim_v": 32}


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2"])
@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"window": 9, "seq_kv": 50}, PACKED, TERMS, PREFIX])
def test_the_three_agree_through_the_worker(kernel_worker, algorithm, mask):
    experiment = Experiment.of(**TINY, algorithm=algorithm, **mask)
    job = kernel_worker.submit(AGREE, experiment.flat())
    assert job.wait(600)
    assert job.error is None
    agreement = job.result
    assert set(agreement.quantities) == {"O", "lse", "m", "l", "alpha"} - (
        {"alpha"} if algorithm == "standard" else set()
    )
    assert all(agreement.holds(quantity) for quantity in agreement.quantities)
    for pair in PAIRS:
        visited = ~np.isnan(agreement.tiles["m", pair])
        assert visited.any()
        if algorithm == "flash2" and mask == {"causal": True}:
            assert visited.tolist() == [[True, True, False, False], [True] * 4]


def test_keys_in_pages_are_refused_in_a_sentence():
    with pytest.raises(JobError, match="no kernel reports its tiles of keys in pages: leave out page_size"):
        next(agree(Experiment.of(**TINY, algorithm="split_kv", page_size=16).flat()))


def test_tiles_in_float64_are_what_their_definition_says():
    experiment = Experiment.of(**TINY, causal=True)
    q, k, v = (array[0] for array in make_inputs(experiment.problem))
    exact = exact_tiles(experiment, q, k, v)
    row, block = 40, 1
    scores = (q[row].astype(np.float64) @ k.astype(np.float64).T) * 0.25
    until = scores[: min((block + 1) * 16, row + 1)]
    assert exact.m[1, block, row - 32] == pytest.approx(until.max(), abs=1e-14)
    assert exact.l[1, block, row - 32] == pytest.approx(np.exp(until - until.max()).sum(), rel=1e-13)
    assert exact.alpha[1, block, row - 32] == pytest.approx(
        np.exp(scores[:16].max() - until.max()), rel=1e-13
    )
    assert np.isnan(exact.m[0, 3]).all()


def test_rows_that_see_no_key_are_compared_too():
    experiment = Experiment.of(**{**TINY, "seq_kv": 20}, causal=True)
    exact = exact_tiles(experiment, *(array[0] for array in make_inputs(experiment.problem)))
    assert np.isneginf(exact.lse[:44]).all()
    assert (exact.out[:44] == 0).all()


@pytest.mark.parametrize("spoilt", ["m", "l", "alpha", "lse", "out"])
def test_a_wrong_number_in_one_tile_is_found_there(spoilt):
    pytest.importorskip("torch")
    experiment = Experiment.of(**TINY)
    inputs = tuple(array[0] for array in make_inputs(experiment.problem))
    exact = exact_tiles(experiment, *inputs)
    trace = execute(experiment, *inputs)
    held = Held(trace.out, trace.lse, trace.m, trace.l, trace.alpha)
    values = getattr(held, spoilt).copy()
    place = (1, 2, 5) if values.ndim == 3 else (37,)
    values[place] += 0.1 * (1 + abs(values[place]))
    wrong = replace(held, **{spoilt: values})
    tiles = compare(experiment, {"kernel": wrong, "trace": held, "float64": exact})
    quantity = "O" if spoilt == "out" else spoilt
    bad = tiles[quantity, ("kernel", "float64")] > tolerances(experiment, exact, inputs)[quantity]
    assert np.argwhere(bad).tolist() == [[1, 2 if values.ndim == 3 else 0]]


def test_a_number_that_only_one_has_is_an_infinite_difference():
    experiment = Experiment.of(**TINY)
    exact = exact_tiles(experiment, *(array[0] for array in make_inputs(experiment.problem)))
    m = exact.m.copy()
    m[0, 0, 0] = np.nan
    tiles = compare(experiment, {"kernel": replace(exact, m=m), "trace": exact, "float64": exact})
    assert np.isinf(tiles["m", ("kernel", "trace")][0, 0])


@pytest.mark.parametrize(
    "values", [{"seq": 2**20}, {"seq": 1, "seq_kv": 2**17}, {"block_q": 1024, "seq": 65536}]
)
def test_a_large_scenario_runs_as_a_sibling_of_seconds(values):
    assert small_sibling(Experiment.of(**TINY)) == Experiment.of(**TINY)
    sibling = small_sibling(Experiment.of(**values, algorithm="standard"))
    assert interpreter_seconds(sibling) <= 3
    assert (sibling.problem.heads, sibling.problem.batch) == (1, 1)


def test_tiles_that_do_not_fit_the_chip_are_a_sentence(kernel_worker):
    job = kernel_worker.submit(
        AGREE, Experiment.of(**{**TINY, "block_q": 1024, "head_dim": 256}, hardware="t4").flat()
    )
    assert job.wait(600)
    assert job.error.startswith(("the scheduler stops: it needs", "flash2 with 1024 x 16 blocks at"))


def test_what_is_kept_is_the_usual_scenarios_and_is_found_again(tmp_path, monkeypatch):
    """Of the pair that needs no kernel; another processor rounds its sums in another order."""
    found, pair = kept(), ("trace", "float64")
    assert (found.experiment, found.agrees) == (small_sibling(Experiment()), True)
    inputs = tuple(array[0] for array in make_inputs(found.experiment.problem))
    trace, exact = execute(found.experiment, *inputs), exact_tiles(found.experiment, *inputs)
    held = Held(trace.out, trace.lse, trace.m, trace.l, trace.alpha)
    again = compare(found.experiment, {"trace": held, "kernel": held, "float64": exact})
    for quantity in found.quantities:
        assert np.nanmax(again[quantity, pair]) == pytest.approx(found.largest(quantity, pair), rel=0.5)
    monkeypatch.setattr(agreement, "KEPT", tmp_path / "kept.npz")
    keep(found)
    assert kept.__wrapped__().tiles.keys() == found.tiles.keys()
