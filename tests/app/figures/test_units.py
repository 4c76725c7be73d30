"""Numbers as pages say them: rounded, and never to what they are not."""

from __future__ import annotations

import pytest

from app.figures.units import (
    about_seconds,
    bound_text,
    bytes_in_mb,
    bytes_range_text,
    bytes_text,
    chip_bytes_text,
    counted,
    digits,
    gain_text,
    heads_text,
    number_text,
    percent_text,
    plain,
    ratio_text,
    scaled,
    seconds_text,
    share_text,
    short,
    times_text,
    tokens_text,
    told_apart,
)


@pytest.mark.parametrize(
    ("share", "places", "text"),
    [
        (0.0, 1, "0.0%"),
        (0.0004, 1, "< 0.1%"),
        (0.0006, 1, "0.1%"),
        (0.004, 0, "< 1%"),
        (0.516, 0, "52%"),
        (0.994, 0, "99%"),
        (0.996, 0, "> 99%"),
        (0.9996, 1, "> 99.9%"),
        (1.0, 1, "100.0%"),
        (2.069, 1, "206.9%"),
    ],
)
def test_a_share_is_none_or_all_only_where_it_is(share, places, text):
    assert share_text(share, places) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ns"),
        (4.04e-15, "4.04·10⁻⁶ ns"),
        (2.5e-8, "25 ns"),
        (9.994e-4, "999 µs"),
        (9.996e-4, "1 ms"),
        (0.9999, "1 s"),
        (12.0, "12 s"),
    ],
)
def test_a_duration_takes_the_unit_of_what_it_is_rounded_to(seconds, text):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.234e-5, "0.0000123"), (3e-7, "0.0000003"), (0.1234, "0.123"), (99.96, "100")],
)
def test_digits_have_no_exponent(value, text):
    assert digits(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.3209, "−0.321"),
        (999.6, "1,000"),
        (-65504.0, "−65,504"),
        (2.0612e-9, "2.06·10⁻⁹"),
        (-9.996e-5, "−0.0001"),
        (float("-inf"), "−∞"),
    ],
)
def test_a_number_has_its_sign_and_no_exponent_but_a_tiny_one(value, text):
    assert number_text(value) == text


def test_numbers_that_differ_are_told_apart_and_equal_ones_are_not():
    assert told_apart(2.8131, 2.8132) == ("2.8131", "2.8132")
    assert told_apart(1.0, 0.99999962) == ("1", "0.9999996")
    assert told_apart(0.0, 1e-20) == ("0", "1.00·10⁻²⁰")
    assert told_apart(1.0, 1.0) == ("1", "1")


def test_one_of_something_is_no_plural():
    assert [counted(number, "key") for number in (0, 1, 1003)] == ["0 keys", "1 key", "1,003 keys"]


def test_a_prefix_is_of_what_is_rounded():
    assert [scaled(value, "B") for value in (999, 999.4e3, 999.6e3, 0)] == ["999 B", "999 kB", "1 MB", "0 B"]


def test_a_bound_is_rounded_up_to_one_digit():
    assert [bound_text(bound) for bound in (0.0, 9.5e-8, 1e-6, 2.1e-7)] == ["0", "1·10⁻⁷", "1·10⁻⁶", "3·10⁻⁷"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mine.py: it runs after 0.5 s, at 12:30.", "mine.py: it runs after 0.5 s, at 12:30."),
        ("a_b *c* `d`", r"a\_b \*c\* \`d\`"),
        ("![x](http://a.b/c)", r"!\[x\](http\://a.b/c)"),
        ("see www.a.b, :red[x] <b>", r"see www\.a.b, \:red\[x\] \<b\>"),
    ],
)
def test_words_from_elsewhere_are_shown_as_they_are(text, shown):
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "5 seconds"), (12, "15 seconds"), (54, "55 seconds"), (56, "1 minute"), (61, "2 minutes")],
)
def test_a_wait_is_told_as_one_says_it(seconds, words):
    assert about_seconds(seconds) == words


@pytest.mark.parametrize(
    ("quantity", "text", "value", "unit"),
    [
        (bytes_text(4.512e9), "4.51 GB", 4.512e9, "B"),
        (bytes_in_mb(4.512e9), "4,512 MB", 4.512e9, "B"),
        (chip_bytes_text(24 * 1024), "24 KiB", 24 * 1024, "B"),
        (chip_bytes_text(24 * 1024 + 1), "25 KiB", 24 * 1024 + 1, "B"),
        (times_text(6.0, 3.0), "2×", 2.0, "×"),
        (ratio_text(6.0, 3.0), "2.00", 2.0, ""),
        (percent_text(1.0, 4.0), "25%", 25.0, "%"),
        (share_text(0.25), "25%", 25.0, "%"),
        (seconds_text(1.234e-5), "12.3 µs", 1.234e-5, "s"),
        (scaled(1.5e12, "FLOP/s"), "1.5 TFLOP/s", 1.5e12, "FLOP/s"),
    ],
)
def test_a_quantity_is_said_rounded_and_carried_as_it_is(quantity, text, value, unit):
    assert (quantity, quantity.value, quantity.unit) == (text, pytest.approx(value), unit)


def test_a_length_counts_in_powers_of_1024_where_it_is_a_multiple():
    lengths = (64, 1000, 1024, 4096, 10_000, 131_072, 2**20, 3 * 2**20)
    assert [short(keys) for keys in lengths] == ["64", "1,000", "1k", "4k", "10,000", "128k", "1M", "3M"]


def test_a_range_of_bytes_has_its_unit_once_where_it_can():
    assert bytes_range_text(1.2e9, 1.6e9) == "1.2 to 1.6 GB"
    assert bytes_range_text(900e6, 1.2e9) == "900 MB to 1.2 GB"


def test_tokens_have_their_prefix_before_the_word():
    assert [tokens_text(500), tokens_text(10.4e6), tokens_text(427_123, "tokens/s")] == [
        "500 tokens",
        "10.4 M tokens",
        "427 k tokens/s",
    ]


def test_a_gain_below_one_is_said_the_other_way_round():
    assert (gain_text(16.87, "fewer"), gain_text(0.12, "less")) == ("16.9× fewer", "8.33× more")


@pytest.mark.parametrize(
    ("heads", "kv_heads", "text"),
    [(1, 1, "1 head on 1 KV head"), (6, 1, "6 heads on 1 KV head"), (1024, 8, "1,024 heads on 8 KV heads")],
)
def test_one_head_is_not_several(heads, kv_heads, text):
    assert heads_text(heads, kv_heads) == text
