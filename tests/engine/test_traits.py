"""What a schedule is like is found in its loop nests, whoever it belongs to."""

from __future__ import annotations

from engine.algorithms import flash2
from engine.experiment import Experiment
from engine.model.launch import schedule_of
from engine.schedule.step import Tensor
from engine.schedule.traits import Leaves, Rows, traits


def like(algorithm: str, **values):
    return traits(schedule_of(Experiment.of(algorithm=algorithm, **{"seq": 256} | values)))


def test_what_an_algorithm_is_like_is_found_in_its_schedule():
    standard, flash1, flash2_, backward_ = map(like, ("standard", "flash1", "flash2", "backward"))
    assert [each.rows for each in (standard, flash1, flash2_, backward_)] == [
        *(Rows.WHOLE, Rows.ONLINE, Rows.ONLINE, Rows.GRADIENTS)
    ]
    assert [each.rewrites for each in (standard, flash1, flash2_, backward_)] == [False, True, False, False]
    assert [phase.leaves for phase in standard.phases] == [Leaves.SCORES, Leaves.WEIGHTS, Leaves.ALL]
    assert [phase.leaves for phase in backward_.phases] == [Leaves.NOTHING, Leaves.PART, Leaves.ALL]
    assert [phase.gathers for phase in standard.phases] == [False, False, True]
    assert not any(phase.carries for phase in (*standard.phases, *flash1.phases))
    assert flash2_.phases[0].carries
    assert standard.phases[2].loads == (Tensor.P, Tensor.V)


def test_only_unfused_attention_computes_what_the_mask_hides():
    assert like("standard", causal=True).visits_hidden
    assert not like("standard").visits_hidden  # there is nothing hidden
    assert not any(like(name, causal=True).visits_hidden for name in ("flash1", "flash2", "backward"))


def test_only_some_windows_have_key_blocks_that_begin_where_query_blocks_stand():
    long = {"algorithm": "flash3", "head_dim": 64, "seq": 2048}
    assert like(**long, window=1024).copies_elsewhere
    assert not any(like(**long, window=window).copies_elsewhere for window in (None, 1088, (1023, 8)))
    assert not like("flash2", seq=2048, window=1024).copies_elsewhere


def test_an_algorithm_that_nobody_knew_is_told_by_its_schedule():
    problem = Experiment.of(seq=256, causal=True)
    schedule = flash2.schedule(problem.problem, problem.tiling)
    assert traits(schedule) == like("flash2", causal=True)
