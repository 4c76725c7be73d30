"""Numbers as a page says them: four digits at most, with their unit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

PREFIXES = ("", "k", "M", "G", "T", "P", "E")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LONG = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))  # told from two of them on
DURATIONS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


class Quantity(str):
    """What a page says of a number, which a file to take home carries as it is.

    Attributes:
        value, unit: the number, not rounded, and what it counts in, without a prefix.
    """

    __slots__ = ("unit", "value")

    def __new__(cls, text: str, value: float, unit: str = "") -> Quantity:
        self = super().__new__(cls, text)
        self.value, self.unit = value, unit
        return self

    def __getnewargs__(self) -> tuple[str, float, str]:
        """So that it can be copied, as Plotly does."""
        return str(self), self.value, self.unit


def scaled(value: float, unit: str) -> Quantity:
    """A value with a decimal prefix: 4510000000 bytes are "4.51 GB"."""
    power = min(int(math.log10(value) // 3), len(PREFIXES) - 1) if value >= 1 else 0
    if value and float(f"{value / 1000**power:.3g}") >= 1000 and power < len(PREFIXES) - 1:
        power += 1
    return Quantity(f"{digits(value / 1000**power)} {PREFIXES[power]}{unit}", value, unit)


def bytes_text(value: float) -> Quantity:
    """Bytes, in powers of 1000."""
    return scaled(value, "B")


def bytes_range_text(low: float, high: float) -> str:
    """Two numbers of bytes as "1.2 to 1.6 GB"."""
    first, last = bytes_text(low), bytes_text(high)
    same = first.split()[1] == last.split()[1]
    return f"{first.split()[0] if same else first} to {last}"


def chip_bytes_text(value: float) -> Quantity:
    """Bytes of a chip's shared memory, in KiB, rounded up: what has no room is not said to fit."""
    return Quantity(f"{-(-int(value) // 1024):,} KiB", value, "B")


def seconds_text(value: float) -> Quantity:
    """A duration."""
    for size, unit in (*((size, unit) for size, unit in LONG if value >= 2 * size), *DURATIONS):
        if float(f"{value:.3g}") >= size or unit == "ns":
            return Quantity(f"{number_text(value / size)} {unit}", value, "s")
    raise ValueError(f"seconds is {value}; it must be a number")


def plain(text: str) -> str:
    """Words as Markdown that shows them as they are: no emphasis, links, pictures or colours of their own."""
    return re.sub(r"[\\`*_\[\]<>$~]|:(?=[a-zA-Z/])|(?<=www)\.", r"\\\g<0>", text)


def unbroken(text: str) -> str:
    """A sentence in which no equation is torn apart at a line's end."""
    return text.replace(" = ", "\u00a0=\u00a0")


def moment(date: str) -> str:
    """An ISO 8601 date in UTC, to the minute."""
    return f"{date[:10]} {date[11:16]} UTC"


def times_text(value: float, base: float = 1.0) -> Quantity:
    """A ratio, or how many times a base something is, as "67×"."""
    return Quantity(f"{digits(value / base)}×", value / base, "×")


def heads_text(heads: int, kv_heads: int) -> str:
    """Query heads and those of K and V, as "6 heads on 1 KV head"."""
    first = "1 head" if heads == 1 else f"{heads:,} heads"
    return f"{first} on 1 KV head" if kv_heads == 1 else f"{first} on {kv_heads:,} KV heads"


def gain_text(ratio: float, less: str) -> str:
    """A ratio as "16.9× fewer" or, below 1, as "1.2× more"; `less` is fewer or less."""
    return f"{times_text(1, ratio)} more" if ratio < 1 else f"{times_text(ratio)} {less}"


def ratio_digits(value: float, base: float) -> str:
    """How many times a base something is, to three digits."""
    return digits(value / base)


def ratio_text(value: float, base: float, places: int = 2) -> Quantity:
    """How many times a base something is, as a plain number: near 1 they agree."""
    return Quantity(f"{value / base:.{places}f}", value / base)


def share_text(share: float, places: int = 0) -> Quantity:
    """A share in per cent; what is near none or all of it, but not quite, does not read as if it were."""
    least, text = 10.0 ** -(places + 2), f"{share:.{places}%}"
    if 0 < share < least / 2:
        text = f"< {least:.{places}%}"
    if 1 - least / 2 <= share < 1:
        text = f"> {1 - least:.{places}%}"
    return Quantity(text, 100 * share, "%")


def digits(value: float) -> str:
    """Three significant digits, without an exponent; thousands set apart."""
    if value >= 100:
        return f"{value:,.0f}"
    if 0 < value < 1e-4:
        return f"{value:.{2 - math.floor(math.log10(value))}f}".rstrip("0")
    return f"{value:.3g}"


def counted(number: int, noun: str) -> str:
    """So many of something: "1 key", "1,003 keys"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def power_text(value: float, places: int = 1) -> str:
    """A number with a power of ten: 2.1·10⁻⁹."""
    digit, exponent = f"{value:.{places}e}".split("e")
    return f"{digit}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def number_text(value: float, figures: int = 3) -> str:
    """A number with so many digits, whatever its sign and size; only a tiny one has a power of ten."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = float(f"{abs(value):.{figures}g}")
    if 0 < size < 1e-4:
        text = power_text(value, figures - 1)
    else:
        text = f"{value:,.0f}" if size >= 10**figures else f"{value:.{figures}g}"
    return text.replace("-", "−")


def bound_text(bound: float) -> str:
    """A bound rounded up to one digit and a power of ten: 2·10⁻⁷."""
    unit = 10.0 ** math.floor(math.log10(bound or 1.0))
    return power_text(math.ceil(bound / unit) * unit, 0)


def log_axis(values, words: Callable, low: float, high: float, *room: float, **more) -> dict:
    """A logarithmic Plotly axis from low to high, labelled at values; room beyond both in powers of 10."""
    ends = [math.log10(low) - room[0], math.log10(high) + room[-1]]
    return {"type": "log", "tickvals": values, "ticktext": [*map(words, values)], "range": ends, **more}


def log_ticks(low: float, high: float, unit: str, words: Callable | None = None) -> dict:
    """Such an axis labelled with prefixed units, or other words, at most seven times."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    powers = range(first, last + 1, max(1, -(-(last - first) // 6)))
    values = [factor * 10.0**power for power in powers for factor in factors]

    def prefixed(value: float) -> str:
        return scaled(value, unit) if value >= 1 else f"{value:g} {unit}"

    return log_axis(values, words or prefixed, low, high, 0.1)


def even_ticks(most: float, words: Callable) -> dict:
    """A Plotly axis from 0 with round labels."""
    step = 10 ** math.floor(math.log10(most / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step * 5 >= most)
    values = [step * index for index in range(int(most / step) + 2)]
    texts = [words(value) if value else "0" for value in values]
    return {"tickvals": values, "ticktext": texts, "range": [0, 1.06 * most]}


def short(length: int) -> str:
    """A length as the field says it: 4096 is 4k, 1048576 is 1M."""
    for size, letter in ((2**20, "M"), (2**10, "k")):
        if length >= size and length % size == 0:
            return f"{length // size}{letter}"
    return f"{length:,}"
