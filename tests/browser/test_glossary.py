"""Terms in a real Chromium: marked on the page, told where they are pointed at, gone elsewhere."""

import re

import pytest

from tests.browser.test_pages import settled

pytestmark = pytest.mark.browser

MARKED = """() => [...CSS.highlights.get('attention-term') ?? []].map((range) => {
    const { x, y, width, height } = range.getBoundingClientRect();
    return [range.toString(), x + width / 2, y + height / 2];
})"""


def test_a_term_is_explained_where_it_is_pointed_at_and_another_page_is_marked_anew(page, dashboard):
    page.goto(f"{dashboard}/traffic")
    page.wait_for_function(f"({MARKED})().some(([word]) => word === 'HBM')")
    settled(page)
    page.evaluate(
        "document.querySelector('[data-testid=stMain]').scrollTop = 350"
    )  # the picture is above all words
    words = [word for word, _, _ in page.evaluate(MARKED)]
    assert len(words) == len(set(words)) > 5  # the first of each alone is underlined
    tip = page.get_by_role("tooltip")
    x, y = next((x, y) for word, x, y in page.evaluate(MARKED) if word == "HBM")
    page.mouse.move(x, y)
    tip.wait_for()
    assert tip.inner_text().startswith("HBM: The GPU's large memory")
    page.mouse.move(x, y + 250)
    tip.wait_for(state="hidden")
    terms, told = page.locator(".terms"), []
    terms.focus()
    tip.wait_for()
    for _ in words:
        told.append(terms.get_attribute("aria-label").split(":")[0])
        page.keyboard.press("ArrowRight")
    assert told == words
    tip.filter(has_text=re.compile(rf"^{re.escape(words[0])}: ")).wait_for()  # arrows go round
    # Across GPUs has links between GPUs by name, in a slider, whose value is not marked, and in a table
    page.get_by_role("link", name="Across GPUs").click()
    page.wait_for_url("**/across?**")
    page.wait_for_function(f"({MARKED})().some(([word]) => word === 'NVLink')")
    inside = "(range) => range.startContainer.parentElement.closest('[data-testid=stSliderThumbValue]')"
    assert page.evaluate(f"[...CSS.highlights.get('attention-term')].filter({inside}).map(String)") == []
    assert page.watch.complaints == []
