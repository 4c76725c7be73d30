"""The Softmax page: its numbers are the engine's, and typed scores never break it."""

import re

import numpy as np
import pytest

from app.rescale import RESCALE
from engine.experiment import Experiment
from engine.problem.inputs import make_inputs
from engine.studies.rescales import Rescaling
from engine.studies.terms import SINKS, score_terms
from engine.trace.softmax import PRESETS, online_steps
from tests.app.player.test_player_payload import unpack
from tests.app.worker_page import html


@pytest.fixture
def open_row(open_app):
    """The page with a row of its own."""

    def open_page(name: str = "rising", **values: str):
        app = open_app("softmax", **values)
        app.session_state["fold softmax"] = True
        return app.main.selectbox[0].set_value(name).run()

    return open_page


def shown(app) -> dict:
    """The header of the payload of the page's picture, its scores with -inf where they are masked."""
    (picture,) = (
        each for each in app.main.get("bidi_component") if each.proto.component_name == RESCALE.name
    )
    header, _ = unpack(picture.proto.bytes)
    return header | {"scores": [-np.inf if score is None else score for score in header["scores"]]}


def test_every_preset_is_drawn_as_it_is(open_row):
    for name, preset in PRESETS.items():
        app = open_row(name)
        assert (tuple(shown(app)["scores"]), shown(app)["block"]) == (preset.scores, 4)
        assert preset.what in [caption.value for caption in app.main.caption]


def test_any_scores_are_drawn_and_what_is_none_gets_one_sentence(open_row):
    app = open_row()
    for typed in ("", "one two", "nan", "1e99", "inf", "<img src=x>", "1 " * 300, "$x$ :red[y]"):
        app.main.text_input[0].set_value(typed).run()
        (sentence,) = [text.value for text in app.main.text]
        assert re.fullmatch(r".*\.", sentence)
    for typed in ("5", "-inf", "-inf -inf -inf", "65504 -65504", "0 0 0", "-inf 1 -inf", "0 1e-20"):
        app.main.text_input[0].set_value(typed).run()
        assert shown(app)["scores"] == [float(word) for word in typed.split()]


def test_the_naive_softmax_overflows_in_float16_and_not_in_float32(open_row):
    app = open_row("overflow", dtype="float16")
    table = html(app)
    assert table.count("<td>inf / inf</td>") == 1
    app = open_row("overflow", dtype="float32")
    table = html(app)
    assert "naive softmax" in table
    assert "inf" not in table


def test_the_scenarios_row_is_that_of_dense_attention_on_its_numbers(open_app):
    values = {"seq": "200", "head_dim": "16", "block_kv": "32", "heads": "2", "causal": "true"}
    app = open_app("softmax", **values)
    problem = Experiment.of(seq=200, head_dim=16, heads=1, causal=True).problem
    q, k, v = (array[0].astype(np.float64) for array in make_inputs(problem))
    scores = k[:101] @ q[100] / 4  # row 100 sees keys 0 to 100
    steps = online_steps(scores, 32)
    assert "This is query row 100 of the scenario's first head with its 101 keys" in app.main.caption[0].value
    drawn = shown(app)
    found = Rescaling(np.array(drawn["scores"]), np.array(drawn["values"]), drawn["block"])
    np.testing.assert_allclose(found.steps.m[:4], steps.m, rtol=1e-5)
    np.testing.assert_allclose(found.steps.l[:4], steps.l, rtol=1e-5)
    weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    result = found.steps.final @ found.values
    np.testing.assert_allclose(result, weights @ v[:101, :4], rtol=1e-5)
    assert not app.main.select_slider, "no control that has no effect on the scenario's own row"
    assert not app.main.text_input
    assert app.sidebar.selectbox(key="scenario algorithm").disabled


def test_a_cap_bends_the_largest_score_also_where_all_are_negative(open_app):
    app = open_app("softmax", seq="1")
    app.session_state["fold terms"] = True
    cap = next(text.value for text in app.run().main.markdown if "A cap bends" in text.value)
    q, k, _ = make_inputs(Experiment.of(seq=1, heads=1).problem)
    (score,) = (q[0] @ k[0].T / 8).ravel()
    assert score < 0
    assert f"the largest score here, −{-score:.4g}, becomes −{-2 * np.tanh(score / 2):.4g}" in cap


def test_the_sum_beside_a_sink_is_of_a_row_that_sees_a_key(open_app):
    app = open_app("softmax", seq="777", seq_kv="333", causal="true")
    app.session_state["fold terms"] = True
    sink = next(text.value for text in app.run().main.markdown if "A sink takes" in text.value)
    assert "sum to 0," not in sink
    row, kept = re.search(r"row ([\d,]+) sum to ([\d.]+), not to 1", sink).groups()
    assert int(row) >= 777 - 333
    found = score_terms(Experiment.of(seq=777, seq_kv=333, causal=True))
    (at,) = np.flatnonzero(found.rows == int(row))
    assert float(kept) == pytest.approx(found.sums[SINKS[1]][at], rel=1e-2)


def test_an_error_of_nothing_is_0(open_app):
    app = open_app("softmax", seq="1")
    app.session_state["fold softmax"] = True
    assert html(app.run()).count("<td>0</td>") == 3
