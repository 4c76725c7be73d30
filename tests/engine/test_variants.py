"""What masks, terms and V of another head dim cost: rows, their FLOPs, and what they stand beside."""

from dataclasses import replace

import pytest
import torch

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring import bench_kernels, clock, exact, sections
from engine.measuring.sections import together
from engine.problem.problem import Mask, Problem
from engine.recordings.recording import Recording, identity
from engine.recordings.timing import Times, VariantTiming
from engine.studies.masks import beside, variant_costs
from tests.engine.strategies import dense_mask
from tests.engine.test_recording import DEVICE

EVERY = dict(zip((FORWARD, BACKWARD), together("variants", "direction"), strict=True))
PLAN = {way: [row for row in rows if row.provider == "flash2"] for way, rows in EVERY.items()}
ONCE = clock.Repeats(1, 1, 0.0)


def times_of(row: VariantTiming, rate: float) -> Times:
    """In which it reaches so many TFLOP/s."""
    seconds = row.flops / rate / 1e12
    return Times(0.9 * seconds, seconds, 1.2 * seconds, 5)


def small(row: VariantTiming) -> VariantTiming:
    """The same row on 48 keys of two heads, for the interpreter."""
    mask = row.problem.mask
    if mask.packed:
        mask = replace(mask, documents=3 if isinstance(mask.documents, int) else (20, 1, 27))
    if mask.window:
        mask = replace(mask, window=9, ahead=8)
    dims = (24, 16) if row.v_dim else (16, None)
    problem = Problem(1, 2, 2, 48, 48, dims[0], "float32", mask)
    return replace(row, problem=problem, v_dim=dims[1], prefix=12 if row.prefix else None)


def test_flops_are_those_of_the_pairs_that_the_mask_leaves():
    for row in map(small, PLAN[FORWARD]):
        pairs = dense_mask(row.whole).sum()
        wide = row.problem.head_dim + (row.v_dim or row.problem.head_dim)
        assert row.flops == 2 * 2 * pairs * wide
        assert replace(row, direction=BACKWARD).flops == 5 * 2 * pairs * wide


def test_every_row_stands_beside_the_plain_one_that_looks_as_far():
    rows = PLAN[FORWARD]
    none, causal = rows[:2]
    assert [row.plain for row in rows] == [True, True] + [False] * (len(rows) - 2)
    assert len({identity(row) for row in rows}) == len(rows) == 11
    ahead = (Mask(), Mask(window=1025, ahead=1024), Mask(documents=16))
    for row in rows:
        assert beside(row, rows) is (none if row.problem.mask in ahead else causal)
    others = [row for row in EVERY[FORWARD] if row.provider == "flash3"]
    assert len(others) == 16
    for row in others:
        plain = beside(row, EVERY[FORWARD])
        assert plain in others
        assert plain.problem.head_dim == (256 if row.term and row.problem.head_dim == 256 else 128)


def test_a_recordings_rows_stand_beside_those_of_their_own_commit():
    rows = [
        replace(row, times=times_of(row, rate), commit=commit)
        for commit, plain in ((None, 500.0), ("other", 400.0))
        for row, rate in zip(PLAN[FORWARD], (plain, plain / 2, *[100.0] * 9), strict=True)
    ]
    found = variant_costs(Recording(DEVICE, variants=(*rows, PLAN[BACKWARD][0])), FORWARD)
    assert len(found) == 22
    assert [found[at].over for at in (0, 1, 2, 5, 13, 16)] == pytest.approx([1, 1, 0.2, 0.4, 0.25, 0.5])
    documents, prefix = found[3].seen, found[6].seen
    assert documents == pytest.approx(1 / 16)
    assert prefix == pytest.approx(0.5 * (1 + (4096 / 16384) ** 2), rel=1e-4)  # a square above the diagonal
    assert found[10].seen == pytest.approx(0.5, rel=1e-4)  # of pairs, whatever V is


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has no interpreter")
def test_rows_are_checked_before_they_are_timed(monkeypatch):
    rows = [small(row) for row in (*PLAN[FORWARD][8:], PLAN[BACKWARD][-1])]
    found = sections.timed(rows, ONCE, cuda=False)
    assert all(row.times and row.error <= row.allowed for row in found)
    monkeypatch.setattr(exact, "_attended", lambda q, k, v, queries, *_: torch.ones_like(q))
    (wrong,) = sections.timed([small(PLAN[FORWARD][0])], ONCE, cuda=False)
    assert wrong.times is None
    assert wrong.skipped.startswith("not timed, because its result is wrong: it is off by")


def test_a_line_tells_the_rate_beside_the_plain_one():
    plain, row = (PLAN[FORWARD][at] for at in (1, 5))
    plain, row = replace(plain, times=times_of(plain, 500.0)), replace(row, times=times_of(row, 300.0))
    assert bench_kernels.variant_line(row, plain) == (
        "forward  5 documents, causal                              1.337 ms  300 TFLOP/s  0.60 of plain"
    )
    none = replace(plain, times=None, skipped="no room")
    assert bench_kernels.variant_line(none, plain).endswith("no room")
