"""Controls without effect on a page are greyed with the reason; the footprint is that of the page."""

import pytest

from app.sidebar.unused import CONTROLS
from engine import Experiment, simulate
from engine.algorithms import ALGORITHMS
from engine.experiment import PARAMETERS
from tests.app.worker_page import html, opened

OWN_OF_FLASH3 = {"block_q": 192, "block_kv": 128}  # at head dimension 64


@pytest.mark.parametrize(
    ("page", "kind", "name", "value"),
    [
        ("decoding", "selectbox", "causal", "true"),
        ("backward", "selectbox", "algorithm", "flash1"),
        ("decoding", "select_slider", "block_q", "32"),
        ("across", "select_slider", "seq", "4096"),
    ],
)
def test_a_control_without_effect_is_greyed_with_the_reason_and_has_none(open_app, page, kind, name, value):
    control = getattr(open_app(page).sidebar, kind)(key=f"scenario {name}")
    assert control.disabled
    assert control.help.endswith(".")
    usual, other = (
        [*(block.value for block in (*shown.caption, *shown.metric, *shown.header)), html(shown)]
        for shown in (opened(page), opened(page, **{name: value}))
    )
    assert usual == other


def test_every_control_that_can_be_greyed_is_a_parameter_and_works_elsewhere(open_app):
    assert set(CONTROLS) < PARAMETERS.keys()
    sidebar = open_app("traffic").sidebar
    numbers = (*sidebar.select_slider, *sidebar.number_input)
    assert not any(one.disabled for one in (*sidebar.selectbox, *numbers))
    sidebar = open_app("claims").sidebar
    assert all(one.disabled for one in (*sidebar.select_slider, *sidebar.number_input))


@pytest.mark.parametrize(
    ("page", "algorithm", "values"),
    [
        ("traffic", "flash2", {"seq": "4096", "block_q": "128", "causal": "true"}),
        ("traffic", "flash3", {}),
        ("backward", "backward", {"seq": "4096", "block_q": "128", "causal": "true"}),
        ("traffic", "flash2", {"hardware": "a100"}),
        ("traffic", "flash2", {"hardware": "a100", "block_q": "256", "block_kv": "256", "head_dim": "256"}),
    ],
)
def test_the_footprint_is_that_of_what_the_page_shows(open_app, page, algorithm, values):
    """Whether it fits, which tiles are counted, and what was never checked."""
    asked = {} if algorithm == "backward" else {"algorithm": algorithm}
    opened = open_app(page, **asked, **values)
    said = "\n".join(text.value for text in opened.sidebar.markdown)
    footprint = simulate(Experiment.of(algorithm=algorithm, **values)).footprint
    assert footprint.verdict in said
    assert said.startswith(":red[**") == (not footprint.fits)
    assert ALGORITHMS[algorithm].parts_words.strip("()") in said
    head = [caption.value for caption in opened.main.caption]  # over the page's first figure
    unchecked = "Nothing modelled was ever checked on an A100"
    assert (bool(head) and head[0].startswith(unchecked)) == ("hardware" in values)


@pytest.mark.parametrize(("window", "said"), [("1024", True), ("1088", False)])
def test_where_key_blocks_begin_elsewhere_than_drawn_is_said_beside_their_size(open_app, window, said):
    page = open_app("traffic", algorithm="flash3", seq="2048", head_dim="64", window=window)
    sizes = {name: page.sidebar.select_slider(key=f"own {name} {own}") for name, own in OWN_OF_FLASH3.items()}
    assert ("begin where each query block stands" in sizes["block_kv"].help) is said
    assert "begin where" not in sizes["block_q"].help
