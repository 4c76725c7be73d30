"""The Softmax page: its numbers are the engine's, and typed scores never break it."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from plotly.graph_objects import Figure

from app.figures import softmax as figures
from app.figures.claims import broken
from app.figures.colours import palette
from app.page import softmax as view
from app.scenario.presets import preset
from engine.experiment import Experiment
from engine.problem.inputs import make_inputs
from engine.studies.claims import rising
from engine.studies.terms import SINKS, score_terms
from engine.trace.softmax import PRESETS, naive_sums, online_steps
from tests.app.worker_page import html

COLOURS = palette(True)


@pytest.fixture
def open_row(open_app):
    """The page with a row of its own."""

    def open_page(name: str = "rising", **values: str):
        app = open_app("softmax", **values)
        app.session_state["fold softmax"] = True
        return app.main.selectbox[0].set_value(name).run()

    return open_page


def scores_of(app):
    return app.main.text_input[0]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_stepped_through(open_row, name):
    app = open_row(name)
    steps = online_steps(np.array(PRESETS[name].scores), 4)
    for step in range(len(steps.stops) + 1):
        app.main.slider[0].set_value(step).run()
        assert not app.exception
        if step:
            assert app.metric[1].value == f"{steps.l[step - 1]:.4g}"


def test_the_page_opens_where_a_larger_score_rescales_what_was_accumulated(open_app):
    app = open_app("softmax")
    problem = preset("Tiny, to count by hand").problem
    q, k, _ = (array[0].astype(np.float64) for array in make_inputs(problem))
    scores = k @ q[32] / np.sqrt(16)
    before, now = scores[:16].max(), scores[:32].max()
    assert app.main.slider[0].value == 2
    m, l, alpha = (float(app.metric[n].value) for n in range(3))  # noqa: E741 - the field's name
    assert (m, alpha) == pytest.approx((now, np.exp(before - now)), rel=2e-3)
    assert l == pytest.approx(np.exp(scores[:32] - now).sum(), rel=2e-3)
    assert alpha < 0.9, "and so that it can be seen"
    assert "rises from" in app.header[0].value


@pytest.mark.parametrize(
    ("scores", "step"), [([3, 1, 2, 0], 2), ([1], 1), ([-np.inf, 1, 2], 3), ([2, 1, 4], 3)]
)
def test_a_row_opens_at_its_first_rescale(scores, step):
    assert view.telling(online_steps(np.array(scores, float), 1)) == step


def test_the_headline_tells_a_rising_maximum_from_one_that_stays(open_row):
    app = open_row()
    assert "rises from 0.6 to 1.5" in app.header[0].value
    app.main.selectbox[0].set_value("settled").run()
    assert "stays 3.6, so α\u00a0=\u00a01 and" in app.header[0].value  # in one line, wherever lines end
    app.main.selectbox[0].set_value("masked").run()
    app.main.slider[0].set_value(1).run()
    assert "masked, so m stays −∞" in app.header[0].value


def test_the_buttons_step_within_the_row(open_row):
    app = open_row()
    for _ in range(6):
        app.main.button[1].click().run()
    assert app.main.slider[0].value == 4
    app.main.button[0].click().run()
    assert app.main.slider[0].value == 3


def test_the_step_stays_within_the_row_when_the_row_gets_shorter(open_row):
    app = open_row()
    app.main.slider[0].set_value(4).run()
    scores_of(app).set_value("1 2 3").run()
    assert not app.exception
    assert app.main.slider[0].value == 1
    assert "Scores 0 to 2 are read" in app.header[0].value


@pytest.mark.parametrize(
    "typed", ["", "one two", "nan", "1e99", "inf", "<img src=x>", "1 " * 300, "$x$ :red[y]"]
)
def test_scores_that_are_none_get_one_sentence(open_row, typed):
    app = open_row()
    scores_of(app).set_value(typed).run()
    assert not app.exception
    assert not app.header
    (sentence,) = [text.value for text in app.main.text]
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    "typed", ["5", "-inf", "-inf -inf -inf", "65504 -65504", "0 0 0", "-inf 1 -inf", "0 1e-20"]
)
def test_any_scores_are_drawn_at_every_step(open_row, typed):
    app = open_row()
    scores_of(app).set_value(typed).run()
    for step in (0, 1):
        app.main.slider[0].set_value(step).run()
        assert not app.exception


def test_the_naive_softmax_overflows_in_float16_and_not_in_float32(open_row):
    app = open_row("overflow", dtype="float16")
    table = html(app)
    assert table.count("<td>inf / inf</td>") == 1
    app = open_row("overflow", dtype="float32")
    table = html(app)
    assert "naive softmax" in table
    assert "inf" not in table


def heights(bars) -> list[float]:
    """Of bars drawn as one outline, four points each: as drawn, and as said where they are pointed at."""
    assert list(bars.y[1::4]) == list(bars.customdata[::4])
    return list(bars.y[1::4])


def test_the_picture_holds_the_engines_numbers():
    scores = np.array(PRESETS["rising"].scores)
    steps = online_steps(scores, 4)
    figure = Figure(figures.row(scores, steps, 3, naive_sums(scores, "float16"), "float16", COLOURS))
    earlier, read, later, _, maximum, _, now, final, *_, alphas = figure.data
    assert [*heights(earlier), *heights(read), *heights(later)] == pytest.approx(scores, rel=1e-4)
    assert [len(heights(part)) for part in (earlier, read, later)] == [8, 4, len(scores) - 12]
    assert list(maximum.y) == list(np.repeat(steps.m[:3], 2))
    assert heights(now) == pytest.approx(steps.weights[2][:12], rel=1e-4)
    upper, lower = np.array(final.y[1::6]), np.array(final.y[3::6])
    assert (upper + lower) / 2 == pytest.approx(steps.final, rel=1e-3)
    assert list(final.customdata[::6]) == pytest.approx(steps.final, rel=1e-4)
    assert list(alphas.y) == list(steps.alpha[:3])


@pytest.mark.parametrize(("count", "tick"), [(1, 1), (8, 1), (16, None)])
def test_no_tick_lies_between_two_scores(count, tick):
    scores = np.zeros(count)
    figure = Figure(
        figures.row(scores, online_steps(scores), 1, naive_sums(scores, "float32"), "float32", COLOURS)
    )
    assert figure.layout.xaxis.dtick == tick


def test_no_axis_moves_from_step_to_step_or_raises_an_exponent_too_small_for_a_room():
    scores = np.array(PRESETS["overflow"].scores)
    steps, sums = online_steps(scores, 4), naive_sums(scores, "float16")
    drawn = [Figure(figures.row(scores, steps, step, sums, "float16", COLOURS)) for step in range(5)]
    assert len({tuple(tuple(axis.range) for axis in figure.select_yaxes()) for figure in drawn}) == 1
    for figure in (drawn[3], Figure(broken(rising(), COLOURS))):
        assert {axis.exponentformat for axis in figure.select_yaxes()} <= {None, "e"}


def test_the_scenarios_row_is_that_of_dense_attention_on_its_numbers(open_app):
    values = {"seq": "200", "head_dim": "16", "block_kv": "32", "heads": "2", "causal": "true"}
    app = open_app("softmax", **values)
    problem = Experiment.of(seq=200, head_dim=16, heads=1, causal=True).problem
    q, k, _ = (array[0].astype(np.float64) for array in make_inputs(problem))
    scores = k[:101] @ q[100] / 4  # row 100 sees keys 0 to 100
    steps = online_steps(scores, 32)
    assert "This is query row 100 of the scenario's first head with its 101 keys" in app.main.caption[0].value
    for step in (1, 4):
        app.main.slider[0].set_value(step).run()
        shown = [float(metric.value.replace("−", "-")) for metric in app.metric[:2]]
        assert shown == pytest.approx([steps.m[step - 1], steps.l[step - 1]], rel=2e-3)
    assert not app.main.select_slider, "no control that has no effect on the scenario's own row"
    assert not app.main.text_input
    assert app.sidebar.selectbox(key="scenario algorithm").disabled


def test_play_steps_once_a_second_to_the_end_and_no_further(open_app, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("app.page.parts.stepper.time", SimpleNamespace(monotonic=lambda: now[0]))
    app = open_app("softmax", seq="256", block_kv="64")
    app.main.slider[0].set_value(0).run()
    app.main.button[2].click().run()
    assert (app.main.button[2].label, app.main.slider[0].value) == ("Pause", 0)
    app.run()  # another control, before a second has passed
    assert app.main.slider[0].value == 0
    for expected in (1, 2, 3, 4, 4):
        now[0] += 1.0
        app.run()
        assert app.main.slider[0].value == expected
    assert app.main.button[2].label == "Play"
    app.main.button[2].click().run()
    assert app.main.slider[0].value == 0


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
