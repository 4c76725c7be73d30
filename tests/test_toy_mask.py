"""A kind of mask is a field and what it means, entered once: the model, links and the prompt have it.

Here it is a stride: a query sees its own key and every so many before it, so that tiles have holes. No kernel
computes it, which every place says that would run one.
"""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from app.scenario.link import url_values
from app.take_home import snippet
from engine import Experiment, experiment, parameter, simulate
from engine.__main__ import main
from engine.algorithms import offered
from engine.measuring.agreement import agree
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.implementations import implementations
from engine.measuring.machine import machine
from engine.problem.bounds import visible, visible_pairs
from engine.problem.inputs import make_inputs
from engine.problem.mask import Mask, MaskError
from engine.trace.dense import exact_tiles
from engine.trace.execute import execute
from engine.trace.rows import row_statistics
from engine.worker.jobs import JobError
from tests.app.conftest import open_app
from tests.conftest import forget

__all__ = ["open_app"]


@dataclass(frozen=True)
class Strided(Mask):
    """Of the keys that the others leave, every stride-th before the query's own."""

    stride: int = 1

    @property
    def has_holes(self) -> bool:
        return self.stride > 1

    def sees(self, position, key, count):
        return super().sees(position, key, count) & ((position[:, None] - key) % self.stride == 0)


@pytest.fixture(autouse=True)
def stride(monkeypatch):
    """The whole kind, laid in where `causal` stands."""
    one = parameter.number("stride", 1, 64, 1, "problem.mask.stride", label="Stride")
    monkeypatch.setattr(experiment, "Mask", Strided)
    monkeypatch.setattr(Mask, "stride", 1, raising=False)  # of the masks that recordings hold
    monkeypatch.setitem(experiment.PARAMETERS, "stride", one)
    forget()
    yield
    forget()


def strided(**values) -> Experiment:
    return Experiment.of(**{"seq": 96, "head_dim": 16, "heads": 2, "block_q": 32, "block_kv": 16, **values})


def test_tiles_traffic_and_pairs_are_counted_and_no_tile_is_full():
    plain, found = (simulate(strided(causal=True, stride=n)).traffic for n in (1, 5))
    assert found.per_head.tiles_visited == plain.per_head.tiles_visited
    assert plain.per_head.tiles_full > found.per_head.tiles_full == 0
    assert found.requested.total == plain.requested.total
    position, key = np.arange(96)[:, None], np.arange(96)
    seen, problem = (key <= position) & ((position - key) % 5 == 0), strided(causal=True, stride=5).problem
    np.testing.assert_array_equal(visible(problem), seen)
    assert visible_pairs(problem) == seen.sum()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("algorithm", offered())
def test_the_trace_equals_float64(algorithm, causal):
    one = strided(algorithm=algorithm, causal=causal, stride=3, dtype="float32")
    inputs = [array[0] for array in make_inputs(one.problem)]
    trace, exact = execute(one, *inputs), exact_tiles(one, *inputs)
    polynomials = 1e-4 if algorithm == "flash4" else 0.0  # of an exponential
    np.testing.assert_allclose(trace.out, exact.out, atol=2e-5 + polynomials)
    np.testing.assert_allclose(trace.lse, exact.lse, atol=2e-5 + polynomials)
    rows = row_statistics(one, *inputs[:2], np.arange(96))
    np.testing.assert_allclose(rows.lse, exact.lse, atol=2e-5 + polynomials)


def test_links_and_the_command_line_take_it_and_print_it(capsys):
    one = strided(stride=5)
    assert url_values(one)["stride"] == "5"
    assert Experiment.lenient(url_values(one)) == (one, ())
    _, (error,) = Experiment.lenient({"stride": "65"})
    assert str(error) == "stride is 65; it must be a whole number from 1 to 64"
    assert main(["simulate", "--stride", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stride"] == 5
    with pytest.raises(SystemExit):
        main(["simulate", "--stride", "none"])
    assert "stride is 'none'; it must be a whole number" in capsys.readouterr().err


def test_the_sidebar_shows_it_under_more_and_pages_draw_it(open_app):
    app = open_app("masks", stride="5")
    assert not app.exception
    (field,) = [one for one in app.sidebar.text_input if one.label == "Stride"]
    assert field.value == "5"
    field.set_value("7").run()
    assert app.query_params["stride"] == "7"
    assert any("stride 7" in str(each.value) for each in app.get("html"))


def test_no_kernel_takes_it_and_everything_that_would_run_one_says_so():
    sentence, one = "No kernel here takes a mask with stride: it is modelled only.", strided(stride=5)
    assert one.unserved == sentence
    assert snippet.kernel(one) == f"# {sentence}\n"
    with pytest.raises(MaskError, match=sentence):
        one.problem.mask.arguments(96)
    bench = Bench(machine(), [implementations()[name] for name in ("flash2", "eager")], LONGEST_RECORDED)
    assert {row.skipped for row in bench.timings(one.problem)} == {sentence}
    with pytest.raises(JobError, match=sentence):
        list(agree(one.flat()))
