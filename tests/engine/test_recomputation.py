"""What the ways back through attention cost: FLOPs, memory that is kept, and bytes."""

from hypothesis import given

from engine import Experiment, simulate
from engine.studies.recomputation import (
    FLOPS_RATIO,
    ONE_KERNEL,
    STORED,
    TWO_KERNELS,
    one_kernel_bytes,
    recomputation,
)
from tests.engine.closed_form import one_kernel_backward_bytes
from tests.engine.strategies import experiments

BACKWARD = experiments(algorithms=("backward",))


@given(BACKWARD)
def test_recomputation_trades_flops_for_the_matrix(experiment):
    costs, problem = recomputation(experiment), experiment.problem
    heads = problem.batch * problem.heads
    assert costs.flops[TWO_KERNELS] == simulate(experiment).traffic.flops
    assert FLOPS_RATIO == {STORED: 2.0, ONE_KERNEL: 2.5, TWO_KERNELS: 3.5}
    assert costs.kept[STORED] == heads * problem.seq_q * problem.seq_kv * problem.itemsize
    assert costs.kept[ONE_KERNEL] == heads * problem.seq_q * 8
    assert costs.kept[TWO_KERNELS] == heads * problem.seq_q * 12
    forward = simulate(experiment.changed(algorithm="flash2")).traffic.flops
    assert costs.flops[ONE_KERNEL] == 2.5 * forward
    product = 2 * heads * problem.seq_q * problem.seq_kv * problem.head_dim
    assert costs.flops[STORED] == 4 * product  # unfused attention skips nothing that a mask hides
    if not problem.mask.hides:
        assert costs.saved["FLOPs"] == 4 / 7
    assert costs.saved["Memory"] == problem.seq_kv * problem.itemsize / 12


def test_bytes_are_compared_at_one_level_of_memory():
    """Both past DRAM: 7 N^2 + 8 N d elements a head, against inputs and gradients once."""
    n, d, heads = 4096, 128, 16
    experiment = Experiment.of(algorithm="backward", seq=n, head_dim=d, block_q=128)
    costs, least = recomputation(experiment), simulate(experiment).traffic.compulsory.total
    assert costs.moved[STORED] == 2 * heads * (7 * n * n + 8 * n * d)
    assert least <= costs.moved[TWO_KERNELS] < 1.05 * least
    assert costs.saved["Bytes across HBM"] == costs.moved[STORED] / costs.moved[TWO_KERNELS] > 10
    assert costs.requested[TWO_KERNELS] > 10 * costs.moved[TWO_KERNELS]


@given(experiments(algorithms=("backward",), masked=False))
def test_one_kernel_asks_for_what_the_paper_says(experiment):
    schedule = simulate(experiment).schedule
    assert one_kernel_bytes(schedule) == one_kernel_backward_bytes(experiment)


@given(BACKWARD)
def test_all_ways_back_move_shared_keys_once(experiment):
    """Element by element: P-sized passes and rows a head; K, V, dK and dV a key head."""
    costs, problem = recomputation(experiment), experiment.problem
    heads, key_heads = problem.batch * problem.heads, problem.batch * problem.kv_heads
    n, m, d = problem.seq_q, problem.seq_kv, problem.head_dim
    must = heads * (7 * n * m + 4 * n * d) + key_heads * 4 * m * d
    assert costs.moved[STORED] == must * problem.itemsize
    rows = one_kernel_bytes(simulate(experiment).schedule) - 4 * m * d * problem.itemsize
    assert costs.requested[ONE_KERNEL] == heads * rows + key_heads * 4 * m * d * problem.itemsize
