"""Charts of times and rates: every mark stands at its number, in its unit, on its axis."""

from types import SimpleNamespace

import pytest
from plotly.graph_objects import Figure

from app.figures import speed
from app.figures.agreement import counters
from app.figures.colours import palette
from app.figures.speed import BYTES, TIME, gains_by_length, roofline
from engine.experiment import Experiment
from engine.studies.gains import Gain
from engine.studies.survey import Roofline

COLOURS = palette(False)
CALL = {"provider": "flash2", "label": "flash2", "keys": 1024}
ROW = CALL | {"p50": 1e-3, "tflops": 400.0, "speedup": 3.0}
FASTER = ROW | {"keys": 2048, "p50": 5e-4, "tflops": 800.0}
ROOF = Roofline(peak_flops=1e15, bytes_per_second=5e12, cache_bytes_per_second=1e13)


def drawn(metric: str, **more):
    """The chart of two recorded rows."""
    return Figure(speed.speed_by_length((("recorded", [ROW, FASTER]),), metric, COLOURS, **more))


@pytest.mark.parametrize(("metric", "said"), [("p50", "1 ms"), ("tflops", "400 TFLOP/s"), ("speedup", "3×")])
def test_a_mark_stands_at_its_number(metric, said):
    line = drawn(metric).data[-1]
    assert (line.x[0], line.y[0]) == (1024, pytest.approx(ROW[metric]))
    assert line.customdata[0] == said


def test_a_rates_axis_begins_at_zero_and_the_scenario_is_marked_at_its_length():
    chart = drawn("tflops", mark=1024).layout
    low, high = chart.yaxis.range
    assert (low, high) == (0, pytest.approx(800 * 1.06))
    assert [chart.shapes[0].x0, chart.shapes[0].x1] == [1024, 1024]


def test_bytes_that_were_counted_stand_over_those_that_are_modelled():
    row = SimpleNamespace(experiment=Experiment.of(), read=3e6, modelled_read=2e6)
    _, point = Figure(counters([row], "read", "modelled_read", COLOURS)).data
    assert (point.x[0], point.y[0], point.customdata[0]) == (2e6, 3e6, "3 MB")


def test_a_call_stands_under_the_roof_at_flop_per_second():
    row = CALL | {"tflops": 300.0, "HBM": 120.0}
    calls = {"modelled": [row | {"filled": True}], "measured here": []}
    edge, modelled = Figure(roofline(ROOF, calls, "", COLOURS)).data
    assert (modelled.x[0], modelled.y[0], modelled.marker.symbol) == (120, pytest.approx(300e12), ("circle",))
    assert edge.x[1] == pytest.approx(1e15 / 5e12)  # the ridge
    assert list(edge.y[1:]) == [1e15, 1e15]
    assert edge.y[0] == pytest.approx(edge.x[0] * 5e12)


def test_both_levels_of_a_call_are_joined_at_its_rate():
    row = CALL | {"tflops": 300.0, "L2": 20.0, "HBM": 400.0}
    l2_roof, hbm_roof, joins, l2, hbm = Figure(roofline(ROOF, {"recorded": [row]}, "", COLOURS)).data
    assert (list(joins.x), list(joins.y)) == ([20, 400, None], [pytest.approx(300e12)] * 2 + [None])
    assert (l2.name, l2.x[0], hbm.name, hbm.x[0]) == ("L2 bytes", 20, "HBM bytes", 400)
    assert l2.y[0] == hbm.y[0] == pytest.approx(300e12)
    assert (l2_roof.x[1], hbm_roof.x[1]) == (pytest.approx(100), pytest.approx(200))


def test_what_fusing_gains_is_told_apart_in_bytes_and_time():
    gain = Gain(1024, 16.0, 0.5, Experiment.of())
    bytes_, time = Figure(gains_by_length([gain], [], 1024, COLOURS)).data
    assert (bytes_.name, bytes_.y[0], time.name, time.y[0]) == (BYTES, 16, TIME, 0.5)
    assert (bytes_.customdata[0], time.customdata[0]) == ("16×", "0.5×")
    marked = Figure(gains_by_length([gain], [gain], 1024, COLOURS)).data
    assert [trace.y[0] for trace in marked] == [16, 16, 0.5, 0.5]
    assert [trace.mode for trace in marked] == ["lines", "markers"] * 2
