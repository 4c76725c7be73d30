"""What a reader sees where something fails that nobody foresaw, and while the server goes and comes back."""

import re
import shutil

import pytest

from app.frame.style import SECTIONS
from engine.root import ROOT
from tests.browser.test_pages import query, settled, slider
from tests.dashboard import served

pytestmark = pytest.mark.browser
LOST = "#connection-lost"
AFTER = "(element) => getComputedStyle(element, '::after').content"
BROKEN = f"""
import sys

sys.path.insert(0, {str(ROOT)!r})
import streamlit as st

import app.page.masks
from app.main import MIDDLEWARE, lifespan, routes


def show():
    raise RuntimeError("a secret of the server")


app.page.masks.show = show
SCRIPT = {str(ROOT / "app" / "dashboard.py")!r}
app = st.App(SCRIPT, routes=routes(), middleware=MIDDLEWARE, lifespan=lifespan)
"""


def test_a_failure_is_one_sentence_and_after_a_restart_of_the_server_the_first_change_counts(page, tmp_path):
    script, log = tmp_path / "broken.py", tmp_path / "log.txt"
    script.write_text(BROKEN)
    shutil.copytree(ROOT / "app" / ".streamlit", tmp_path / ".streamlit")
    with served(str(script), log) as before:
        page.goto(f"{before.address}/masks?seq=512")
        failure = page.get_by_test_id("stException")
        failure.wait_for()
        words = failure.get_by_test_id("stAlertContentError").evaluate(AFTER)
        (sentence,) = re.findall(r'content: "(Something.*?)";', SECTIONS["everywhere"], re.DOTALL)
        assert words.strip('"') == sentence.replace("\\\n", "")
        assert failure.inner_text().strip() == ""  # what Streamlit says, and its links, are hidden
        page.get_by_test_id("stSidebar").get_by_text("Head dimension").wait_for()
        page.get_by_role("link", name="Tiles").click()
        page.locator(".st-key-tiles canvas").first.wait_for()
        failure.wait_for(state="detached")  # Streamlit takes away what is gone when the run ends
        settled(page)
    assert "a secret of the server" in log.read_text()
    page.locator(LOST).wait_for()
    assert "controls wait" in page.locator(LOST).inner_text()
    assert "reload this page" in page.locator(LOST).inner_text()
    with served(port=before.port):
        page.wait_for_selector(LOST, state="detached")
        settled(page)
        page.wait_for_timeout(500)  # whoever reads that it is back takes longer
        settled(page)
        slider(page, "Query").press("ArrowRight")
        page.wait_for_url("**block_q=128**")
        settled(page)
        assert (query(page)["seq"], query(page)["block_q"]) == ("512", "128")
    page.locator(LOST).wait_for()
    page.locator("[data-testid=stDialog]").wait_for(state="attached")  # Streamlit's own words
    assert not page.locator("[data-testid=stDialog]").is_visible()
