"""Numbers as the moving pictures say them, by their own module in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

FORMAT = Path(__file__).resolve().parents[2] / "app" / "player" / "format.js"
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
    assert page.evaluate(CALL, [FORMAT.read_text("utf-8"), name, list(said)]) == list(said.values())
