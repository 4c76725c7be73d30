"""Controls without effect on a page are greyed with the reason; the footprint is that of the page."""

from __future__ import annotations

import pytest

from app.sidebar.unused import CONTROLS
from engine import Experiment, simulate
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
    assert not any(
        one.disabled for one in (*sidebar.selectbox, *sidebar.select_slider, *sidebar.number_input)
    )
    sidebar = open_app("claims").sidebar
    assert all(one.disabled for one in (*sidebar.select_slider, *sidebar.number_input))


def test_the_footprint_is_that_of_what_the_page_shows(open_app):
    values = {"seq": "4096", "head_dim": "128", "block_q": "128", "causal": "true"}
    for page, algorithm in (("backward", "backward"), ("traffic", "flash2")):
        shown = Experiment.of(algorithm=algorithm, seq=4096, head_dim=128, block_q=128, causal=True)
        verdict = simulate(shown).footprint.verdict
        (box,) = [text.value for text in open_app(page, **values).sidebar.markdown if verdict in text.value]
        assert f"the {'backward' if page == 'backward' else 'forward'} pass" in box


@pytest.mark.parametrize(("window", "said"), [("1024", True), ("1088", False)])
def test_where_key_blocks_begin_elsewhere_than_tiles_are_drawn_is_said_beside_their_size(
    open_app, window, said
):
    page = open_app("traffic", algorithm="flash3", seq="2048", head_dim="64", window=window)
    sizes = {name: page.sidebar.select_slider(key=f"own {name} {own}") for name, own in OWN_OF_FLASH3.items()}
    assert ("begin where each query block stands" in sizes["block_kv"].help) is said
    assert "begin where" not in sizes["block_q"].help
