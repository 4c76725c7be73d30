"""Modelled times against calls in no recording, and the spread of a kernel's time over its steps."""

import numpy as np
import pytest
from hypothesis import example, given

from engine import Experiment, simulate
from engine.algorithms import offered
from engine.model.launch import launch
from engine.problem.hardware import GPUS
from engine.schedule.step import Operation
from engine.studies.sampled_calls import step_seconds
from tests.engine.readings import READ, experiment_of
from tests.engine.strategies import experiments


def test_a_head_dimension_between_two_costs_the_products_of_the_larger():
    """Triton's tiles have a power of two columns; copies and FLOPs that count stay those of 80."""
    between, larger = (
        simulate(Experiment.of(heads=16, seq=8192, head_dim=head_dim, block_q=128, hardware="h200")).modelled
        for head_dim in (80, 128)
    )
    busy = [each.busy["attention"]["tensor core"] for each in (between, larger)]
    assert busy[0] == pytest.approx(busy[1])
    # an H200 took 1.044 at N 60,000: copies of 80 columns look at each
    assert between.seconds / larger.seconds == pytest.approx(1.044, abs=0.022)
    # 4 N^2 d of 16 heads, d padded to 128, at what products reach
    products = 4 * 16 * 8192**2 * 128 / (GPUS["h200"].reached.matrix * 989e12)
    assert busy[0] == pytest.approx(products, rel=0.01)


@pytest.mark.parametrize(
    ("values", "bound"),
    [
        ({"heads": 16, "seq": 16384, "head_dim": 128, "block_q": 128}, "tensor core"),
        ({"heads": 16, "seq": 16384, "head_dim": 16, "block_q": 128}, "exp"),
        ({"algorithm": "standard", "seq": 8192, "head_dim": 128, "block_q": 32, "block_kv": 128}, "L2"),
        ({"heads": 1024, "seq": 16, "seq_kv": 8192, "head_dim": 128, "block_q": 16}, "HBM"),
        ({"heads": 1, "seq": 1024, "seq_kv": 65536, "block_q": 128}, "tail"),
        ({"heads": 132, "seq": 64, "seq_kv": 16}, "launch"),
        ({"algorithm": "flash1", "heads": 4, "seq": 4096}, "tail"),
    ],
)
def test_what_holds_a_kernel_up_is_named(values, bound):
    assert simulate(Experiment.of(**values, hardware="h200")).modelled.bound == bound


@pytest.mark.parametrize(("seq", "recorded"), [(128, 98.3), (256, 129.2), (512, 191.8), (1024, 314.0)])
def test_what_blocks_copy_before_their_first_visit_hides_under_little(seq, recorded):
    """16k tokens of 8 heads, d 256: µs as an H200 took them. Q, K, V and O pass HBM in 63 µs beside."""
    one = Experiment.of(
        algorithm="flash2", batch=16384 // seq, heads=8, seq=seq, head_dim=256, hardware="h200"
    )
    modelled = simulate(one.in_own_tiling()).modelled
    assert modelled.seconds * 1e6 == pytest.approx(recorded, rel=0.1)
    moved = 4 * 16384 * 2048 * 2
    reached = one.gpu.reached  # three of four bytes are read, and one is written: copies read half
    share = 1 / (1 / (2 * reached.reads) + 1 / (2 * reached.copies))
    assert modelled.busy["attention"]["HBM"] == pytest.approx(moved / (share * 4.8e12), rel=0.01)


@pytest.mark.parametrize(("heads", "recorded"), [(16, 1.62), (128, 2.43)])
def test_a_visit_of_flash1_waits_for_dram_where_l2_does_not_keep_its_rows(heads, recorded):
    """µs per visit of 64 x 64 tiles on an H200: Q, O, m and l of 16 heads stay in L2, of 128 they do not."""
    one = Experiment.of(
        algorithm="flash1", heads=heads, seq=4096, head_dim=64, block_q=64, block_kv=64, hardware="h200"
    )
    assert simulate(one).modelled.seconds * 1e6 / 64**2 == pytest.approx(recorded, rel=0.11)


@given(experiments())
@example(Experiment.of(algorithm="standard", heads=8, seq=1024, head_dim=64, hardware="t4"))  # HBM alone
def test_no_kernel_is_faster_than_its_bytes(experiment):
    modelled = simulate(experiment).modelled
    assert modelled.busy.keys() == modelled.parts.keys()
    for kernel, seconds in modelled.parts.items():
        assert seconds > modelled.busy[kernel]["HBM"]
        assert seconds > modelled.busy[kernel]["tail"]


def test_flash1_with_few_heads_leaves_most_of_the_gpu_idle():
    few, many = (
        simulate(Experiment.of(algorithm="flash1", heads=heads, seq=256)).modelled.seconds
        for heads in (1, 132)
    )
    assert many < 1.3 * few


@given(experiments((*offered(), "backward")))
def test_steps_add_up_to_the_modelled_time(experiment):
    simulation = simulate(experiment)
    seconds = step_seconds(simulation.launch)
    columns = simulation.schedule.columns
    assert len(seconds) == len(columns)
    assert seconds.sum() == pytest.approx(simulation.modelled.seconds)
    assert sum(simulation.modelled.parts.values()) == pytest.approx(simulation.modelled.seconds)
    for index, phase in enumerate(simulation.schedule.phases):
        part = seconds[columns.phase == index].sum()
        assert part == pytest.approx(simulation.modelled.parts[phase.name])
    assert (seconds > 0).all()


def test_larger_tiles_take_longer_steps():
    experiment = Experiment.of(heads=1, seq=100, block_q=64, block_kv=64)
    schedule = simulate(experiment).schedule
    seconds, columns = step_seconds(launch(experiment)), schedule.columns
    whole = (columns.query_block == 0) & (columns.key_block == 0)
    ragged = (columns.query_block == 1) & (columns.key_block == 1)
    for operation in (Operation.SCORES, Operation.RESCALE, Operation.ACCUMULATE, Operation.LOAD):
        of = columns.operation == operation
        assert (seconds[of & whole] > seconds[of & ragged]).all()
    assert np.isfinite(seconds).all()


def test_calls_that_are_in_no_recording_take_about_what_was_counted():
    """Blocks of flash2 alone on their SM, tiles of flash3 that see few keys, or that wait for a buffer."""
    found = [
        (simulate(experiment_of(values)).modelled.profiled, read * 1e-6) for values, read in READ["timed"]
    ]
    off = np.abs([modelled / counted - 1 for modelled, counted in found])
    assert len(off) == 26
    assert np.median(off) < 0.12
    assert off.max() < 0.37
