"""Bars, curves and tables of bytes: as long, as high and as strong as their numbers, in their places."""

import re

import pytest
from plotly.graph_objects import Figure

from app.figures import traffic
from app.figures.colours import palette
from app.figures.tables import LABEL_WIDTH, Bar, bars
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.schedule.step import Tensor
from engine.studies.survey import by_length

COLOURS = palette(False)


def lengths(picture: str) -> list[float]:
    """Shares of the room that the parts of all bars take, in order."""
    room = rf"calc\(\(100% - {LABEL_WIDTH}rem\) \* ([\d.]+)\)"
    return [float(share) for share in re.findall(room, picture)]


def test_bars_are_to_one_scale_on_which_the_longest_fills_the_room():
    def part(value):
        return ("Q", "#123456", False, value, "")

    rows = [Bar("a", [part(30.0), part(10.0)], "40 B"), Bar("b", [part(8.0)], "8 B")]
    assert lengths(bars(rows, COLOURS)) == [0.75, 0.25, 0.2]


def test_each_tensor_has_the_length_of_its_bytes_in_both_directions():
    """Standard attention writes S and P once and reads them once: 2 N N bytes each in 16 bits."""
    simulations = {name: simulate(Experiment.of(algorithm=name, heads=1, seq=2048)) for name in ("standard",)}
    found = {direction: by for _, direction, by in traffic.bar_bytes(simulations, "compulsory")}
    matrix, row = 2 * 2048 * 2048, 2 * 2048 * 64
    assert found["read"] == dict.fromkeys((Tensor.Q, Tensor.K, Tensor.V), row) | dict.fromkeys(
        (Tensor.S, Tensor.P), matrix
    )
    assert found["written"] == {Tensor.S: matrix, Tensor.P: matrix, Tensor.O: row}
    most = 3 * row + 2 * matrix
    shares = [*(row / most for _ in "QKV"), *[matrix / most] * 4, row / most]
    assert lengths(traffic.by_tensor(simulations, "compulsory", COLOURS)) == pytest.approx(shares, abs=1e-5)


@pytest.mark.parametrize("kind", ["requested", "compulsory"])
def test_a_curve_has_what_is_read_and_what_is_written(kind):
    """One head of standard attention, 64 x 64 tiles: Q and K by tiles, S and P twice, V by query blocks."""
    chart = Figure(traffic.bytes_by_length(by_length(Experiment.of(heads=1)), kind, 1024, COLOURS))
    line = next(trace for trace in chart.data if trace.name == "Standard")
    n, d = 4096, 64
    tiles = n // 64
    asked = {"requested": (2 + 1) * tiles * n * d + 4 * n * n + n * d, "compulsory": 4 * n * n + 4 * n * d}
    assert line.y[line.x.index(n)] == 2 * asked[kind]
