"""The Agreement page: a verdict, numbers with tolerances, and a picture tile by tile."""

import numpy as np
import pytest
from plotly.graph_objects import Figure

from app.figures.agreement import differences
from app.figures.colours import palette
from engine.experiment import Experiment
from engine.measuring.agreement import PAIRS, Agreement, kept
from engine.recordings.counters import recorded_counters
from engine.recordings.file import recording_of
from engine.studies.model_errors import in_range
from tests.app.worker_page import html, opened, press, unfolded, until_done

TINY = {"seq": 64, "heads": 2, "head_dim": 16, "block_q": 32, "block_kv": 16, "causal": "true"}
NAMED = (("Triton kernel", "float64"), ("scheduler", "float64"), ("Triton kernel", "scheduler"))
COMPARE = "Compare on this machine"


@pytest.mark.parametrize("algorithm", ["flash2", "standard"])
def test_the_page_compares_and_gives_its_verdict(session_worker, algorithm):
    page = opened("agreement", **TINY, algorithm=algorithm)
    assert not page.success
    assert any(each.value.startswith("Nothing has been compared yet") for each in page.caption)
    page = until_done(press(page, COMPARE))
    assert page.success[0].value.startswith("All three agree. Measured here:")
    table = html(page)
    assert table.count("<td>agrees</td>") == (5 if algorithm == "flash2" else 4)
    assert ("rescale" in table) == (algorithm == "flash2")
    assert "twice the error of unfused PyTorch" in table
    page.segmented_control[0].set_value("O").run()
    titles = [each.value.partition("**, ")[0] for each in page.markdown if " − " in each.value]
    assert titles[:3] == [f"**{a} − {b}" for a, b in NAMED]


def test_the_usual_scenario_opens_with_a_kept_comparison_and_counts_reads_within_the_models_range(own_worker):
    page = opened("agreement")
    (told,) = [each.value for each in page.success]
    assert told.startswith("All three agree. Not measured here, but kept from another machine: ")
    assert f"≤ {kept().largest('m', PAIRS[0]):.1e}" in " ".join(each.value for each in page.markdown)
    unfolded(page, "agreement counters")
    rows = recorded_counters(recording_of("h200"))
    assert any(f"In {in_range(rows)} of {len(rows)} scenarios" in one.value for one in page.caption)
    assert in_range(rows) >= 0.95 * len(rows)


def test_a_tile_beyond_its_tolerance_is_at_the_end_of_the_scale():
    tiles = np.array([[1e-6, np.nan], [0.0, 2e-3]])
    differ = {("m", pair): tiles for pair in PAIRS}
    agreement = Agreement(Experiment.of(), "a CPU", True, {"m": 1e-3}, differ, "2026-01-01")
    assert not agreement.holds("m")
    heat, skipped = Figure(differences(agreement, "m", PAIRS[0], palette(True))).data
    assert np.asarray(heat.z)[0, 0] == pytest.approx(-3)
    assert np.asarray(heat.z)[1].tolist() == [-4, 0]
    assert (list(skipped.x), list(skipped.y)) == ([1], [0])
