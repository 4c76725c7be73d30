"""The gallery's own charts, formulas and words, each against what it must look like."""

import re
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest
import streamlit as st

from app.figures.base import drawn
from app.figures.colours import DARK, LIGHT
from app.figures.units import even_ticks, log_axis
from app.gallery.svg import SHEETS, _drawn, chart
from app.gallery.without_streamlit import CALLS, written
from app.markup import html, mathml
from app.tour import pictures
from engine.experiment import Experiment


@pytest.mark.parametrize("sheet", SHEETS)
def test_a_line_of_slope_one_is_straight_and_a_mark_stands_at_its_value(sheet):
    """On logarithmic axes of three and of six powers of ten, of which the points are the thirds."""
    line = {
        "type": "scatter",
        "x": [1, 10, 100, 1000],
        "y": [1, 100, 1e4, 1e6],
        "mode": "lines+markers",
        "name": "bytes",
        "line": {"color": "#123456", "width": 2, "dash": "dot"},
        "customdata": ["1 B", "100 B", "10 kB", "1 MB"],
    }
    powers, words = [1, 10, 100, 1000], "{:,}".format
    axes = {"x": log_axis(powers, words, 1, 1e3, 0), "y": log_axis([1, 1e6], words, 1, 1e6, 0)}
    made = _drawn(drawn([line], DARK, height=270, **axes), "a line", sheet)
    (path,) = re.findall(r'<path d="([^"]+)" fill="none" stroke="#123456"', made)
    points = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]
    for axis in (0, 1):
        steps = [b[axis] - a[axis] for a, b in pairwise(points)]
        assert max(steps) - min(steps) < 0.2  # pixels are written to a tenth
    marks = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', made)]
    assert marks[: len(points)] == points
    assert "<title>bytes: 10 kB</title>" in made
    assert all(f">{power:,}</text>" in made for power in powers)


def test_what_is_drawn_in_a_column_stands_in_it():
    def picture(experiment, colours):
        left, right = st.columns(2)
        with right:
            st.markdown("second")
        left.markdown("first")
        st.markdown("below")

    made = written(picture, Experiment(), LIGHT).text()
    assert re.findall("first|second|below|</div></div>", made) == ["first", "second", "</div></div>", "below"]


def test_a_gap_in_a_line_is_not_bridged():
    line = {"type": "scatter", "x": [1, 2, None, 3], "y": [1, 2, None, 3], "line": {"color": "#123456"}}
    axis = even_ticks(3, str)
    made = chart(drawn([line], DARK, height=200, x=axis, y=axis), "gap")
    (path, _) = re.findall(r'<path d="([^"]+)"', made)
    assert path.count("M") == 2


@pytest.mark.parametrize(
    ("latex", "made"),
    [
        (r"B_r d", "<msub><mi>B</mi><mi>r</mi></msub><mi>d</mi>"),
        (r"\frac{N}d + 1", "<mfrac><mrow><mi>N</mi></mrow><mi>d</mi></mfrac><mo>+</mo><mn>1</mn>"),
        (r"O^\text{a}_i", "<msubsup><mi>O</mi><mi>i</mi><mtext>a</mtext></msubsup>"),
        (r"\begin{aligned}a &= b\end{aligned}", "<mtd><mi>a</mi></mtd><mtd><mi /><mo>=</mo><mi>b</mi></mtd>"),
    ],
)  # fmt: skip
def test_a_formula_becomes_mathml(latex, made):
    assert made in re.sub(r"(<\w+) [a-z][^>]*>", r"\1>", unescape(mathml(latex)))


def test_a_formula_that_is_none_is_shown_as_it_is_written():
    assert mathml(r"\left( a < b") == r"<code>\left( a &lt; b</code>"


def test_words_are_shown_as_they_are_meant_and_html_as_it_is_written():
    made = html("**S** of `N < d`, <b>x</b>, $N$\n\n- one\n\n# Two\n\n```python\na < b\n```")
    parts = ("<strong>S</strong> of <code>N &lt; d</code>, &lt;b&gt;x&lt;/b&gt;", "<h3>Two</h3>")
    for part in (*parts, "<li>one</li>", "<mi>N</mi>", "<pre tabindex='0'><code>a &lt; b\n</code></pre>"):
        assert part in made


def test_links_lead_to_pages_and_to_the_web_alone():
    made = html("[a](tiles) [b](https://x.y/z) [c](javascript:alert(1)) ![d](https://x.y/d.png) [e](//x.y)")
    assert re.findall('href="([^"]*)', made) == ["tiles-flash2.html", "https://x.y/z", "https://x.y/d.png"]
    assert "<img" not in made


def test_all_that_a_tours_picture_calls_has_a_stand_in():
    """Else Streamlit is asked to draw without a session."""
    called = set(re.findall(r"\bst\.(\w+)\(", Path(pictures.__file__).read_text("utf-8")))
    assert called
    assert called <= set(CALLS)
