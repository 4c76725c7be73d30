"""Tables of a watched kernel, and of the real kernel beside the schedule: their bytes, and what differs."""

from app.figures import agreement, watched
from app.figures.colours import palette
from engine import Experiment
from engine.measuring.kernel_traffic import RealTraffic
from engine.schedule.step import Tensor
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


def test_a_tile_whose_bytes_differ_is_struck_out():
    counted = RealTraffic(
        Experiment.of(),
        {Tensor.K: (2048, 1024)},
        {Tensor.O: (512, 512)},
        {(0, 0): (1536, 1536), (1, 0): (1536, 1024), (1, 1): (1024, 1024)},
        "2026-01-01",
    )
    assert not counted.equal
    assert rows(agreement.by_tensor(counted)) == [
        ["K read", "2,048", "1,024", "differ"],
        ["O written", "512", "512", "equal"],
    ]
    cells = agreement.by_tile(counted, palette(True)).split("<td")
    struck = [cell for cell in cells if "linear-gradient" in cell]
    assert len(struck) == 1
    assert "kernel 1,536 bytes, schedule 1,024 bytes: differ" in struck[0]
    assert ">1.54<" in struck[0]
