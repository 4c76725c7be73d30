"""Streamlit's own names, on the pages themselves: which one is gone is said by its name."""

import pytest

from tests.app.test_streamlit_names import lacking, names

pytestmark = pytest.mark.browser

PAGES = ("tiles", "traffic", "softmax?present=true", "speed", "across", "claims")
PASSING = {"stSkeleton", "stAppSkeleton"}  # stand in while a script is loaded
FAILING = {
    "stException",
    "stAlertContentError",
    "stDialog",
}  # test_failure.py and test_connection.py see them
THERE = """() => [...document.querySelectorAll('*')].flatMap((one) =>
    [one.dataset?.testid, ...one.classList, ...one.getAttributeNames()])"""


def test_every_name_stands_on_a_page(page, dashboard):
    seen = set()
    for address in PAGES:
        page.goto(f"{dashboard}/{address}")
        page.wait_for_selector("[data-test-script-state=notRunning]")
        page.locator(".st-key-style").wait_for(state="attached")
        if address == "tiles":
            page.locator(".st-key-footprint").wait_for(state="attached")
            page.get_by_role("button", name="Download").click()
            page.locator(".files li").first.wait_for()
        page.wait_for_function("() => !document.querySelector('[data-testid=stSkeleton]')")
        seen |= set(page.evaluate(THERE))
    assert names() - seen - PASSING - FAILING == lacking()
