"""A dtype is one record: laid beside the others, it is in the model, in traces and at the prompt."""

import json
from functools import partial

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.__main__ import main
from engine.algorithms import ALGORITHMS, offered
from engine.problem.dtype import DTYPES, Dtype, round_to
from engine.problem.hardware import GPUS
from engine.problem.inputs import make_inputs
from engine.problem.problem import Problem
from engine.trace.dense import exact_tiles
from engine.trace.execute import execute
from tests.conftest import forget

DIGITS = 5


def _rounded(array: np.ndarray) -> np.ndarray:
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.round(fraction * 2 ** (DIGITS + 1)) / 2 ** (DIGITS + 1), exponent).astype(np.float32)


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """A format of one byte that no kernel takes, multiplied at float16's rate."""
    monkeypatch.setitem(DTYPES, "toy8", Dtype("toy8", 1, DIGITS, _rounded, "float16", served=False))
    forget()
    yield
    forget()


def test_every_algorithm_moves_half_the_bytes_of_inputs_and_every_gpu_has_a_rate():
    for algorithm in ALGORITHMS:
        scenario = {"algorithm": algorithm, "seq": 512, "head_dim": 64}
        one, two = (simulate(Experiment.of(dtype=dtype, **scenario)) for dtype in ("toy8", "float16"))
        assert simulate(one.experiment.in_own_tiling()).traffic.requested.total
        assert one.modelled.seconds > 0
        read, whole = one.traffic.compulsory.read, two.traffic.compulsory.read
        assert all(read[tensor] == whole[tensor] / 2 for tensor in whole if tensor.name in "QKV")
    assert {gpu.products_per_second("toy8") / gpu.matrix_flops["float16"] for gpu in GPUS.values()} == {1.0}
    assert Experiment.of(dtype="toy8").unserved == "No kernel here takes toy8: it is modelled only."


def test_the_trace_of_every_algorithm_is_float64_to_its_rounding():
    for algorithm in offered():
        one = Experiment.of(algorithm=algorithm, dtype="toy8", seq=80, head_dim=16, block_q=32, block_kv=16)
        inputs = [array[0] for array in make_inputs(one.problem)]
        assert all((round_to(array, "toy8") == array).all() for array in inputs)
        out, exact = execute(one, *inputs).out, exact_tiles(one, *inputs).out
        assert 0 < np.abs(out - exact).max() < 4 * DTYPES["toy8"].eps * np.abs(exact).max()


def test_the_command_line_takes_it_and_an_unknown_one_is_refused_wherever_it_is_used(capsys):
    assert main(["simulate", "--dtype", "toy8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dtype"] == "toy8"
    with pytest.raises(SystemExit):
        main(["simulate", "--dtype", "float12"])
    must = "dtype is 'float12'; it must be one of float16, bfloat16, float32, float8_e4m3fn, toy8"
    assert must in capsys.readouterr().err
    for use in (
        partial(round_to, np.zeros(1)),
        lambda name: Problem(dtype=name).itemsize,
        GPUS["h200"].products_per_second,
    ):
        with pytest.raises(ValueError, match=f"^{must}"):
            use("float12")
