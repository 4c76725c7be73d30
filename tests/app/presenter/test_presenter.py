"""Presenting: in the link, through the pages, and no part of what the audience opens."""

from urllib.parse import parse_qsl, urlsplit

from engine import Experiment
from tests.app.worker_page import press


def test_the_audiences_link_is_short_restores_the_scenario_and_leaves_the_presentation_out(open_app):
    app = open_app("tour", present="true", step="3")
    press(app, "audience")
    (link,) = [code.value for code in app.main.get("code")]
    parts = urlsplit(link)
    values = dict(parse_qsl(parts.query))
    assert parts.path == "/tour"
    places = {name: values.pop(name) for name in ("tour", "step")}
    assert places == {"tour": "attention", "step": "3"}
    assert Experiment.of(**values) == app.session_state["experiment"]


def test_the_lecturers_window_has_no_page_and_no_sidebar(open_app):
    for value in ("", "true"):
        app = open_app("tour", presenter=value)
        assert not app.text
        assert not app.header
        assert not app.sidebar
    assert open_app("tour", presenter="false").header
