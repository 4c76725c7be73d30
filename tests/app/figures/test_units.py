"""Numbers as pages say them: rounded, and never to what they are not."""

import pytest

from app.figures.hardware import figures_lines
from app.figures.units import (
    bytes_range_text,
    counted,
    digits,
    heads_text,
    number_text,
    plain,
    scaled,
    seconds_text,
    share_text,
    short,
)
from engine.problem.hardware import GPUS

SAID = {  # each what it must be, said of several
    "a share is none or all only where it is": (
        (share_text(0.0, 1), "0.0%"), (share_text(0.0004, 1), "< 0.1%"), (share_text(0.0006, 1), "0.1%"),
        (share_text(0.004, 0), "< 1%"), (share_text(0.516, 0), "52%"), (share_text(0.994, 0), "99%"),
        (share_text(0.996, 0), "> 99%"), (share_text(0.9996, 1), "> 99.9%"), (share_text(1.0, 1), "100.0%"),
        (share_text(2.069, 1), "206.9%"),
    ),
    "a duration takes the unit of what it is rounded to": (
        (seconds_text(0.0), "0 ns"), (seconds_text(4.04e-15), "4.04·10⁻⁶ ns"),
        (seconds_text(2.5e-8), "25 ns"), (seconds_text(9.994e-4), "999 µs"), (seconds_text(9.996e-4), "1 ms"),
        (seconds_text(0.9999), "1 s"), (seconds_text(12.0), "12 s"),
    ),
    "digits have no exponent": (
        (digits(0.0), "0"), (digits(1.234e-5), "0.0000123"), (digits(3e-7), "0.0000003"),
        (digits(0.1234), "0.123"), (digits(99.96), "100"),
    ),
    "a number has its sign, and no exponent but a tiny one": (
        (number_text(0.0), "0"), (number_text(-0.3209), "−0.321"), (number_text(999.6), "1,000"),
        (number_text(-65504.0), "−65,504"), (number_text(2.0612e-9), "2.06·10⁻⁹"),
        (number_text(-9.996e-5), "−0.0001"), (number_text(float("-inf")), "−∞"),
    ),
    "one of something is no plural": (
        (counted(0, "key"), "0 keys"), (counted(1, "key"), "1 key"), (counted(1003, "key"), "1,003 keys"),
        (heads_text(1, 1), "1 head on 1 KV head"), (heads_text(6, 1), "6 heads on 1 KV head"),
        (heads_text(1024, 8), "1,024 heads on 8 KV heads"),
    ),
    "a prefix is of what is rounded": (
        (scaled(999, "B"), "999 B"), (scaled(999.4e3, "B"), "999 kB"), (scaled(999.6e3, "B"), "1 MB"),
        (scaled(0, "B"), "0 B"),
    ),
    "words from elsewhere are shown as they are": (
        (plain("mine.py: it runs after 0.5 s, at 12:30."), "mine.py: it runs after 0.5 s, at 12:30."),
        (plain("a_b *c* `d`"), r"a\_b \*c\* \`d\`"),
        (plain("![x](http://a.b/c)"), r"!\[x\](http\://a.b/c)"),
        (plain("see www.a.b, :red[x] <b>"), r"see www\.a.b, \:red\[x\] \<b\>"),
    ),
    "a length counts in powers of 1,024 where it is a multiple": (
        (short(64), "64"), (short(1000), "1,000"), (short(1024), "1k"), (short(4096), "4k"),
        (short(10_000), "10,000"), (short(131_072), "128k"), (short(2**20), "1M"), (short(3 * 2**20), "3M"),
    ),
    "a range of bytes has its unit once where it can": (
        (bytes_range_text(1.2e9, 1.6e9), "1.2 to 1.6 GB"),
        (bytes_range_text(900e6, 1.2e9), "900 MB to 1.2 GB"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("cases", SAID.values(), ids=SAID)
def test_what_is_said_is_never_more_than_is_known(cases):
    assert [said for said, _ in cases] == [expected for _, expected in cases]


def test_an_h200s_figures_are_said_with_their_units():
    words = [text for _, text, _ in figures_lines(GPUS["h200"])]
    rates = "989 TFLOP/s in float16, 66.9 TFLOP/s in float32; 4.8 TB/s of memory; 16 exponentials per clock"
    assert words[0] == f"132 SMs at 1.83 GHz; {rates} and SM"
    told = ("227 KiB per block, 228", "150 GB", "13.5 TB/s, 7,377 B per clock", "30 of 60 MiB")
    assert all(any(text.startswith(each) for text in words) for each in told)
