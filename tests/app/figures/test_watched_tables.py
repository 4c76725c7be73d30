"""Tables of a watched kernel: its bytes."""

import json
from pathlib import Path
from typing import Any

from app.page import kernel
from engine.watch.labs import labs

TILE = 16 * 16 * 2  # bytes of 16 rows of 16 numbers


def rows(found: list[dict[str, str]]) -> list[list[str]]:
    return [[*row.values()] for row in found]


def stored_report() -> dict[str, Any]:
    """What was seen of lab 5 with its hole, as a page is told: python -m engine lab 5 FILE --json."""
    lab, found = labs()[5], json.loads(Path(__file__).with_name("lab_5.json").read_text("utf-8"))
    told = {"file": str(lab.file), "source": lab.file.read_text("utf-8").splitlines()}
    return {**found, **told, "experiment": lab.experiment.flat()}


def test_a_kernel_that_visits_all_of_3_by_3_causal_tiles():
    found = stored_report()
    assert rows(kernel.by_tensor(found)) == [
        ["Q", f"{3 * TILE:,}", "0", f"{3 * TILE:,}", "0"],
        ["K", f"{9 * TILE:,}", "0", f"{6 * TILE:,}", "0"],
        ["V", f"{9 * TILE:,}", "0", f"{6 * TILE:,}", "0"],
        ["O", "0", f"{3 * TILE:,}", "0", f"{3 * TILE:,}"],
    ]
    by_program = rows(kernel.by_program(found))
    assert [row[0] for row in by_program] == [f"kernel ({block}, 0, 0)" for block in range(3)]
    for block, row in enumerate(by_program):
        own = ["0", str(block), *(f"{part * TILE:,}" for part in (1, 3, 3, 1)), f"{8 * TILE:,}"]
        assert row[1:] == [*own, f"{(2 + 2 * (block + 1)) * TILE:,}"]
