"""The HBM traffic page: its numbers are the model's, whatever the scenario."""

import re

import pytest
from plotly.graph_objects import Figure

from app.figures import traffic as figures
from app.figures.colours import palette
from app.figures.tables import table
from app.figures.units import bytes_range_text, bytes_text, log_ticks
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.schedule.step import Tensor
from engine.studies.survey import by_algorithm, by_length, by_tiling
from tests.app.worker_page import html, opened, words

COLOURS = palette(True)


def test_the_headline_and_the_table_are_the_models_numbers():
    page = opened("traffic", seq=4096, head_dim=128, causal="true")
    simulations = by_algorithm(Experiment.of(seq=4096, head_dim=128, causal=True))
    standard, flash = (simulations[name].traffic.dram.total for name in ("standard", "flash2"))
    assert bytes_text(standard) in page.header[0].value
    assert f"{standard / flash:.3g} times less" in page.header[0].value
    page_text = html(page)
    for simulation in simulations.values():
        assert f"<td>{bytes_text(simulation.traffic.requested.total)}</td>" in page_text
    assert "Longest sequence that fits in 150 GB: Standard " in words(page)


def test_flops_per_byte_and_what_tensors_take_by_hand():
    """16 heads of 1,024 x 1,024 of d 64, all in L2: S and P pass twice each; m and l once each way."""
    page = opened("traffic")
    flops, tensor, row = 16 * 4 * 1024**2 * 64, 16 * 1024 * 64 * 2, 16 * 1024 * 4
    matrix = 16 * 1024**2 * 2
    moved = (4 * matrix + 4 * tensor, 5 * tensor + 4 * row, 4 * tensor + row)
    shares = "".join(f"<td>{flops / each:.3g}</td>" for each in moved)
    assert f"<td class='words'>FLOP per byte of HBM</td>{shares}" in html(page)
    assert any("for what they load: S and O are in registers" in said.value for said in page.caption)
    taken = (2 * matrix + 4 * tensor + row, 4 * tensor + 2 * row, 4 * tensor + row)
    needs = ", ".join(map(bytes_text, taken))
    assert f"This scenario needs {needs}, in the same order." in words(page)


def test_where_the_model_is_unsure_the_page_says_between_what_the_bytes_lie():
    """Of 2 heads of 98,340 tokens, which nearly fill L2: DRAM delivered 141 and 143 MB, written are 26."""
    edge = {"algorithm": "flash3", "heads": 2, "seq": 98340, "head_dim": 64}
    (said,) = [each.value for each in opened("traffic", **edge).caption if "little decides" in each.value]
    low, high = simulate(Experiment.of(**edge).in_own_tiling()).traffic.dram_range.total
    assert f"Flash 3 {bytes_range_text(low, high)}" in said
    assert low < (141 + 26) * 1e6 < (143 + 26) * 1e6 < high
    assert "Standard" not in said
    assert not [each for each in opened("traffic").caption if "little decides" in each.value]


def test_a_tensor_has_its_colour_and_says_its_bytes():
    simulations = by_algorithm(Experiment.of())
    picture = figures.by_tensor(simulations, "dram", COLOURS)
    written = bytes_text(simulations["standard"].traffic.dram.written[Tensor.S])
    part = re.search(f"<i title='S, Standard, written: {written}' style='background:(#[0-9a-f]+)", picture)
    assert part[1] == COLOURS.tensor("S")


def test_blocks_that_do_not_fit_are_struck_out_and_the_scenarios_are_framed():
    survey = by_tiling(Experiment.of(head_dim=128, hardware="t4"))
    picture = figures.bytes_by_tiling(survey, (64, 64), COLOURS)
    struck = picture.count("linear-gradient")
    assert struck == sum(not cell.footprint.fits for cell in survey.values()) > 0
    assert picture.count("inset") == 1
    assert figures.bytes_by_tiling(survey, (48, 48), COLOURS).count("inset") == 0


def test_a_table_shows_what_it_is_given_as_text():
    cells = table([{"": "a & b", "<b>": "1 < 2"}])
    assert "<th scope='col'>&lt;b&gt;</th>" in cells
    assert "a &amp; b</td><td>1 &lt; 2</td>" in cells


def test_a_short_logarithmic_axis_has_labels_between_the_decades():
    assert log_ticks(0.3, 8, "×")["ticktext"][:6] == ["0.1 ×", "0.2 ×", "0.5 ×", "1 ×", "2 ×", "5 ×"]
    assert log_ticks(1e3, 1e9, "B")["ticktext"] == [f"{n} {p}B" for p in "kMG" for n in (1, 10, 100)][:7]


def lengths(picture: str) -> list[float]:
    """Shares of the room that the parts of all bars take, in order."""
    room = rf"calc\(\(100% - {figures.LABEL_WIDTH}rem\) \* ([\d.]+)\)"
    return [float(share) for share in re.findall(room, picture)]


def test_each_tensor_has_the_length_of_its_bytes_in_both_directions():
    """Standard attention writes S and P once and reads them once: 2 N N bytes each in 16 bits."""
    simulations = {name: simulate(Experiment.of(algorithm=name, heads=1, seq=2048)) for name in ("standard",)}
    found = {direction: by for _, direction, by in figures.bar_bytes(simulations, "compulsory")}
    matrix, row = 2 * 2048 * 2048, 2 * 2048 * 64
    whole = {Tensor.S: matrix, Tensor.P: matrix}
    assert found["read"] == dict.fromkeys((Tensor.Q, Tensor.K, Tensor.V), row) | whole
    assert found["written"] == whole | {Tensor.O: row}
    most = 3 * row + 2 * matrix
    shares = [*(row / most for _ in "QKV"), *[matrix / most] * 4, row / most]
    assert lengths(figures.by_tensor(simulations, "compulsory", COLOURS)) == pytest.approx(shares, abs=1e-5)


@pytest.mark.parametrize("kind", ["requested", "compulsory"])
def test_a_curve_has_what_is_read_and_what_is_written(kind):
    """One head of standard attention, 64 x 64 tiles: Q and K by tiles, S and P twice, V by query blocks."""
    chart = Figure(figures.bytes_by_length(by_length(Experiment.of(heads=1)), kind, 1024, COLOURS))
    line = next(trace for trace in chart.data if trace.name == "Standard")
    n, d = 4096, 64
    tiles = n // 64
    asked = {"requested": (2 + 1) * tiles * n * d + 4 * n * n + n * d, "compulsory": 4 * n * n + 4 * n * d}
    assert line.y[line.x.index(n)] == 2 * asked[kind]
