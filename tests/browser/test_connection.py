"""A server that goes and comes back: what the browser says meanwhile, and that no change is lost."""

import pytest

from tests.browser.test_pages import opened, query, settled, slider
from tests.dashboard import served

pytestmark = pytest.mark.browser
LOST = "#connection-lost"


def test_after_a_restart_of_the_server_the_first_change_counts(page):
    with served() as before:
        opened(page, f"{before.address}/masks?seq=512")
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
