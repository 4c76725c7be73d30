"""The scenario goes from a link into the widgets and back into a link, unharmed by whatever a link holds."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.runtime.state.query_params_proxy import QueryParamsProxy
from streamlit.util import calc_hash

from app import scenario
from app.scenario import link
from app.scenario.link import notices
from app.scenario.page_values import OWN
from app.scenario.widgets import _with, changed
from engine.experiment import PARAMETERS, Experiment
from engine.problem.problem import Mask
from engine.studies import beyond, decoding, several_gpus, tensor_memory, your_model, zoom
from tests.engine.strategies import on_one_gpu


@given(on_one_gpu(), st.sampled_from(("t4", "a100", "h200")), st.integers(1, 8))
def test_a_link_restores_its_experiment_exactly(experiment, hardware, stages):
    experiment = experiment.changed(hardware=hardware, stages=stages)
    restored, errors = Experiment.lenient(scenario.url_values(experiment))
    assert restored == experiment
    assert errors == ()


def test_a_widget_changes_the_link_and_nothing_else(open_app):
    app = open_app(seq="1000", heads="12", kv_heads="4", dtype="float32")
    app.sidebar.number_input(key="scenario heads").set_value(10).run()
    assert app.query_params["heads"] == "10"
    assert app.query_params["kv_heads"] == "2"  # the most that divide the heads, of at most 4
    assert app.query_params["seq"] == "1000"
    assert app.query_params["dtype"] == "float32"


@pytest.mark.parametrize("name", scenario.PRESETS)
def test_a_preset_is_taken_and_named_until_a_value_changes(open_app, name):
    app = open_app(seq="77", heads="3")
    app.sidebar.selectbox(key="scenario preset").set_value(name).run()
    assert app.session_state["experiment"] == scenario.preset(name)
    assert app.sidebar.selectbox(key="scenario preset").value == name
    app.sidebar.number_input(key="scenario batch").set_value(9).run()
    assert app.sidebar.selectbox(key="scenario preset 1").value is None


def test_a_value_is_taken_from_a_widget_whose_callback_would_have_been_lost(open_app):
    app = open_app(seq="1024")
    app.session_state["scenario seq"] = 4096  # as a browser reports it to the run after one that it overtook
    app.run()
    assert (app.session_state["experiment"].problem.seq_q, app.query_params["seq"]) == (4096, "4096")


def test_a_widget_that_follows_another_is_replaced_so_that_what_it_held_is_no_wish(open_app):
    app = open_app(seq="1024")
    app.sidebar.select_slider(key="scenario seq").set_value(2048).run()
    assert app.sidebar.number_input(key="scenario seq typed 1").value == 2048
    app.session_state["scenario seq typed"] = 1024  # as a browser reports that has not heard of it yet
    app.sidebar.select_slider(key="scenario seq").set_value(4096).run()
    assert app.session_state["experiment"].problem.seq_q == 4096
    assert app.sidebar.number_input(key="scenario seq typed 2").value == 4096


def test_a_browser_that_asked_before_it_heard_of_its_link_is_told_again(open_app, monkeypatch):
    told, write = [], QueryParamsProxy.from_dict
    monkeypatch.setattr(QueryParamsProxy, "from_dict", lambda *a: (told.append(a[1]["seq"]), write(*a)))
    app = open_app("masks", seq="1024")
    app.sidebar.select_slider(key="scenario seq").set_value(2048).run()
    app.query_params["seq"] = "1024"  # the browser's, while it is being told 2048
    app.sidebar.select_slider(key="scenario seq").set_value(1024).run()
    assert told[-2:] == ["2048", "1024"]


def test_an_address_brings_its_scenario_back_only_where_the_browser_went_there(open_app):
    app = open_app("masks", seq="1024")
    app.sidebar.select_slider(key="scenario seq").set_value(2048).run()
    app.query_params["seq"] = "1024"  # a browser that has not heard of it yet
    app.run()
    assert app.session_state["experiment"].problem.seq_q == 2048
    app.query_params["seq"], app.query_params[link.BACK] = "1024", "true"
    app.run()
    assert app.session_state["experiment"].problem.seq_q == 1024
    assert app.sidebar.select_slider(key="scenario seq 1").value == 1024
    assert link.BACK not in app.query_params
    script = (Path(link.__file__).parents[1] / "frame" / "early.js").read_text("utf-8")
    assert f'BACK = "{link.BACK}"' in script


def test_keys_after_a_query_alone_leave_all_before_and_keys_follow_queries_while_they_are_equal():
    assert _with(Experiment.of(seq=64), "after", 5).problem.mask == Mask(window=64, ahead=5)
    assert _with(Experiment.of(window=9), "after", None) == Experiment.of(window=9)
    equal = Experiment.of(seq=1024)
    assert changed(equal, "seq", 2048).problem.seq_kv == 2048
    decoding = Experiment.of(seq=1, seq_kv=1024)
    assert changed(decoding, "seq", 2).problem.seq_kv == 1024


def test_an_emptied_window_is_off_and_an_emptied_number_keeps_its_value(open_app):
    app = open_app(window="64", heads="8")
    app.sidebar.number_input(key="scenario before").set_value(None).run()
    app.sidebar.number_input(key="scenario heads").set_value(None).run()
    assert app.session_state["experiment"] == Experiment.of(heads=8)


def test_windows_to_both_sides_and_documents_of_any_lengths_are_shown_and_typed(open_app):
    app = open_app(window="120:60", documents="1000:24")
    sides = {name: app.sidebar.number_input(key=f"scenario {name}") for name in ("before", "after")}
    lengths = app.sidebar.text_input(key="scenario lengths")
    assert (sides["before"].value, sides["after"].value, lengths.value) == (120, 60, "1000, 24")
    sides["after"].set_value(7)
    sides["before"].set_value(30)
    lengths.set_value("24, 500, 500").run()
    typed = Experiment.of(window=(30, 7), documents=(24, 500, 500))
    assert app.session_state["experiment"] == typed
    assert (app.query_params["window"], app.query_params["documents"]) == ("30:7", "24:500:500")
    app.sidebar.selectbox(key="scenario causal").set_value(True)
    app.sidebar.text_input(key="scenario lengths").set_value("7, 8").run()
    assert app.session_state["experiment"] == typed.changed(causal=True)
    after = app.sidebar.number_input(key="scenario after 1")
    assert (after.value, after.disabled) == (0, True)
    assert app.sidebar.text_input(key="scenario lengths 1").value == "24, 500, 500"
    assert [text.value for text in app.text] == [
        "The scenario was not changed, because documents is '7:8'; it must be a number of documents, or"
        " lengths that add up to seq_kv, which is 1024."
    ]


def test_a_bad_value_is_named_with_what_stands_in_its_place_and_the_others_are_kept(open_app):
    app = open_app(seq="0", heads="3", causal="maybe", nonsense="<script>alert(1)</script>")
    (notice,) = [text.value for text in app.text]
    lines = notice.splitlines()
    assert len(lines) == 3
    assert any("seq is 0" in line and "1024" in line for line in lines)
    assert any("'maybe'" in line and "false" in line for line in lines)
    assert any("nonsense" in line for line in lines)
    assert app.session_state["experiment"] == Experiment.of(heads=3)
    assert "nonsense" not in app.query_params
    app.sidebar.number_input(key="scenario batch").set_value(2).run()
    assert not app.text  # it goes when the scenario is changed


def test_a_widget_begins_with_its_value_so_that_a_rerun_in_the_midst_of_drawing_loses_none(open_app):
    link = {"seq": "1000", "head_dim": "128", "heads": "32", "kv_heads": "8", "batch": "5", "documents": "2"}
    link |= {"window": "77", "causal": "true", "dtype": "float32", "hardware": "t4"}
    app = open_app(**link).run()  # which sets no widget anew
    assert app.query_params["batch"] == "5"
    off = [app.session_state[f"scenario {name}"] for name in ("before", "after", "seq_kv")]
    assert off == [76, 0, None]
    assert not any(slider.proto.set_value for slider in app.sidebar.select_slider)
    sliders = app.sidebar.select_slider
    begins = {each.key: each.options[int(each.proto.default[0])] for each in sliders}
    begins |= {box.key: box.options[box.proto.default] for box in app.sidebar.selectbox}
    begins |= {field.key: str(int(field.proto.default)) for field in app.sidebar.number_input}
    begins |= {field.key: field.proto.default for field in app.sidebar.text_input}
    shown = {"seq": "1000", "seq typed": "1000", "head_dim": "128", "heads": "32", "kv_heads": "8"}
    shown |= {"causal": "causal", "dtype": "float32", "hardware": "T4", "batch": "5", "lengths": "2"}
    assert shown.items() <= {name.removeprefix("scenario "): value for name, value in begins.items()}.items()


WRONG = (  # page, values, and what is said in their place
    ("traffic", {"present": "maybe"}, "present is 'maybe'; it must be true or false. Shown instead: false."),
    ("across", {"gpus": "5"}, "gpus is '5'; it must be one of 2, 3, 4, 6, 8, 16, "),
    ("tour", {"minutes": "20"}, "minutes is '20'; it must be one of 15, 45, 90. Shown instead: 45."),
    ("tour", {"tour": "../a"}, "tour is '../a'; it must be one of attention, blackwell. Shown instead: att"),
    *(("tour", {"step": step}, f"step is '{step}'; it must be ") for step in ("99", "<b>", "²")),
    ("tiles", {"inputs": "text:9.9:a"}, "inputs is 'text:9.9:a'"),
    ("masks", {"compare": "window"}, "compare is 'window'; it must be same, or names and values in turns"),
    ("masks", {"compare": "window~-3"}, "window is -3"),
    ("masks", {"compare": "colour~red"}, "colour"),
    ("masks", {"compare": "~" * 998}, "must be"),
)


@pytest.mark.parametrize(("page", "values", "said"), WRONG)
def test_a_link_to_what_there_is_not_is_one_sentence_and_shows_the_rest(open_app, page, values, said):
    app = open_app(page, **values, batch="3")
    assert said in app.text[0].value
    assert app.query_params["batch"] == "3"
    assert app.query_params.get("present") is None


@pytest.mark.parametrize("value", ["", "-1", "9" * 40, "<b>x</b>", "![x](/c)", "٣", "\x00", "1,024", "$x$"])
def test_no_page_shows_a_traceback_for_a_broken_link(open_app, value):
    names = ("seq", "kv_heads", "block_q", "window", "dtype", "causal", "hardware")
    open_app(**dict.fromkeys(names, value))


def test_nine_hundred_unknown_names_are_one_sentence():
    _, errors = Experiment.lenient({"seq": "x", **{f"name{at:03}": "1" for at in range(900)}})
    known = "'name000', 'name001', 'name002', 'name003' and 896 more."
    (said,) = notices(errors)[1:]
    assert said == f"The link has values that are not known here; they were left out: {known}"


def turn(app, page: str, **values: str):
    """Open another page of the session, as a click on its name does."""
    app._page_hash = calc_hash(page)
    app.query_params.clear()
    for name, value in values.items():
        app.query_params[name] = value
    return app.run()


def test_visiting_the_tour_gives_the_readers_scenario_back(open_app):
    app = open_app("traffic", seq="512", heads="3")
    turn(app, "tour")
    steps = app.session_state["experiment"]
    assert steps != Experiment.of(seq=512, heads=3)
    app.sidebar.number_input(key="scenario batch").set_value(9).run()  # the step's, and left with it
    assert app.session_state["experiment"] == steps.changed(batch=9)
    assert turn(app, "traffic").session_state["experiment"] == Experiment.of(seq=512, heads=3)
    assert app.query_params["seq"] == "512"


def test_a_step_in_a_link_to_another_page_leaves_its_scenario_the_readers_own(open_app):
    app = open_app("traffic", seq="512", step="3", tour="attention")
    assert app.session_state["experiment"] == Experiment.of(seq=512)
    turn(app, "tour")
    assert turn(app, "masks").session_state["experiment"] == Experiment.of(seq=512)


def test_until_a_scenario_is_chosen_the_tiles_are_few_and_other_pages_show_the_usual_one(open_app):
    app = open_app("tiles")
    tiny = app.session_state["experiment"]
    assert (tiny.problem.seq_q // tiny.tiling.block_q, tiny.problem.seq_kv // tiny.tiling.block_kv) == (4, 4)
    assert turn(app, "masks").session_state["experiment"] == Experiment.of()
    app.sidebar.number_input(key="scenario batch").set_value(9).run()
    assert turn(app, "tiles").session_state["experiment"] == Experiment.of(batch=9)
    assert scenario.first("traffic") == Experiment.of()


def test_the_bare_address_is_the_start_and_with_a_scenario_it_leads_to_the_tiles(open_app):
    app = open_app("start")
    assert dict(app.query_params) == {}
    assert open_app("start", seq="2048").session_state["experiment"] == Experiment.of(seq=2048)


def test_no_two_pages_ask_for_a_value_of_one_name():
    asked = (each.CHOICES for each in (beyond, decoding, several_gpus, tensor_memory, your_model, zoom))
    assert len(OWN.keys() - PARAMETERS) == sum(map(len, asked))  # nor one of the scenario
