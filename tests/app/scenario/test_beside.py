"""Two scenarios side by side: in the address, in the sidebar, and on every page that shows one."""

import pytest
from hypothesis import given

from app import contents, scenario
from app.page.parts import beside
from app.scenario.beside import APART, BESIDE, SAME
from engine.experiment import Experiment
from tests.engine.strategies import on_one_gpu


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr("streamlit.session_state", {"experiment": Experiment()})


@given(one=on_one_gpu(), other=on_one_gpu())
def test_a_link_restores_what_stands_beside_its_scenario(one, other):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamlit.session_state", {"experiment": one})
        scenario.beside.put(other)
        told = scenario.beside.link_value()
        assert scenario.beside.adopt(told[BESIDE]) == ()
        assert scenario.beside.other() == other


def test_no_link_has_a_value_of_it_where_there_is_none_and_a_short_one_where_they_are_alike(session):
    assert scenario.beside.link_value() == {}
    scenario.beside.put(Experiment())
    assert scenario.beside.link_value() == {BESIDE: SAME}
    scenario.beside.put(Experiment.of(hardware="h100", window=128))
    assert scenario.beside.link_value() == {BESIDE: APART.join(("window", "128", "hardware", "h100"))}


def test_the_sidebar_puts_the_scenario_beside_swaps_both_and_leaves_one(open_app):
    app = open_app(seq="256")
    button = lambda label: next(each for each in app.sidebar.button if each.label == label)  # noqa: E731
    button("Beside").click().run()
    assert app.query_params[BESIDE] == SAME
    app.sidebar.select_slider(key="scenario seq").set_value(512).run()
    assert app.query_params[BESIDE] == "seq~256~seq_kv~256"
    button("Swap A and B").click().run()
    assert (app.query_params["seq"], app.query_params[BESIDE]) == ("256", "seq~512~seq_kv~512")
    button("A alone").click().run()
    assert BESIDE not in app.query_params


@pytest.mark.parametrize("page", [name for name in contents.PAGES if name not in beside.WITHOUT])
def test_every_page_of_a_scenario_shows_numbers_of_both_and_says_where_its_pictures_show_one(open_app, page):
    app = open_app(page, algorithm="flash2", seq="256", compare="algorithm~standard")
    assert any(each.value.startswith("B takes ") for each in app.header)
    told = [each.value for each in app.caption]
    played = page in beside.PLAYED
    assert (beside.CLOCK in told) == played
    assert any("has no picture of two scenarios" in each for each in told) == (not played)


def test_numbers_and_their_ratio_are_those_of_the_engine(open_app):
    app = open_app("traffic", algorithm="flash2", seq="256", causal="true", compare="causal~false")
    (table,) = [each.value for each in app.get("html") if "Numbers of A and B" in str(each.value)]
    assert "tiles visited" in table
    assert "1.6×" in table  # 16 tiles of 4 x 4, and 10 under the causal mask
