"""FlashAttention-1 as its authors' code ran it: bytes counted visit by visit."""

import pytest

from engine import Experiment, simulate
from engine.algorithms.flash1 import PAPER_BLOCKS, paper_bytes


@pytest.mark.parametrize(("seq", "head_dim"), [(256, 64), (1024, 64), (4096, 128)])
def test_the_bytes_of_the_authors_code_visit_by_visit(seq, head_dim):
    """The first visit of a key block reads no O, the last writes it in 16 bits; float32 in between."""
    rows, keys = PAPER_BLOCKS[head_dim]
    moved = 0
    for visit in range(visits := seq // keys):
        moved += 2 * keys * head_dim * 2  # K and V
        for _ in range(seq // rows):
            moved += rows * head_dim * 2  # Q
            moved += rows * head_dim * (2 if visit == visits - 1 else 4) + 4 * rows  # O and lse, written
            moved += (rows * head_dim * 4 + 4 * rows) * (visit > 0)  # and read
    assert paper_bytes(Experiment.of(seq=seq, head_dim=head_dim).problem) == moved


def test_the_accumulator_makes_more_bytes_than_the_literal_kernel_in_the_same_blocks():
    experiment = Experiment.of(algorithm="flash1", heads=1, seq=4096, head_dim=128, block_q=16, block_kv=128)
    literal = simulate(experiment).traffic.requested.total
    assert 1.3 < paper_bytes(experiment.problem) / literal < 2
