"""What a reader sees where something fails that nobody foresaw."""

import re
import shutil
from pathlib import Path

import pytest

from app.frame.style import SECTIONS
from tests.dashboard import served

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
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


def test_a_failure_is_one_sentence_beside_a_sidebar_that_still_works(page, tmp_path):
    script, log = tmp_path / "broken.py", tmp_path / "log.txt"
    script.write_text(BROKEN)
    shutil.copytree(ROOT / "app" / ".streamlit", tmp_path / ".streamlit")
    with served(str(script), log) as found:
        address = found.address
        page.goto(f"{address}/masks")
        failure = page.get_by_test_id("stException")
        failure.wait_for()
        words = (
            "e => getComputedStyle(e.querySelector('[data-testid=stAlertContentError]'), '::after').content"
        )
        (sentence,) = re.findall(r'content: "(Something.*?)";', SECTIONS["everywhere"], re.DOTALL)
        assert failure.evaluate(words).strip('"') == sentence.replace("\\\n", "")
        assert failure.inner_text().strip() == ""  # what Streamlit says, and its links, are hidden
        page.get_by_test_id("stSidebar").get_by_text("Head dimension").wait_for()
        page.get_by_role("link", name="Softmax").click()
        page.get_by_label("Row of scores").wait_for()
        failure.wait_for(state="detached")  # Streamlit takes away what is gone when the run ends
    assert "a secret of the server" in log.read_text()
