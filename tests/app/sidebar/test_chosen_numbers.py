"""Whose numbers are shown: chosen, typed, pressed on a map, refused in a sentence, and left again."""

import numpy as np
import pytest

from app.contents import PAGES
from app.figures.colours import DARK
from app.figures.heads import MEASURES, heads_map
from app.sidebar import inputs
from engine.experiment import Experiment
from engine.problem.heads import SENTENCE, Heads, keep
from engine.small.model import layers_of
from engine.studies.rescales import of_all_layers

TYPED = "We hold these truths to be self-evident"


def field(app, label: str):
    fields = (*app.selectbox, *app.select_slider, *app.text_input)
    return next((each for each in fields if each.label.startswith(label)), None)


def test_a_sentence_is_chosen_typed_and_left_for_the_drawn_scenario_of_before(open_app):
    app = open_app("softmax", seq="2048", head_dim="128")
    assert field(app, "Sentence") is None
    field(app, "Numbers").select("sentence").run()
    assert field(app, "Sentence").value == SENTENCE
    field(app, "Sentence").set_value(TYPED).run()
    field(app, "Layer").set_value(2).run()
    field(app, "Head").set_value(1).run()
    assert app.query_params["inputs"] == f"text:2.1:{TYPED}"
    assert app.query_params["seq"] == str(len(layers_of(TYPED)[0]))
    assert any("a real head's: in the row of '" in each.value for each in app.caption)
    field(app, "Numbers").select("drawn").run()
    assert (app.query_params["seq"], app.query_params["head_dim"]) == ("2048", "128")
    assert "inputs" not in app.query_params


@pytest.mark.parametrize("text", [" ", "a" * 100_000, "床" * 200])
def test_what_is_no_sentence_is_said_and_changes_nothing(open_app, text):
    app = open_app("softmax", inputs=f"text:3.1:{TYPED}")
    field(app, "Sentence").set_value(text).run()
    assert app.query_params["inputs"] == f"text:3.1:{TYPED}"
    assert any(each.value.startswith("The text has ") and "\n" not in each.value for each in app.text)


@pytest.mark.parametrize("page", [*(page for page in inputs.PAGES if page in PAGES), "speed", "gpu"])
def test_pages_of_a_head_take_a_sentence(open_app, page):
    app = open_app(page, inputs=f"text:5.2:{TYPED}")
    assert (field(app, "Sentence") is not None) == (page in inputs.PAGES)


def test_heads_of_a_file_have_a_slider_and_no_sentence(open_app):
    drawn = np.random.default_rng(0)
    key = keep(Heads.of(*(drawn.standard_normal((heads, 20, 16)) for heads in (4, 2, 2))))
    app = open_app("softmax", inputs=f"{key}:1", seq="20", head_dim="16", heads="4", kv_heads="2")
    assert (field(app, "Head").value, field(app, "Sentence")) == (1, None)
    field(app, "Head").set_value(3).run()
    assert app.query_params["inputs"] == f"{key}:3"


def test_the_map_has_every_head_where_pressing_it_leads():
    found = of_all_layers(Experiment.of(inputs=f"text:0.0:{TYPED}"))
    figure = heads_map(found, DARK)
    assert len(figure["data"]) == len(MEASURES)
    tokens, layers = layers_of(TYPED)
    rounded = lambda one: one.astype(np.float16).astype(float)  # noqa: E731
    first = figure["data"][0]
    for (layer, head), told in zip(first["customdata"], first["text"], strict=True):
        q, k, _ = layers[layer]
        scores = rounded(q[head]) @ rounded(k[head // 2]).T / 8
        weights = np.exp(np.where(np.tri(len(tokens)), scores, -np.inf))
        share = (weights[:, 0] / weights.sum(1)).mean()
        assert told == f"{share:.0%}"
