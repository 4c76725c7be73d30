"""A first run that is given is the run that a session would have made itself: on its page, and ever after."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit.runtime.state.common import TESTING_KEY

from app.first_run_key import asked
from app.scenario import first_run, state
from app.scenario.widgets import HELD
from engine.worker.client import shared_worker

WITHOUT_FRAGMENTS = ("start", "tiles", "traffic")


@pytest.fixture
def runs(monkeypatch):
    """First runs that are kept from now on."""
    runs = first_run.FirstRuns()
    runs.on = True
    runs.given = []
    usual = first_run.FirstRun.give

    monkeypatch.setattr(first_run.FirstRun, "give", lambda *each: runs.given.append(1) or usual(*each))
    monkeypatch.setattr(first_run.FIRST_RUNS, "give_or_make", runs.give_or_make)
    return runs


def elements(app) -> list[tuple[str, bytes]]:
    """What a page holds, in order; the names of files that buttons would make are a session's own."""
    found = []
    for node in app._tree:
        proto = getattr(node, "proto", None)
        if getattr(proto, "deferred_file_id", ""):
            proto.deferred_file_id = "a session's own"
        found.append((type(node).__name__, proto.SerializeToString(deterministic=True) if proto else b""))
    return found


@pytest.mark.parametrize("page", WITHOUT_FRAGMENTS)
def test_a_run_that_is_given_is_the_run_that_is_made(open_app, runs, page):
    values = {} if page == "start" else {"seq": "640", "window": "300", "nobody": "x"}
    made, given = open_app(page, **values), open_app(page, **values)
    assert len(runs.given) == 1
    assert elements(made) == elements(given)
    assert len(elements(given)) > 20
    held = [app.session_state._state.filtered_state.keys() for app in (made, given)]
    assert held[0] == held[1]
    assert given.query_params == made.query_params
    if page == "start":
        return
    given.session_state[TESTING_KEY] |= made.session_state[TESTING_KEY]  # notes that AppTest alone takes
    for app in (made, given):
        app.number_input(key="scenario seq typed").set_value(1216).run()
        assert not app.exception
        assert app.session_state[state.EXPERIMENT].flat()["seq"] == 1216
    assert len(runs.given) == 1  # what a visitor moves is run for him
    assert elements(made) == elements(given)


def test_what_a_visitor_does_stays_his_own(open_app, runs):
    one, other = open_app("tiles"), open_app("tiles")
    one.number_input(key="scenario heads").set_value(2).run()
    third = open_app("tiles")
    assert [app.number_input(key="scenario heads").value for app in (one, other, third)] == [2, 1, 1]
    assert len(runs.given) == 2
    assert other.session_state[HELD] is not third.session_state[HELD]


def test_every_visitor_of_a_tours_step_has_a_button_and_votes_of_his_own(open_app, runs):
    """A button that held the first visitor's tally would count every other's first press there."""
    first, second, third = (open_app("tour", step="2") for _ in range(3))
    assert len(runs.given) == 2
    for given in (second, third):
        given.session_state[TESTING_KEY] |= first.session_state[TESTING_KEY]  # notes that AppTest alone takes
    second.button(key="tour_next").click().run()
    third.button(key="tour_choice_0").click().run()
    assert [app.button(key="tour_next").label for app in (first, second, third)] == [
        "The answer",
        "Next",
        "Next",
    ]
    assert "1 vote" in third.button(key="tour_choice_0").label
    assert "vote" not in second.button(key="tour_choice_0").label
    fourth = open_app("tour", step="2")
    assert fourth.button(key="tour_next").label == "The answer"


@pytest.mark.parametrize(
    ("call", "arguments", "shared"),
    [(None, None, True), (len, ("key", -1), True), (len, ((["a"],), 0), False), ([].append, (1,), False)],
)
def test_a_run_whose_button_changes_what_its_session_holds_is_not_given(call, arguments, shared):
    widget = SimpleNamespace(callback=call, callback_args=arguments, callback_kwargs=None)
    assert first_run._anybodys(widget) == shared


def test_a_page_with_fragments_is_run_for_each(open_app, runs):
    for app in (open_app("softmax"), open_app("softmax")):
        assert not app.exception
    assert not runs.given


def test_another_link_theme_or_finished_job_is_another_run(monkeypatch):
    context = SimpleNamespace(query_string="seq=64")
    monkeypatch.setattr("app.first_run_key.get_script_run_ctx", lambda: context)
    monkeypatch.setattr("app.serving.may_run", lambda: True)
    usual = asked()
    assert usual == asked()
    assert hash(usual) == hash(asked())
    monkeypatch.setattr(shared_worker(), "ended", shared_worker().ended + 1)
    assert asked() != usual
    monkeypatch.undo()
    monkeypatch.setattr("app.first_run_key.get_script_run_ctx", lambda: context)
    monkeypatch.setattr("app.serving.may_run", lambda: False)
    assert asked() != usual
    for query in ("seq=65", "", "seq=64&x=1"):
        context.query_string = query
        assert asked() != usual
    for query in ("present=true", "presenter", "seq=64&present=true"):  # the windows of a lecturer
        context.query_string = query
        assert asked() is None


def test_what_is_kept_is_bounded_by_its_bytes(monkeypatch):
    runs = first_run.FirstRuns()
    monkeypatch.setattr(first_run, "MOST_BYTES", 1000)
    for number in range(9):
        runs._keep(number, SimpleNamespace(bytes=300))
    assert (runs.bytes, list(runs._kept)) == (900, [6, 7, 8])


def test_of_values_only_the_containers_are_copied():
    values = {"a": [1, {2}], "b": ({"c": []},), "d": (state,)}
    copied = first_run._copied(values)
    assert copied == values
    assert copied["a"] is not values["a"]
    assert copied["a"][1] is not values["a"][1]
    assert first_run._plain(values["a"])
    assert not first_run._plain(values["d"])  # a session's own, for all that is known
    assert copied["b"][0] is not values["b"][0]


def test_a_link_that_leads_elsewhere_leaves_nothing(open_app, runs):
    for seq in ("64", "128"):
        assert not open_app("start", seq=seq).exception
    assert not runs._making
