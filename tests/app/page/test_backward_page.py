"""The Backward page: its payload is the schedule, its numbers the engine's, and the check can be asked."""

import re

import numpy as np
import pytest

from app.figures.units import bytes_text, scaled, seconds_text
from app.player import backward
from engine.experiment import Experiment
from engine.problem.inputs import make_inputs
from engine.recordings.file import recordings
from engine.recordings.rows import pass_times, timings_of
from engine.trace.rows import row_statistics
from tests.app.player.test_player_payload import SCENARIOS, unpack
from tests.app.worker_page import html, opened, press, unfolded, until_done

TINY = {"seq": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "block_q": 32, "block_kv": 16, "causal": "true"}
CHECK = "Check on this machine"


@pytest.mark.parametrize("values", SCENARIOS.values(), ids=SCENARIOS)
def test_the_rows_are_those_of_the_forward_pass(values):
    experiment = Experiment.of(**values)
    _, arrays = unpack(backward.build(experiment))
    q, k, _ = make_inputs(experiment.problem)
    expected = row_statistics(experiment, q[0], k[0], arrays["rows"])
    np.testing.assert_allclose(arrays["lse"], expected.lse, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(arrays["weight"], expected.weight.ravel(), atol=1e-5)
    gradient = arrays["score_gradient"].reshape(expected.weight.shape)
    np.testing.assert_allclose(gradient.sum(1), 0, atol=2e-2)  # O is rounded to float16 before it gives delta


def test_what_is_saved_by_hand(own_worker):
    page = opened("backward", seq=4096, head_dim=128, block_q=128, causal="true")
    unfolded(page, "backward costs", "backward")
    assert "<td>2×</td><td>2.5×</td><td>3.5×</td>" in html(page)
    values = {metric.label: metric.value for metric in page.metric}
    # N^2 2-byte elements against 12 bytes a row, 4096 / 6; 4 products of all 32 × 64 tiles against 7 of the
    # 1,056 that the mask leaves
    assert values == {"Memory: saving": "683×", "FLOPs: saving": "1.11×", "Bytes across HBM: saving": "17.7×"}
    assert any("unfused attention computes, keeps and moves them too" in each.value for each in page.caption)
    assert any("Fits: 97 KiB of 227 KiB of shared memory" in caption.value for caption in page.caption)


def test_the_table_of_costs_by_hand(own_worker):
    """16 heads of 1,024 x 1,024 of d 64 in 64 x 64: 4, 5, 7 products; P, or two or three numbers per row."""
    text = html(unfolded(opened("backward"), "backward costs"))
    rows = {
        name: re.findall(r"<td>(.*?)</td>", cells)
        for name, cells in re.findall(r"<tr><td class='words'>([^<]*)</td>(.*?)</tr>", text)
    }
    product, row, tile = 2 * 1024**2 * 64, 1024 * 64 * 2, 64 * 64 * 2
    visits, statistics = 16 * 16, 1024 * 4
    two_kernels = (2 * row + 3 * statistics) + (4 * row + visits * (2 * tile + 2 * 64 * 4))
    two_kernels += (3 * row + 2 * statistics) + visits * 2 * tile
    assert rows["products per tile"] == ["4", "5", "7"]
    assert rows["FLOPs"] == [scaled(16 * each * product, "FLOP") for each in (4, 5, 7)]
    assert rows["kept in memory"] == [
        bytes_text(16 * each) for each in (2 * 1024**2, 2 * statistics, 3 * statistics)
    ]
    assert rows["crosses HBM"][0] == bytes_text(16 * 2 * (7 * 1024**2 + 8 * 1024 * 64))
    assert rows["requested from L2"][2] == bytes_text(16 * two_kernels)


def test_the_recorded_times_are_the_recordings(own_worker):
    page = unfolded(opened("backward", seq=4096, head_dim=128), "backward times")
    recording = recordings()[0]
    found = pass_times(recording, 128, False, 4096)
    times = [
        row.times.p50
        for direction in ("forward", "backward")
        for row in timings_of(recording, 128, False, direction)
        if (row.provider, row.problem.seq_kv) == ("flash2", 4096)
    ]
    assert found == (4096, *times, times[1] / times[0])
    (caption,) = [caption.value for caption in page.caption if caption.value.startswith("The dotted line")]
    assert f"{seconds_text(times[0])} forward and {seconds_text(times[1])} backward" in caption
    assert f"backward: {times[1] / times[0]:.3g} times as long, with 3.5 times the FLOPs" in caption
    assert caption.startswith("The dotted line is the model of Triton Flash 2")
    # a length between two recorded ones, and one far beyond
    assert pass_times(recording, 128, False, 5000)[0] == 4096
    assert pass_times(recording, 128, False, 2**20)[0] == 65536
    assert pass_times(recording, 77, False, 4096) is None


@pytest.mark.parametrize("mask", [{}, {"documents": 2}], ids=str)
def test_the_gradients_are_checked_when_asked(session_worker, mask):
    page = unfolded(opened("backward", **TINY, **mask), "backward check")
    assert not page.success
    page = until_done(press(page, CHECK))
    assert page.success[0].value.startswith("All three agree. Measured here:")
    assert html(page).count("<td>agrees</td>") == 3


def test_the_page_taken_home_is_the_backward_pass(open_app, download):
    app, other = open_app("backward", seq="512", causal="true"), open_app("tiles", seq="512")
    for each in (app, other):
        download(each)
    code = [block.value for block in app.sidebar.code]
    assert "algorithm='backward'" in code[1]
    assert "o.sum().backward()" in code[2]
    assert "backward" not in "".join(block.value for block in other.sidebar.code)
