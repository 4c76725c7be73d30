"""The tour: its file is read whole or refused in a sentence; its answers follow the scenario on screen."""

from __future__ import annotations

import pytest

from app import tour
from app.tour import TourError
from app.views import tour as view
from engine import simulate
from engine.experiment import Experiment
from engine.studies.answers import answer

STEP = {
    "scenario": "algorithm=flash2&seq=1024",
    "picture": "player",
    "question": "How often?",
    "choices": "1 | query_blocks",
    "answer": "k_reads",
}


def file(words: str = "Some words.", **changed: str | None) -> str:
    """A tour of one step; a value of None leaves its line out."""
    lines = [f"{name}: {value}" for name, value in {**STEP, **changed}.items() if value is not None]
    return "\n".join(["# A tour", "", "## A step", *lines, "", words])


def refused(text: str) -> str:
    with pytest.raises(TourError) as error:
        tour.parse(text, "mine.md")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_step_is_read_with_its_words_before_and_after():
    (step,) = tour.parse(file("Before {keys}.\n\n---\n\nAfter."), "mine.md").steps
    assert (step.title, step.before, step.after) == ("A step", "Before {keys}.", "After.")
    assert step.experiment == Experiment.of(algorithm="flash2", seq=1024)
    assert tour.told(step.before, step.experiment) == "Before 1,024."


def test_what_the_tiles_ask_for_again_is_not_said_to_come_from_hbm():
    """L2 serves most of it: only what is never asked for is certainly not read from HBM."""
    for step in tour.load("attention").steps:
        if "_reads" in step.answer or "_writes" in step.answer:
            assert "HBM" not in step.question or answer(step.answer, step.experiment).value == 0


def test_the_chips_memory_is_told_in_the_kb_of_every_other_page():
    experiment = Experiment.of(seq=1024, head_dim=64, block_q=64, block_kv=64)
    told = tour.told("{sram_bytes} of {sram_capacity_bytes}", experiment)
    assert f"Fits: {told}, " in simulate(experiment).footprint.sentence
    assert told.endswith("of 227 KB")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "mine.md, line 1: must be the tour's title"),
        ("# A tour\n\nwords", "mine.md, line 3: ends without a step"),
        (file(answer=None), "mine.md, line 3: the step has no answer; it must have scenario, "),
        (file(picture="film"), "mine.md, line 5: picture is 'film'; it must be one of player, "),
        (file(scenario="seq=0"), "mine.md, line 4: seq is 0; it must be a whole number from 1 to "),
        (file(scenario="sequence=9"), "mine.md, line 4: sequence is 9; it must be left out: known are "),
        (file(answer="k_read"), "mine.md, line 8: answer: 'k_read' is no quantity; it must be one of "),
        (file(choices="1 | 2 +"), "mine.md, line 7: choices: '2 +' is no expression"),
        (file(choices="16"), "mine.md, line 7: choices must be 2 to 5 different ones"),
        (file(choices="16 | query_blocks"), "mine.md, line 7: choices must be 2 to 5 different ones"),
        (
            file(choices="1 | 2"),
            "mine.md, line 7: the answer is 16, 0 choices fit; exactly one must be within",
        ),
        (file(choices="15 | 16"), "mine.md, line 7: the answer is 16, 2 choices fit"),
        (file("See {k_read}."), "mine.md, line 10: text: 'k_read' is no quantity"),
        (file(hint="none"), "mine.md, line 9: 'hint: none' must be 'name: value' with each of scenario, "),
        (file(unit=""), "mine.md, line 9: 'unit:' must be 'name: value'"),
        ("# A tour\n" + "x" * tour.LARGEST_FILE, "mine.md: has 200,009 characters; it must have at most "),
    ],
)
def test_a_file_that_cannot_be_shown_names_its_line_and_what_must_be(text, sentence):
    assert refused(text).startswith(sentence)


def test_a_file_that_is_no_text_or_is_not_there_is_a_sentence(tmp_path):
    (tmp_path / "mine.md").write_bytes(b"\xff\xfe\x00")
    for name, sentence in (("mine", "mine.md: cannot be read"), ("../mine", "There is no tour '../mine'")):
        with pytest.raises(TourError, match=sentence):
            tour.load(name, tmp_path)


def test_a_link_to_no_tour_is_a_sentence_and_shows_the_first(open_app):
    app = open_app("tour", tour="<b>mine")
    says = "The link's tour is '<b>mine'; it must be one of attention. Shown instead: attention."
    assert says in [text.value for text in app.text]
    assert app.query_params["tour"] == "attention"
    assert app.header[0].value == tour.load("attention").steps[0].title


@pytest.mark.parametrize("name", tour.names())
def test_every_tour_of_ours_is_whole(name):
    assert 8 <= len(tour.load(name).steps) <= 10


def test_every_picture_that_a_file_may_name_can_be_drawn():
    assert tuple(view.PICTURES) == tour.PICTURES


def test_no_answer_is_written_down():
    """Each answer follows the scenario: on another one it is computed anew."""
    other = Experiment.of(seq=1536, head_dim=32, block_q=32, block_kv=128, dtype="float32")
    steps = tour.load("attention").steps
    same = [s.title for s in steps if answer(s.answer, s.experiment) == answer(s.answer, other)]
    assert same == ["Never write S", "A softmax that never looks back"]  # 0 and 1, whatever the scenario


def test_the_nearest_choice_is_by_ratio_and_equal_choices_are_one():
    (step,) = tour.parse(file(), "mine.md").steps
    one_block = Experiment.of(seq=16)
    assert len(tour.options(step, one_block)) == 1
    choices = [answer(text, one_block) for text in ("10", "100")]
    assert [tour.nearest(choices, answer(text, one_block)) for text in ("31", "32")] == [0, 1]


def shown(app) -> str:
    (metric,) = app.metric
    return metric.value


def press(app, name: str):
    return app.button(key=name).click().run()


def test_the_tour_goes_on_to_its_end_and_back(open_app):
    app = open_app("tour")
    steps = tour.load("attention").steps
    for number, step in enumerate(steps, 1):
        assert not app.exception
        assert app.header[0].value == step.title
        assert app.query_params["step"] == str(number)
        assert app.session_state["experiment"] == step.experiment
        assert not app.metric  # nothing is told before it is asked for
        press(app, "tour_next")
        assert shown(app) == tour.text(answer(step.answer, step.experiment), step.unit)
        if number < len(steps):
            press(app, "tour_next")
    assert app.button(key="tour_next").disabled
    press(app, "tour_back")
    assert app.query_params["step"] == str(len(steps) - 1)


def test_the_answer_is_computed_for_the_scenario_on_screen(open_app):
    app = open_app("tour", tour="attention", step="6")
    press(app, "tour_next")
    assert shown(app) == "16 times"  # 1024 queries in blocks of 64
    app.sidebar.select_slider(key="scenario block_q").set_value(256).run()
    assert shown(app) == "4 times"
    assert any("no longer the step's" in caption.value for caption in app.caption)


def test_votes_are_counted_and_the_right_choice_is_marked_only_with_the_answer(open_app):
    app = open_app("tour", step="6")
    for _ in range(2):
        press(app, "tour_choice_0")
    press(app, "tour_choice_1")
    assert "2 votes" in app.button(key="tour_choice_0").label
    assert "1 vote" in app.button(key="tour_choice_1").label
    press(app, "tour_next")
    types = [app.button(key=f"tour_choice_{index}").proto.type for index in range(3)]
    assert types == ["secondary", "primary", "secondary"]


def test_a_link_into_the_tour_opens_its_step_and_keeps_a_scenario_of_its_own(open_app):
    assert open_app("tour", step="5").session_state["experiment"].algorithm == "flash1"
    app = open_app("tour", step="5", algorithm="flash2", seq="2048")
    assert app.session_state["experiment"] == Experiment.of(algorithm="flash2", seq=2048)


@pytest.mark.parametrize("values", [{"step": "99"}, {"step": "<b>"}, {"tour": "../secrets"}, {"step": "²"}])
def test_a_link_to_no_step_or_tour_is_one_sentence(open_app, values):
    app = open_app("tour", **values)
    assert not app.exception
    (sentence,) = [text.value for text in app.text]
    assert "must be" in sentence
