"""The Backward page: its payload is the schedule, its numbers the engine's, and the check can be asked."""

import json
import re

import numpy as np
import pytest

from app.figures.units import bytes_text, scaled
from app.player import backward
from engine.experiment import Experiment
from engine.problem.inputs import make_inputs
from engine.recordings.file import recordings
from engine.recordings.rows import timings_of
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


def test_the_table_of_costs_by_hand(own_worker):
    """16 heads of 4,096 x 4,096 of d 128, causal: 4 products of all 32 x 64 tiles, 7 of the 1,056 visited."""
    page = unfolded(opened("backward", seq=4096, head_dim=128, block_q=128, causal="true"))
    text = html(unfolded(page, "backward costs", "backward"))
    row = r"<tr><td class='words'>([^<]*)</td>(.*?)</tr>"
    rows = {name: re.findall(r"<td.*?>(.*?)</td>", cells) for name, cells in re.findall(row, text)}
    product = 16 * 2 * 4096**2 * 128
    computed = [scaled(product * each, "FLOP") for each in (4, 7 * 1056 / 2048)]
    assert rows["FLOPs"] == [*computed, "1.11× less"]
    kept = [bytes_text(16 * 4096 * each) for each in (2 * 4096, 12)]  # P, or three numbers of 4 bytes a row
    assert rows["kept in memory"] == [*kept, "683× less"]
    assert rows["crosses HBM"][0] == bytes_text(16 * 2 * (7 * 4096**2 + 8 * 4096 * 128))
    assert rows["crosses HBM"][2] == "17.7× less"
    assert any("Fits: 97 KiB of 227 KiB of shared memory" in caption.value for caption in page.caption)


def test_the_recorded_times_are_the_recordings(own_worker):
    page = unfolded(opened("backward", seq=4096, head_dim=128), "backward times")
    (drawn,) = page.get("plotly_chart")
    lines = [line for line in json.loads(drawn.proto.spec)["data"] if line.get("name") == "Triton Flash 2"]
    for row in timings_of(recordings()[0], 128, False, "backward"):
        if row.provider == "flash2":
            marks = [mark for line in lines for mark in zip(line["x"], line["y"], strict=True)]
            assert (row.problem.seq_kv, pytest.approx(row.times.p50)) in marks


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
