"""FP8, e4m3: its values by the format's own rule, rounding by search among them, and rows recorded on it."""

from dataclasses import replace

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.measuring import clock, sections
from engine.measuring.sections import together
from engine.problem.dtype import round_e4m3
from engine.problem.inputs import make_inputs
from engine.problem.problem import Mask, Problem
from engine.recordings.file import FileError, dumps, loads, recordings
from engine.recordings.recording import identity
from engine.recordings.timing import INPUTS, NUMBERS, Fp8Timing, Times
from engine.studies.block_scales import E4M3, head_errors, recorded_fp8
from tests.engine.test_block_scales import FORMATS, nearest

VALUES = np.r_[-FORMATS[E4M3][:0:-1], FORMATS[E4M3]]


def test_rounding_goes_to_the_nearest_value_and_halves_to_the_even_one():
    numbers = np.random.default_rng(1).normal(0, 30, 400)
    assert round_e4m3(numbers).tolist() == nearest(numbers, FORMATS[E4M3]).tolist()
    assert round_e4m3(np.array([1.0625, 1.1875, 0.0, 500, -1e9])).tolist() == [1.0, 1.25, 0.0, 448, -448]


TIMES = Times(0.9e-3, 1e-3, 1.1e-3, 5)


def row(numbers="rotated", inputs="normal", head_dim=128, keys=4096, causal=False, **others):
    problem = Problem(1, 16, 16, keys, keys, head_dim, "float16", Mask(causal))
    given = {"times": TIMES, "relative_error": 0.02, **others}
    return Fp8Timing("fp8", "FP8", "forward", problem, numbers=numbers, inputs=inputs, **given)


@pytest.fixture(scope="module")
def recording():
    return replace(recordings()[0], timings=(), sweep=(), decoding=(), counters=(), timelines=())


def test_rows_survive_a_file(recording):
    rows = (row(), row(inputs="outliers", commit="0123456"), row("tensor", times=None, skipped="no"))
    assert loads(dumps(replace(recording, fp8=rows)).encode()).fp8 == rows


@pytest.mark.parametrize("wrong", [{"numbers": "e5m2"}, {"inputs": "zeros"}])
def test_unknown_kinds_are_refused(recording, wrong):
    with pytest.raises(FileError, match="must have numbers of float16, tensor, block, rotated"):
        loads(dumps(replace(recording, fp8=(replace(row(), **wrong),))).encode())


def test_rows_differ_by_their_numbers_and_inputs():
    assert len({identity(row(numbers, inputs)) for numbers in NUMBERS for inputs in INPUTS}) == 8


def test_the_nearest_problem_that_was_timed_is_found(recording):
    alike = (row("float16"), row())
    others = (row(causal=True), row(head_dim=64), row(keys=16384), row(keys=8192, times=None, skipped="no"))
    held = replace(recording, fp8=(*others, *alike))
    scenario = Experiment(problem=Problem(2, 8, 8, 6000, 6000, 128, "float16", Mask()))
    assert recorded_fp8(held, scenario) == alike
    assert recorded_fp8(held, scenario.changed(causal=True)) == (others[0],)
    assert recorded_fp8(replace(held, fp8=()), scenario) == recorded_fp8(None, scenario) == ()


def test_without_a_hopper_gpu_rows_say_why():
    interpreted = pytest.importorskip("kernels.launch.launch", exc_type=ImportError).interpreted
    if not interpreted():
        pytest.skip("this machine has a GPU")
    small = {"batch": 1, "heads": 1, "kv_heads": 1, "seq_q": 64, "seq_kv": 64, "head_dim": 64}
    rows = [
        replace(each, problem=replace(each.problem, **small))
        for each in together("fp8", "problem", "inputs")[0]
    ]
    found = sections.timed(rows, clock.Repeats(1, 1, 0.01), cuda=False)
    assert all("does not serve this call" in each.skipped for each in found)


def test_errors_are_those_of_the_definition():
    torch = pytest.importorskip("torch")
    exact = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64).view(1, 2, 1, 2)
    out = torch.tensor([[3.0, 4.0], [9.0, 9.0], [0.5, 0.0]]).view(1, 3, 1, 2)  # the second is not compared
    assert sections.Relative(exact).error(out) == pytest.approx(0.5 / 5)


def test_one_number_in_a_thousand_is_an_outlier_ten_times_as_wide():
    torch = pytest.importorskip("torch")
    (found,) = sections.with_outliers((torch.zeros(1000, 1000),))
    changed = found[found != 0]
    assert len(changed) == pytest.approx(1000, rel=0.1)
    assert float(changed.std()) == pytest.approx(10, rel=0.1)


def test_the_errors_of_a_head_are_those_of_rounding_its_tensors_by_torch():
    torch = pytest.importorskip("torch")
    experiment = Experiment.of(inputs="text:2.1", dtype="float32")
    q, k, v = (torch.from_numpy(each[0]) for each in make_inputs(experiment.problem))

    def eight(tensor):
        scale = tensor.abs().max() / 448
        return (tensor / scale).float().to(torch.float8_e4m3fn).double() * scale

    def out(q, k, v, rounded):
        hidden = torch.ones(len(q), len(k)).tril() == 0
        scores = (q.double() @ k.double().T / 8).masked_fill(hidden, -torch.inf)
        weights = torch.exp(scores - scores.max(1, keepdim=True).values)
        return rounded(weights) @ v.double() / weights.sum(1, keepdim=True)

    exact, found = out(q, k, v, lambda weights: weights), out(*map(eight, (q, k, v)), eight)
    error = float(((found - exact) ** 2).mean().sqrt() / (exact**2).mean().sqrt())
    errors = head_errors(experiment)
    assert errors["this head"]["one scale per tensor"] == pytest.approx(error, rel=1e-3)
    assert all(0.005 < each < 0.2 for row in errors.values() for each in row.values())
