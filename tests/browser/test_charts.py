"""Plotly draws a chart once: it need not make more room for labels, nor change what it is sent twice."""

import pytest

pytestmark = pytest.mark.browser

CHARTS = "[...document.querySelectorAll('.js-plotly-plot')]"
DRAWN = f"{CHARTS}.filter((chart) => chart.layout?.width && chart._fullLayout?._size).length === 1"
ROOM = f"""() => {CHARTS}.map((chart) => {{
    const {{ margin, template, datarevision, transition, width }} = chart.layout;
    const size = chart._fullLayout._size, plain = !template && !transition && !!datarevision;
    const missing = ['l', 'r', 't', 'b'].map((side) => size[side] - margin[side]);
    return [...missing, plain && Number.isInteger(width)];
}})"""
HEADINGS = """() => [...document.querySelectorAll('.st-key-apart_traffic [data-testid=stColumn]')]
    .map((column) => column.querySelector('p').getBoundingClientRect().height)"""
EXACT = 1  # pixel: what Plotly lets pass


@pytest.mark.parametrize("seq", [64, 16384])
def test_a_chart_leaves_its_labels_the_room_that_they_take(page, dashboard, seq):
    page.goto(f"{dashboard}/traffic?seq={seq}")
    page.wait_for_function(DRAWN)
    for *missing, plain in page.evaluate(ROOM):
        assert max(map(abs, missing)) <= EXACT
        assert plain


def test_headings_side_by_side_take_one_line_each_so_that_the_charts_below_them_are_level(page, dashboard):
    page.goto(f"{dashboard}/traffic?seq=512")
    page.wait_for_function(DRAWN)
    page.get_by_role("radio", name="requested from L2").click()
    page.get_by_text("Over the length: requested from L2, counted").wait_for()
    heights = page.evaluate(HEADINGS)
    assert len(heights) == 3
    assert max(heights) < 1.5 * min(heights)
