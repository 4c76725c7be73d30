"""Numbers as the moving pictures say them, by their own module in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

APP = Path(__file__).resolve().parents[2] / "app"
FORMAT, CHART = (
    (APP / path).read_text("utf-8") for path in (Path("player", "format.js"), Path("gpu", "chart.js"))
)
STORY = "\n".join(
    (APP / "player" / f"{name}.js").read_text("utf-8")
    for name in ("format", "model", "story", "backwardstory")
)
CALL = """([source, name, values]) => {
    const call = Function(`${source}; return ${name}`)();
    return values.map((value) => call(value));
}"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "percent",
            {0: "0%", 0.0004: "<0.1%", 0.004: "0.40%", 0.5: "50%", 0.994: "99%", 0.996: ">99%", 1: "100%"},
        ),
        ("wholePercent", {0: "0%", 0.004: "<1%", 0.016: "2%", 0.5: "50%", 0.9996: ">99%", 0.9999999: "100%"}),
        ("traffic", {999: "999 B", 999_400: "999 kB", 999_600: "1.00 MB", 1e9: "1.00 GB"}),
        ("duration", {0: "0.00 µs", 999.4e-6: "999 µs", 999.6e-6: "1.00 ms", 0.9996: "1.00 s"}),
        ("kib", {1024: "1 KB", 1536: "1.5 KB", 232_448: "227 KB"}),
    ],
)
def test_numbers_are_rounded_to_what_they_are(page, name, said):
    assert page.evaluate(CALL, [FORMAT, name, list(said)]) == list(said.values())


def test_microseconds_carry_over_to_the_next_whole_one(page):
    values = [0, 2.5, 12.344, 12.996, 1234.5, 0.1 * 3 + 0.7]
    assert page.evaluate(CALL, [FORMAT + CHART, "microseconds", values]) == [
        *("0.00", "2.50", "12.34", "13.00", "1,234.50", "1.00")
    ]
    ticks = "(value) => microseconds(value, 0.1)"
    assert page.evaluate(CALL, [FORMAT + CHART, ticks, [0.9999999999999999, 2.96]]) == ["1.0", "3.0"]


@pytest.mark.parametrize(
    ("asked", "must", "than"),
    [
        (1e6, 3e6, "must move 3.00 MB: 3.0 times as much."),
        (1e6, 1.02e6, "must move 1.02 MB: about as much."),
        (4e6, 1e6, "must move 1.00 MB: 4.0 times less than blocks of 16 × 32 ask for."),
    ],
)
def test_the_backward_pass_is_compared_with_the_unfused_one_by_what_it_asks(page, asked, must, than):
    close = "([model, run]) => backwardClosing(model, run)"
    model = {"others": [["one", 0, ""], ["standard", must, ""]], "drawn": {"block_q": 16, "block_kv": 32}}
    (said,) = page.evaluate(CALL, [STORY, close, [[model, {"total": asked}]]])
    assert said.endswith(than)
