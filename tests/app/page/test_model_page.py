"""Your model: the page says the layers' numbers, and a config that is pasted is shown or refused."""

import json

from app.figures import model as figures
from app.figures.colours import DARK
from app.figures.units import seconds_text, share_text
from app.page import model as page
from engine.layers.config import shipped
from engine.layers.phase import DECODE, PREFILL, Phase
from engine.root import ROOT
from engine.studies.your_model import layers_on, recorded_layers
from tests.app.worker_page import opened, words

LLAMA = shipped("llama-3-8b")


def test_the_headline_is_the_share_of_the_layers_times_in_the_address():
    asked = {"phase": DECODE, "context": "32768", "together": "16", "hardware": "h100"}
    shown = opened("model", model="gemma-3-27b", **asked)
    found = Phase(DECODE, 32768, 16, 1, "h100").of(shipped("gemma-3-27b"))
    share = sum(part.count * part.attention_seconds for part in found.parts) / found.seconds
    said = f"{share_text(share)} of a decoding step at 32,768 tokens, 16 sequences."
    assert shown.header[0].value == f"In Gemma 3 27B, attention takes {said}"
    assert "H100" in words(shown)


def test_a_button_opens_a_kind_of_layer_as_it_is_here(open_app):
    app = open_app("model", phase=DECODE, context="16384")
    app.button(key="model to decoding").click().run()
    layer = Phase(DECODE, 16384).of(LLAMA).parts[0]
    assert app.session_state["experiment"] == layer.experiment
    assert (layer.experiment.problem.seq_q, layer.experiment.problem.kv_heads) == (1, 8)


def test_a_pasted_config_is_shown_and_a_wrong_one_says_each_field():
    config = json.loads((ROOT / "assets" / "models" / "qwen3-8b.json").read_text("utf-8"))
    del config["title"]
    shown = opened("model")
    shown.text_area(key="model config text").set_value(json.dumps(config)).run()
    assert shown.header[0].value.startswith("In your model, attention takes")
    wrong = json.dumps({**config, "num_attention_heads": -3})
    shown.text_area(key="model config text").set_value(wrong).run()
    assert "num_attention_heads is -3; it must be a whole number from 1 to 1,024." in words(shown)


def test_memory_is_drawn_in_proportion_and_says_when_it_is_too_small():
    found = Phase(DECODE, 8192, 16).of(LLAMA)
    drawn = figures.memory(found, DARK)
    assert f"height:{100 * found.weight_bytes / found.memory_bytes:.2f}%" in drawn
    assert f"height:{100 * found.kv_cache_bytes / found.memory_bytes:.2f}%" in drawn
    assert found.sequences == (found.memory_bytes - found.weight_bytes) // (2 * 32 * 8 * 128 * 2 * 8192)
    assert "share them out over more GPUs" in figures.memory_words(Phase(DECODE).of(shipped("deepseek-v3")))


def test_phones_get_the_picture_of_what_was_asked_and_no_config_of_ones_own():
    drawn = page.PICTURE.of(page.Experiment.of(), model="gpt2", context="1024")
    assert "In GPT-2, attention takes" in drawn.html
    assert not page.PICTURE.of(page.Experiment.of(), model="own").html


def test_every_recorded_layer_stands_beside_its_model(open_app):
    app, recording = open_app("model", hardware="h100"), layers_on("h100")
    app.session_state["fold model recorded"] = True
    table = next(each.value for each in app.run().get("html") if "Layers recorded and modelled" in each.value)
    row = recording.layers[0]
    assert f"<td>{seconds_text(row.times.p50)}</td>" in table
    assert recording.heading in words(app)
    assert table.count("<tr") == 1 + len(recorded_layers(recording))


def test_two_kinds_of_layers_stand_side_by_side_on_tiles(open_app):
    app = open_app("model", model="gemma-2-9b", context="16384")
    app.button(key="model to both").click().run()
    window, whole = (part.experiment for part in Phase(PREFILL, 16384).of(shipped("gemma-2-9b")).parts)
    assert app.session_state["experiment"] == window
    assert app.session_state["experiment beside"] == whole
    assert not [each for each in open_app("model").button if each.key == "model to both"]  # of one kind
