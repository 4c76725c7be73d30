"""What was read of calls that stand in no recording: `readings.txt` says how it is written."""

from pathlib import Path

import pytest

from engine import Experiment

WORDS = {"-": None, "yes": True, "no": False}
READ: dict[str, list[tuple[dict, float | list[float]]]] = {}  # by section: values of calls, and what was read


def _value(word: str) -> str | int | bool | None:
    return int(word) if word.isdigit() else WORDS.get(word, word)


for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
    if line.startswith("["):
        name, columns = line[1:].split("] ")
        READ[name] = []
    elif line and not line.startswith("#"):
        words, numbers = line.split(":")
        values = dict(zip(columns.split(), map(_value, words.split()), strict=True))
        found = [float(number) for number in numbers.split()]
        READ[name].append((values, found[0] if len(found) == 1 else found))


def for_each(*sections: str) -> pytest.MarkDecorator:
    """A test of every call of some sections: which section if there are several, values, what was read."""
    rows = [(section, *row) for section in sections for row in READ[section]]
    ids = ["-".join(map(str, values.values())) for _, values, _ in rows]
    own = len(sections) == 1
    names = ("values", "read") if own else ("section", "values", "read")
    return pytest.mark.parametrize(names, [row[own:] for row in rows], ids=ids)


def experiment_of(values: dict, **more) -> Experiment:
    """A call, on an H200 unless told otherwise; in the kernel's own blocks where its line gives none."""
    given = {name: value for name, value in values.items() if value is not None}
    one = Experiment.of(**{"hardware": "h200", **more, **given})
    return one.in_own_tiling() if values.get("block_q", 1) is None else one
