"""In a real Chromium: no picture that moves is drawn in type too small to read, however narrow the window."""

import pytest

from tests.browser.conftest import SIZE, window
from tests.browser.test_pages import opened

pytestmark = pytest.mark.browser

LEAST = 11  # px
WINDOWS = ((768, 1024), (1024, 768), (1280, 720), (390, 844))
DRAWN = """
(() => {
    const sizes = (window.__sizes = new Map());
    const fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (words, ...rest) {
        const { a, b } = this.getTransform(); // some words are turned
        const size = (parseFloat(this.font.match(/([\\d.]+)px/)[1]) * Math.hypot(a, b)) / devicePixelRatio;
        if (String(words).trim()) sizes.set(size, words);
        return fill.call(this, words, ...rest);
    };
})()
"""


@pytest.mark.parametrize("name", ["tiles", "backward", "gpu", "across", "traffic"])
def test_no_word_of_a_picture_is_smaller_than_eleven_pixels(browser, dashboard, name):
    context = window(browser, viewport=SIZE)
    try:
        page = context.new_page()
        page.add_init_script(DRAWN)
        opened(page, f"{dashboard}/{name}")
        for width, height in WINDOWS:
            page.evaluate("window.__sizes.clear()")
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_function("window.__sizes.size > 2")
            page.wait_for_timeout(150)  # whatever else the window's size brings
            smallest, words = min(page.evaluate("[...window.__sizes]"))
            assert smallest > LEAST - 0.01, f"{words!r} at {width} by {height}"
    finally:
        context.close()
