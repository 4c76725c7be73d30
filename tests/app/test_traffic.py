"""The HBM traffic page: its numbers are the model's, whatever the scenario."""

from __future__ import annotations

import pytest

from app.figures import traffic as figures
from app.figures.colours import palette
from app.figures.units import bytes_text, seconds_text, short
from engine.experiment import Experiment
from engine.schedule import Tensor
from engine.simulation import simulate
from engine.survey import by_algorithm, over_blocks, over_length
from tests.app.worker_page import again, opened

COLOURS = palette(True)


def test_the_headline_and_the_table_are_the_models_numbers():
    page = opened("traffic", seq=4096, head_dim=128, causal="true")
    simulations = by_algorithm(Experiment.of(seq=4096, head_dim=128, causal=True))
    standard, flash = (simulations[name].traffic.dram.total for name in ("standard", "flash2"))
    assert bytes_text(standard) in page.header[0].value
    assert page.metric[0].value == f"{standard / flash:.3g}×"
    table = next(block.value for block in page.markdown if "compulsory" in block.value)
    for simulation in simulations.values():
        assert f"`{bytes_text(simulation.traffic.requested.total)}`" in table
    assert "Standard beyond" in page.caption[-1].value


def test_the_kind_of_bytes_changes_the_ratio():
    page = opened("traffic", seq=4096)
    page.segmented_control[0].set_value("requested")
    again(page)
    simulations = by_algorithm(Experiment.of(seq=4096))
    standard, flash = (simulations[name].traffic.requested.total for name in ("standard", "flash2"))
    assert page.metric[0].value == f"{standard / flash:.3g}×"


@pytest.mark.parametrize(
    "values",
    [
        {"seq": 1},
        {"seq": 1, "seq_kv": 1048576, "causal": "true"},
        {"seq": 1048576, "heads": 1024, "batch": 4096, "block_q": 16, "block_kv": 16},
        {"seq": 100, "seq_kv": 7, "causal": "true", "head_dim": 1},
        {"block_q": 1024, "block_kv": 1024, "head_dim": 256, "hardware": "t4", "dtype": "float32"},
        {"window": 1, "algorithm": "flash1"},
    ],
    ids=str,
)
def test_no_scenario_breaks_the_page(values):
    opened("traffic", **values)


def test_bars_add_up_to_the_totals():
    simulations = by_algorithm(Experiment.of(seq=1000, causal=True))
    figure = figures.by_tensor(simulations, "requested", COLOURS)
    for row, name in enumerate(simulations):
        read, written = (sum(trace.x[2 * row + direction] for trace in figure.data) for direction in (0, 1))
        moved = simulations[name].traffic.requested
        assert (read, written) == (moved.total_read, moved.total_written)


def test_a_tensor_has_its_colour():
    figure = figures.by_tensor(by_algorithm(Experiment.of()), "dram", COLOURS)
    assert {trace.name: trace.marker.color for trace in figure.data}["S"] == COLOURS.tensor("S")
    assert Tensor.S.name == "S"


def test_lines_over_the_length_go_through_the_scenario():
    experiment = Experiment.of(seq=4096, heads=2)
    figure = figures.over_length(over_length(experiment), "dram", 4096, COLOURS)
    line = next(trace for trace in figure.data if trace.name == "Flash 2")
    assert line.y[line.x.index(4096)] == simulate(experiment).traffic.dram.total


def test_blocks_that_do_not_fit_are_struck_out():
    survey = over_blocks(Experiment.of(head_dim=128, hardware="t4"))
    figure = figures.over_blocks(survey, (64, 64), COLOURS)
    struck = sum("<s>" in text for line in figure.data[0].text for text in line)
    assert struck == sum(not cell.footprint.fits for cell in survey.values()) > 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (bytes_text(0), "0 B"),
        (bytes_text(999.9), "1 kB"),
        (bytes_text(4.512e9), "4.51 GB"),
        (bytes_text(67.4e6), "67.4 MB"),
        (seconds_text(1.234e-5), "12.3 µs"),
        (seconds_text(90), "90 s"),
        (short(131072), "128k"),
        (short(1000), "1,000"),
    ],
)
def test_numbers_are_said_with_units(text, expected):
    assert text == expected
