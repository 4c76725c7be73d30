"""One flat value of an experiment: where it stands in it, how it is read from text, and what it must be."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from engine.problem.heads import Heads, keep, kept
from engine.problem.problem import DRAWN
from engine.root import Refusal

LARGEST_SEQUENCE = 2**20
FROM_1 = f"a whole number from 1 to {LARGEST_SEQUENCE:,}"
YES, NO = ("true", "1", "yes"), ("false", "0", "no")
NONE = ("", "none")  # what is typed, or stands in a link, for none


class ExperimentError(Refusal, ValueError):
    """One field has a value it must not have; the message names the field, the value and what it must be."""

    def __init__(self, name: str, value: object, must: str):
        super().__init__(f"{name} is {value}; it must be {must}")
        self.field, self.value, self.must = name, value, must


@dataclass(frozen=True)
class Parameter:
    """One flat value of an experiment. Entered here alone, it is in links, the command line and Python."""

    name: str  # in links and on the command line
    default: Any
    parse: Callable[[Any], Any]
    path: str  # where an experiment holds it, such as problem.seq_q; of a mask's, a name that `Mask.of` takes
    holds: Callable[[Any], bool]
    rule: str | Callable[[], str] = field(repr=False)
    follows: str = ""  # the parameter whose value it has where none is given
    # of its field under More in the sidebar; empty where the sidebar lays it out by hand, or not
    label: str = ""

    def __post_init__(self):
        object.__setattr__(self, "get", attrgetter(self.path))  # takes it out of an experiment

    @property
    def must(self) -> str:
        return self.rule if isinstance(self.rule, str) else self.rule()

    @property
    def is_switch(self) -> bool:
        return isinstance(self.default, bool)

    def check(self, value: Any) -> None:
        """Raise ExperimentError unless the value is allowed."""
        if not self.holds(value):
            raise ExperimentError(self.name, shown(value) if isinstance(value, str) else value, self.must)


def number(
    name: str, low: int, high: int, default: int | None, path: str, power: bool = False, **more: str
) -> Parameter:
    """A whole number, or a power of two; none where that is the default and no other's value is taken."""
    rule = f"a power of two from {low} to {high}" if power else f"a whole number from {low:,} to {high:,}"
    whole, may_be_none = _whole(name, rule), default is None and "follows" not in more

    def holds(value):
        if value is None:
            return may_be_none
        return isinstance(value, int) and low <= value <= high and (not power or value.bit_count() == 1)

    def parse(value: Any) -> int | None:
        return None if may_be_none and str(value).strip().lower() in NONE else whole(value)

    return Parameter(name, default, parse, path, holds, rule, **more)


def real(name: str, path: str, low: float, high: float, **more: str) -> Parameter:
    rule = f"a number from {low:g} to {high:,.0f}, or none"

    def parse(value: Any) -> float | None:
        text = str(value).strip().lower()
        if text in NONE:
            return None
        if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", text):
            raise ExperimentError(name, shown(value), rule)
        return float(text)

    def holds(value):
        return value is None or low <= value <= high

    return Parameter(name, None, parse, path, holds, rule, **more)


def heads(path: str) -> Parameter:
    """Whose numbers: drawn ones, or heads that were read from a file; heads themselves are kept by a key."""
    rule = f"{DRAWN}, a layer, a head and a text, as text:3.1:It is, or the key of heads that were read here"

    def parse(value: Any) -> str:
        if isinstance(value, Heads):
            return keep(value)
        text = str(value).strip()
        return text if text.startswith("text:") else text.lower()

    return Parameter(
        "inputs", DRAWN, parse, path, lambda value: value == DRAWN or kept(value) is not None, rule
    )


def window(path: str) -> Parameter:
    """Keys of a window, or keys before and after."""
    rule = f"{FROM_1}, or two, keys before and after, as 4:2"
    numbers = _numbers("window", rule)

    def parse(value: Any) -> int | str | None:
        window = numbers(value)
        if not isinstance(window, str):
            return window
        sides = [int(side) for side in window.split(":")]
        if len(sides) != 2 or max(sides) >= LARGEST_SEQUENCE:
            raise ExperimentError("window", shown(value), rule)
        return window if sides[1] else sides[0] + 1

    def holds(value):
        return value is None or isinstance(value, str) or 1 <= value <= LARGEST_SEQUENCE

    return Parameter("window", None, parse, path, holds, rule)


def documents(path: str) -> Parameter:
    rule = f"{FROM_1}, or lengths that add up to seq_kv, as 100:28"

    def holds(value):
        return isinstance(value, str) or 1 <= value <= LARGEST_SEQUENCE

    return Parameter("documents", 1, _numbers("documents", rule), path, holds, rule)


def choice(name: str, options: Collection[str], default: str, path: str, **more: str) -> Parameter:
    """One of some words, which may become more."""
    return Parameter(
        *(name, default, lambda value: str(value).strip().lower(), path, lambda value: value in options),
        **{"rule": lambda: f"one of {', '.join(options)}", **more},
    )


def switch(name: str, default: bool, path: str, **more: str) -> Parameter:
    rule = "true or false"

    def parse(value: Any) -> bool:
        text = str(value).strip().lower()
        if text not in (*YES, *NO):
            raise ExperimentError(name, shown(value), rule)
        return text in YES

    return Parameter(name, default, parse, path, lambda value: isinstance(value, bool), rule, **more)


def _whole(name: str, rule: str) -> Callable[[Any], int | None]:
    def parse(value: Any) -> int | None:
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        text = str(value).strip()
        if not re.fullmatch(r"-?[0-9]+|-?[0-9]{1,3}([_,][0-9]{3})+", text) or len(text) > 18:
            raise ExperimentError(name, shown(value), rule)
        return int(text.replace("_", "").replace(",", ""))

    return parse


def _numbers(name: str, rule: str) -> Callable[[Any], int | str | None]:
    """A whole number, or several with : or , between them, which stay text with : between them."""
    whole = _whole(name, rule)

    def parse(value: Any) -> int | str | None:
        text = str(value).replace(" ", "")
        if isinstance(value, tuple | list):  # one alone gets an empty one beside it
            text = ":".join(map(str, [*value, 0][: max(2, len(value))]))
        if not re.fullmatch(r"[0-9]+([:,][0-9]+)+", text):
            return whole(value)
        parts = re.split("[:,]", text)
        if any(len(part) > len(str(LARGEST_SEQUENCE)) for part in parts):
            raise ExperimentError(name, shown(value), rule)
        return ":".join(str(int(part)) for part in parts)

    return parse


def shown(value: Any) -> str:
    """A value as an error shows it: short, and on one line."""
    text = " ".join(str(value).split())
    return repr(text if len(text) <= 40 else text[:40] + "…")
