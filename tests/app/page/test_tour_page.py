"""The Tour page: a step of the link, its votes and its answer, computed for the scenario on the screen."""

import pytest

from app.tour import file
from engine.experiment import Experiment
from tests.app.worker_page import press


def markdown(app) -> str:
    return "\n".join(element.value for element in app.main.markdown)


def test_the_tour_goes_on_to_its_end_and_back(open_app):
    app = open_app("tour", present="true")
    steps = file.load("attention").steps
    for number, step in enumerate(steps, 1):
        assert app.header[0].value == step.title
        assert app.query_params["step"] == str(number)
        assert app.session_state["experiment"] == step.experiment
        if number == 3:  # no equation is torn apart at a line's end
            assert "m\u00a0=\u00a00.707 and l\u00a0=\u00a01.49." in app.subheader[0].value
        if step.answer:  # nothing is told before it is asked for
            assert f"**{step.said().value}, " not in markdown(app)
        assert step.said().filled(step.before) in markdown(app)
        if step.question:
            press(app, "tour_next")
            assert step.said().filled(step.after) in markdown(app)
        if step.answer:
            text = step.said().value
            assert f"**{text}, " in markdown(app)
        if number < len(steps):
            press(app, "tour_next")
    assert app.button(key="tour_next").disabled
    press(app, "tour_back")
    assert app.query_params["step"] == str(len(steps) - 1)


def test_a_lecture_of_15_minutes_leaves_steps_out_and_stays_in_the_address(open_app):
    app = open_app("tour", minutes="15", step="7")
    assert app.segmented_control[1].value == "15"
    for _ in range(2):  # to the answer, and on
        press(app, "tour_next")
    assert (app.query_params["step"], app.query_params["minutes"]) == ("18", "15")
    press(app, "tour_back")
    assert app.query_params["step"] == "7"
    app.segmented_control[1].set_value("45").run()
    assert "minutes" not in app.query_params  # the usual one
    press(app, "tour_next")
    assert app.query_params["step"] == "8"


def test_another_tour_begins_at_its_first_step_in_its_own_minutes(open_app):
    app = open_app("tour", minutes="15", step="6")
    app.segmented_control[0].set_value("blackwell").run()
    assert (app.query_params["tour"], app.query_params["step"]) == ("blackwell", "1")
    assert "minutes" not in app.query_params
    assert app.header[0].value == file.load("blackwell").steps[0].title
    assert not app.text


BLOCKS = "6"  # the step whose answer follows the blocks


def test_the_answer_is_computed_for_the_scenario_on_screen(open_app):
    app = open_app("tour", tour="attention", step=BLOCKS)
    press(app, "tour_next")
    assert "**4 times each tile of K, " in markdown(app)  # 512 queries in blocks of 128
    app.sidebar.select_slider(key="scenario block_q").set_value(256).run()
    assert "**2 times each tile of K, " in markdown(app)
    assert "You have changed the step's scenario" in markdown(app)


def test_a_room_votes_until_the_answer_and_then_its_most_frequent_mistake_gets_its_sentence(open_app):
    app = open_app("tour", step=BLOCKS, present="true")
    for _ in range(2):
        press(app, "tour_choice_0")
    press(app, "tour_choice_1")
    press(app, "tour_choice_2")
    assert "times each tile" not in markdown(app)
    assert "2 votes" in app.button(key="tour_choice_0").label
    assert "1 vote" in app.button(key="tour_choice_1").label
    step = file.load("attention").steps[int(BLOCKS) - 1]
    queries, _, scores = (option.reply for option in step.said().options)
    assert queries not in markdown(app)
    press(app, "tour_next")
    assert f"Votes: 2 · **1** · 1. {queries}" in markdown(app)
    assert scores not in markdown(app)  # its screen has room for one


def test_a_single_reader_who_chooses_is_answered_at_once(open_app):
    app = open_app("tour", step="2")
    assert app.session_state["experiment"].algorithm == "standard"
    press(app, "tour_choice_0")
    assert "Both multiply the same matrices: 137 GFLOP and 137 GFLOP." in markdown(app)
    assert "**32.9× fewer bytes, modelled" in markdown(app)
    assert "Votes: 1 · **0** · 0." in markdown(app)


def test_a_link_into_the_tour_keeps_a_scenario_of_its_own(open_app):
    app = open_app("tour", step="2", algorithm="flash2", seq="2048")
    assert app.session_state["experiment"] == Experiment.of(algorithm="flash2", seq=2048)


@pytest.mark.parametrize("step", range(1, 1 + len(file.load("attention").steps)))
def test_no_step_breaks_at_a_scenario_of_one_token(open_app, step):
    app = open_app("tour", step=str(step), seq="1", heads="1", head_dim="1", hardware="t4")
    for button in [each for each in app.button if each.label == "The answer"]:
        button.click().run()
