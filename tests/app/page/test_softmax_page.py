"""The Softmax page: its numbers are the engine's, and typed scores never break it."""

from __future__ import annotations

import numpy as np
import pytest

from app.figures import softmax as figures
from app.figures.colours import palette
from engine.trace.softmax import PRESETS, naive_sums, online_steps
from tests.app.worker_page import html

COLOURS = palette(True)


def scores_of(app):
    return app.main.text_input[0]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_stepped_through(open_app, name):
    app = open_app()
    app.main.selectbox[0].set_value(name).run()
    steps = online_steps(np.array(PRESETS[name].scores), 4)
    for step in range(len(steps.stops) + 1):
        app.main.slider[0].set_value(step).run()
        assert not app.exception
        if step:
            assert app.metric[1].value == f"{steps.l[step - 1]:.4g}"


def test_the_headline_tells_a_rising_maximum_from_one_that_stays(open_app):
    app = open_app()
    assert "rises from 0.6 to 1.5" in app.header[0].value
    app.main.selectbox[0].set_value("settled").run()
    assert "stays 3.6, so α = 1" in app.header[0].value
    app.main.selectbox[0].set_value("masked").run()
    app.main.slider[0].set_value(1).run()
    assert "masked, so m stays −∞" in app.header[0].value


def test_the_buttons_step_within_the_row(open_app):
    app = open_app()
    for _ in range(6):
        app.main.button[1].click().run()
    assert app.main.slider[0].value == 4
    app.main.button[0].click().run()
    assert app.main.slider[0].value == 3


def test_the_step_stays_within_the_row_when_the_row_gets_shorter(open_app):
    app = open_app()
    app.main.slider[0].set_value(4).run()
    scores_of(app).set_value("1 2 3").run()
    assert not app.exception
    assert app.main.slider[0].value == 1
    assert "Scores 0 to 2 are read" in app.header[0].value


@pytest.mark.parametrize(
    "typed", ["", "one two", "nan", "1e99", "inf", "<img src=x>", "1 " * 300, "$x$ :red[y]"]
)
def test_scores_that_are_none_get_one_sentence(open_app, typed):
    app = open_app()
    scores_of(app).set_value(typed).run()
    assert not app.exception
    assert not app.header
    (sentence,) = [text.value for text in app.main.text]
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize("typed", ["5", "-inf", "-inf -inf -inf", "65504 -65504", "0 0 0", "-inf 1 -inf"])
def test_any_scores_are_drawn_at_every_step(open_app, typed):
    app = open_app()
    scores_of(app).set_value(typed).run()
    for step in (0, 1):
        app.main.slider[0].set_value(step).run()
        assert not app.exception


def test_the_naive_softmax_overflows_in_float16_and_not_in_float32(open_app):
    app = open_app(dtype="float16")
    app.main.selectbox[0].set_value("overflow").run()
    table = html(app)
    assert table.count("inf / inf") == 1
    app = open_app(dtype="float32")
    app.main.selectbox[0].set_value("overflow").run()
    table = html(app)
    assert "naive softmax" in table
    assert "inf" not in table


def test_the_picture_holds_the_engines_numbers():
    scores = np.array(PRESETS["rising"].scores)
    steps = online_steps(scores, 4)
    figure = figures.row(scores, steps, 3, naive_sums(scores, "float16"), "float16", COLOURS)
    scored, _, maximum, _, now, final, *_, alphas = figure.data
    assert list(scored.y) == list(scores)
    assert list(maximum.y) == list(np.repeat(steps.m[:3], 2))
    assert list(now.y) == list(steps.weights[2][:12])
    assert list(final.y) == list(steps.final)
    assert list(alphas.y) == list(steps.alpha[:3])


def test_no_axis_moves_from_step_to_step():
    scores = np.array(PRESETS["overflow"].scores)
    steps, sums = online_steps(scores, 4), naive_sums(scores, "float16")
    ranges = {
        tuple(tuple(axis.range) for axis in figure.select_yaxes())
        for figure in (figures.row(scores, steps, step, sums, "float16", COLOURS) for step in range(5))
    }
    assert len(ranges) == 1
