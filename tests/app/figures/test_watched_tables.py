"""Tables of a watched kernel: its bytes."""

from app.figures import watched
from engine.watch.labs import stored_report

TILE = 16 * 16 * 2  # bytes of 16 rows of 16 numbers


def rows(found: list[dict[str, str]]) -> list[list[str]]:
    return [[*row.values()] for row in found]


def test_a_kernel_that_visits_all_of_3_by_3_causal_tiles():
    found = stored_report(5)
    assert rows(watched.by_tensor(found)) == [
        ["Q", f"{3 * TILE:,}", "0", f"{3 * TILE:,}", "0"],
        ["K", f"{9 * TILE:,}", "0", f"{6 * TILE:,}", "0"],
        ["V", f"{9 * TILE:,}", "0", f"{6 * TILE:,}", "0"],
        ["O", "0", f"{3 * TILE:,}", "0", f"{3 * TILE:,}"],
    ]
    by_program = rows(watched.by_program(found))
    assert [row[0] for row in by_program] == [f"kernel ({block}, 0, 0)" for block in range(3)]
    for block, row in enumerate(by_program):
        own = ["0", str(block), *(f"{part * TILE:,}" for part in (1, 3, 3, 1)), f"{8 * TILE:,}"]
        assert row[1:] == [*own, f"{(2 + 2 * (block + 1)) * TILE:,}"]
    ((sentence, line, program, tensor),) = rows(watched.findings(found))
    assert (line, program, tensor) == ("42", "(0, 0, 0)", "K")
    assert sentence.startswith("Program (0, 0, 0) visits tile (0, 1)")
