"""Every page opens with every preset and at the ends of what can be asked."""

from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from app import player, scenario, sidebar
from app.contents import HOME, OWN, PAGES
from app.frame.document import CHARTS
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.root import ROOT

MAIN = ROOT / "app" / "dashboard.py"
ALIKE = (HOME, "claims", "tour", "rates", "model")  # pages that draw nothing of the scenario but its GPU
EXTREMES = {  # by what they are, as in a link
    "longest": "seq=1048576&heads=64&head_dim=256",
    "one token": "seq=1&seq_kv=1&head_dim=1&heads=1",
    "more queries than keys": "seq=300&seq_kv=17&causal=true&block_q=16",
    "nothing fits": "block_q=1024&block_kv=1024&head_dim=256&hardware=t4&dtype=float32",
    "standard, long": "algorithm=standard&seq=1048576",
    "split keys": "algorithm=split_kv&seq=1&seq_kv=1048576&splits=1024&kv_heads=1",
    "documents, window of one": "seq=4096&documents=1048576&window=1&causal=true&algorithm=flash1",
    "flash3, where its kernel does not run": "algorithm=flash3&head_dim=100&dtype=float32&hardware=t4",
    "backward": "algorithm=backward",
    "a ring, most heads": "algorithm=ring&seq=4096&splits=1024&causal=true&heads=1024&kv_heads=1&batch=4096",
    "terms": "softcap=30&sinks=true&slopes=true&head_dim=192&head_dim_v=128&causal=true&algorithm=flash3",
    "a latent in pages": "kv_heads=1&head_dim=576&head_dim_v=512&latent=true&page_size=16",
    "a prefix in 8 bits": "causal=true&prefix=200&dtype=float8_e4m3fn",
}


def test_every_file_is_a_page_of_the_list():
    folder = MAIN.parent / "page"
    assert {file.stem for file in folder.glob("*.py")} - {"__init__"} == {*PAGES, *OWN}
    assert not (MAIN.parent / "pages").exists()  # Streamlit would run the file that a link names by itself


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_with_every_preset_and_asks_early_for_what_draws_charts(open_app, page):
    app = open_app(page)
    assert bool(app.get("plotly_chart")) == (page in CHARTS)
    for name in scenario.PRESETS if page in ("tiles", "speed", "gpu") else ():
        app.sidebar.selectbox(key="scenario preset").set_value(name).run()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", EXTREMES)
def test_a_page_opens_at_the_ends_of_what_can_be_asked(open_app, page, name):
    if page in ALIKE and name != "nothing fits":
        return
    app = open_app(page, **dict(parse_qsl(EXTREMES[name])))
    assert not app.error


def test_a_sidebar_that_fails_leaves_the_page_and_the_tools(open_app, monkeypatch, sound):
    monkeypatch.setattr(AppTest, "_run", sound)
    monkeypatch.delattr(sidebar, "show")
    app = open_app("softmax", seq="1024")
    assert len(app.exception) == 1
    assert app.get("button_group") or app.get("html") or app.get("button")
    assert app.query_params["seq"] == "1024"  # the scenario is in the address as ever


def test_nothing_plays_in_blocks_that_do_not_fit(open_app):
    page = open_app("tiles", block_q="256", block_kv="256", head_dim="256", dtype="float32")
    (told,) = [text.value for text in page.main.text if "Nothing plays" in text.value]
    assert "These tiles are too big for an H200: one thread block may use 227 KiB" in told
    (mends,) = [button for button in page.main.button if button.label.startswith("Use FlashAttention-2")]
    mends.click().run()
    assert simulate(page.session_state["experiment"]).footprint.fits


@pytest.mark.parametrize("link", ["flash3&hardware=mi300x", "standard&block_q=256&block_kv=256"])
def test_blocks_that_fit_are_offered_for_the_same_problem(link):
    asked, _ = Experiment.lenient(dict(parse_qsl(f"head_dim=256&algorithm={link}")))
    other = player._that_fits(asked)
    assert [simulate(each).footprint.fits for each in (asked, other)] == [False, True]
    assert (other.problem, other.hardware) == (asked.problem, asked.hardware)
