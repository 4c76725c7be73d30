"""Charts of times and rates: every mark stands at its number, in its unit, on its axis."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from plotly.graph_objects import Figure

from app.figures import speed
from app.figures.colours import palette
from app.figures.recorded import counters, heat_grid
from app.figures.roofline import both_levels, roofline
from app.figures.speed import BYTES, TIME, gains_by_length
from engine.experiment import Experiment
from engine.problem.problem import Problem
from engine.recordings.timing import TilingTiming, Times
from engine.studies.comparison import Roofline
from engine.studies.gains import Gain

COLOURS = palette(False)
ROW = {
    **{"provider": "flash2", "label": "flash2", "keys": 1024},
    **{"p20": 8e-4, "p50": 1e-3, "p80": 1.25e-3, "tflops": 400.0, "tokens_per_second": 2e6, "speedup": 3.0},
}
FASTER = ROW | {"keys": 2048, "p20": 4e-4, "p50": 5e-4, "p80": 5e-4}
ROOF = Roofline(peak_flops=1e15, bytes_per_second=5e12, cache_bytes_per_second=1e13)


def drawn(metric: str, **more):
    """The chart of two recorded rows."""
    lengths = [256, 512, 1024, 2048, 4096]
    return Figure(speed.speed_by_length((("recorded", [ROW, FASTER]),), metric, lengths, COLOURS, **more))


@pytest.mark.parametrize(
    ("metric", "value", "said"),
    [
        ("p50", 1e-3, "1 ms"),
        ("tflops", 400e12, "400 TFLOP/s"),
        ("tokens_per_second", 2e6, "2 Mtokens/s"),
        ("speedup", 3.0, "3×"),
    ],
)
def test_a_mark_stands_at_its_number_in_base_units(metric, value, said):
    line = drawn(metric).data[-1]
    assert (line.x[0], line.y[0]) == (1024, pytest.approx(value))
    assert line.customdata[0].replace(" tokens", "tokens") == said


def test_a_band_spans_the_percentiles_of_a_time_and_of_a_rate():
    """A slow call has a long time and a low rate: 400 TFLOP/s in 1 ms are 500 in 0.8 and 320 in 1.25."""
    times, rates = drawn("p50").data[0], drawn("tflops").data[0]
    assert list(times.x) == list(rates.x) == [1024, 2048, 2048, 1024]
    np.testing.assert_allclose(times.y, [8e-4, 4e-4, 5e-4, 1.25e-3])
    np.testing.assert_allclose(rates.y, [500e12, 500e12, 400e12, 320e12])


def test_a_linear_axis_begins_at_zero_and_the_scenario_is_marked_at_its_length():
    chart = drawn("tflops", linear=True, mark=1024).layout
    low, high = chart.yaxis.range
    assert (low, high) == (0, pytest.approx(500e12, rel=0.07))
    assert [chart.shapes[0].x0, chart.shapes[0].x1] == [1024, 1024]
    assert 10 ** chart.annotations[0].x == pytest.approx(1024)
    assert chart.annotations[0].text == "N = 1k"


def test_bytes_that_were_counted_stand_over_those_that_are_modelled():
    row = SimpleNamespace(experiment=Experiment.of(), what="a call", read=3e6, modelled_read=2e6)
    _, point = Figure(counters([row], "read", "modelled_read", "recorded", COLOURS)).data
    assert (point.x[0], point.y[0]) == (2e6, 3e6)
    assert list(point.customdata[0]) == ["a call", "3 MB", "2 MB"]


def test_a_table_of_blocks_has_each_time_in_its_row_and_column():
    """Larger query blocks stand higher; the fastest is the strongest, a tenth as fast has no colour."""
    seconds = {(64, 32): 1e-3, (64, 256): 2e-3, (128, 32): 5e-4, (128, 256): 5e-3}
    best = {
        blocks: TilingTiming("flash2", Problem(), *blocks, 4, 2, Times(each, each, each, 3))
        for blocks, each in seconds.items()
    }
    grid = heat_grid(best, (128, 32), COLOURS)
    lines = [re.findall(r"<th scope='row'>(\d+)|title='[^']*'>([^<]+)<", line) for line in grid.split("<tr>")]
    lines = [[number or text for number, text in line] for line in lines if line]
    assert lines == [["128", "500 µs", "5 ms"], ["64", "1 ms", "2 ms"]]
    assert re.findall(r"<th scope='col'>(\d+)", grid) == ["32", "256"]
    strengths = [int(part) for part in re.findall(rf"{COLOURS.q} (\d+)%", grid)]
    assert strengths == [55, 10, round(10 + 45 * (1 - np.log10(2))), round(10 + 45 * (1 - np.log10(4)))]


def test_a_call_stands_under_the_roof_at_flop_per_second():
    row = {"provider": "flash2", "label": "flash2", "keys": 1024, "tflops": 300.0, "intensity": 120.0}
    edge, modelled = Figure(roofline(ROOF, "a GPU", [row], [], 1024, COLOURS)).data
    assert (modelled.x[0], modelled.y[0]) == (120, pytest.approx(300e12))
    assert edge.x[1] == pytest.approx(1e15 / 5e12)  # the ridge
    assert list(edge.y[1:]) == [1e15, 1e15]
    assert edge.y[0] == pytest.approx(edge.x[0] * 5e12)


def test_both_levels_of_a_call_are_joined_at_its_rate():
    row = {"provider": "flash2", "label": "flash2", "keys": 1024, "tflops": 300.0, "L2": 20.0, "HBM": 400.0}
    l2_roof, hbm_roof, joins, l2, hbm = Figure(both_levels(ROOF, [row], "recorded", COLOURS)).data
    assert (list(joins.x), list(joins.y)) == ([20, 400, None], [pytest.approx(300e12)] * 2 + [None])
    assert (l2.name, l2.x[0], hbm.name, hbm.x[0]) == ("L2 bytes", 20, "HBM bytes", 400)
    assert l2.y[0] == hbm.y[0] == pytest.approx(300e12)
    assert (l2_roof.x[1], hbm_roof.x[1]) == (pytest.approx(100), pytest.approx(200))


def test_what_fusing_gains_is_told_apart_in_bytes_and_time():
    gain = Gain(1024, 16.0, 3.0, Experiment.of())
    bytes_, time = Figure(gains_by_length([gain], [], "recorded", 1024, COLOURS)).data
    assert (bytes_.name, bytes_.y[0], time.name, time.y[0]) == (BYTES, 16, TIME, 3)
    assert (bytes_.customdata[0], time.customdata[0]) == ("16× fewer", "3× less")
    worse = Gain(64, 2.0, 0.5, Experiment.of())
    slower = Figure(gains_by_length([worse], [], "recorded", 64, COLOURS)).data[1]
    assert slower.customdata[0] == "2× more"
    marked = Figure(gains_by_length([gain], [gain], "recorded", 1024, COLOURS)).data
    assert [trace.y[0] for trace in marked] == [16, 16, 3, 3]
