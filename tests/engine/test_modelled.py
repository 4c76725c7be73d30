"""Modelled times against calls in no recording and over a kernel's steps; what models have besides."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given

from engine import Experiment, simulate
from engine.algorithms import offered, split_kv
from engine.experiment import described
from engine.model.device_memory import memory_bytes
from engine.model.launch import launch
from engine.problem.hardware import GPUS
from engine.recordings.file import recording_of
from engine.schedule.step import Operation, Tensor
from engine.studies.decoding import decoding_of, kernel_splits
from engine.studies.sampled_calls import step_seconds
from engine.trace.execute import execute
from tests.engine.readings import READ, experiment_of
from tests.engine.strategies import exact_attention, experiments, one_head

LONG = Experiment.of(heads=16, seq=16384, head_dim=128, causal=True)


def test_a_head_dimension_between_two_costs_the_products_of_the_larger():
    """Triton's tiles have a power of two columns; copies and FLOPs that count stay those of 80."""
    of = {"seq": 8192, "block_q": 128}
    between, larger = (simulate(Experiment.of(head_dim=size, **of)).modelled for size in (80, 128))
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
    one = Experiment.of(batch=16384 // seq, heads=8, seq=seq, head_dim=256)
    modelled = simulate(one.in_own_tiling()).modelled
    assert modelled.seconds * 1e6 == pytest.approx(recorded, rel=0.1)
    moved = 4 * 16384 * 2048 * 2
    reached = one.gpu.reached  # three of four bytes are read, and one is written: copies read half
    share = 1 / (1 / (2 * reached.reads) + 1 / (2 * reached.copies))
    assert modelled.busy["attention"]["HBM"] == pytest.approx(moved / (share * 4.8e12), rel=0.01)


@pytest.mark.parametrize(("heads", "recorded"), [(16, 1.62), (128, 2.43)])
def test_a_visit_of_flash1_waits_for_dram_where_l2_does_not_keep_its_rows(heads, recorded):
    """µs per visit of 64 x 64 tiles on an H200: Q, O, m and l of 16 heads stay in L2, of 128 they do not."""
    one = Experiment.of(algorithm="flash1", heads=heads, seq=4096)
    assert simulate(one).modelled.seconds * 1e6 / 64**2 == pytest.approx(recorded, rel=0.11)


@given(experiments())
@example(Experiment.of(algorithm="standard", heads=8, seq=1024, head_dim=64, hardware="t4"))  # HBM alone
def test_no_kernel_is_faster_than_its_bytes(experiment):
    modelled = simulate(experiment).modelled
    assert modelled.busy.keys() == modelled.parts.keys()
    for kernel, seconds in modelled.parts.items():
        assert seconds > modelled.busy[kernel]["HBM"]
        assert seconds > modelled.busy[kernel]["tail"]


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
    off = [
        abs(simulate(experiment_of(each)).modelled.profiled * 1e6 / read - 1) for each, read in READ["timed"]
    ]
    assert len(off) == 26
    assert np.median(off) < 0.12
    assert max(off) < 0.37


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2", "flash3", "split_kv", "backward"])
def test_a_sink_has_no_key_and_a_cap_no_bytes(algorithm):
    plain = simulate(Experiment.of(algorithm=algorithm, seq=1024, causal=True))
    for more in ({"sinks": True}, {"softcap": 30}, {"slopes": True}):
        found = simulate(plain.experiment.changed(**more))
        assert found.traffic == plain.traffic
        costs = found.modelled.seconds / plain.modelled.seconds
        assert costs >= 1
        # unfused attention's softmax waits for HBM
        assert (costs == 1) == ("sinks" in more) or algorithm == "standard"


def test_v_of_another_head_dim_counts_in_v_and_o_alone():
    plain, wide = (simulate(LONG.changed(head_dim=192, head_dim_v=dim)).traffic for dim in (192, 128))
    for tensor in (Tensor.Q, Tensor.K, Tensor.LSE):
        assert wide.requested.read[tensor] == plain.requested.read[tensor]
    assert wide.requested.read[Tensor.V] * 192 == plain.requested.read[Tensor.V] * 128
    assert wide.requested.written[Tensor.O] * 192 == plain.requested.written[Tensor.O] * 128
    assert wide.flops * 384 == plain.flops * 320


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"head_dim": 96, "head_dim_v": 64}, "takes V of as many numbers as K, or of 128 beside 192"),
        ({"page_size": 16, "head_dim": 96}, "reads pages of head dims 64, 128 and 256, causal or without"),
        ({"softcap": 100}, "takes caps of 8 to 64: FlashAttention-2's takes any."),
    ],
)
def test_what_a_kernel_does_not_take_is_one_sentence(values, sentence):
    experiment = Experiment.of(algorithm="flash3", **values)
    assert sentence in experiment.unserved
    other = "split_kv" if "page_size" in values else "flash2"
    assert experiment.changed(algorithm=other).unserved is None


def test_keys_in_pages_take_whole_pages_and_a_table():
    plain = Experiment.of(seq_kv=1000, algorithm="split_kv", batch=3)
    paged = plain.changed(page_size=64)
    more = 2 * 3 * 16 * 24 * 64 * 2 + 3 * 16 * 4  # K and V of 24 empty slots in each head; 16 entries each
    assert memory_bytes(paged) == memory_bytes(plain) + more
    assert simulate(paged).traffic == simulate(plain).traffic
    sentence = "The kernel takes K and V whole: keys in pages are read by FlashAttention-3 and Split keys"
    assert paged.changed(algorithm="flash2").unserved.startswith(sentence)


def test_one_problem_has_one_form_in_links_and_words():
    assert Experiment.of(head_dim_v=64, softcap="none") == Experiment()
    terms = {"head_dim_v": 128, "softcap": 50.0, "sinks": True, "slopes": True}
    found = Experiment.of(head_dim=192, **{name: str(value) for name, value in terms.items()})
    assert found.unusual() == {"head_dim": 192, **terms}
    assert "d 192/128, cap 50, sinks, slopes," in described(found)


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2", "flash3"])
def test_eight_bits_halve_what_is_loaded_and_o_keeps_sixteen(algorithm):
    eight = Experiment.of(algorithm=algorithm, heads=1, seq=200, dtype="float8_e4m3fn", causal=True)
    trace = execute(eight, *one_head(eight))
    moved, sixteen = simulate(eight).traffic, simulate(eight.changed(dtype="float16")).traffic
    assert trace.counted == moved.requested  # by executing it
    for tensor, halves in ((Tensor.Q, 2), (Tensor.K, 2), (Tensor.V, 2), (Tensor.O, 1), (Tensor.P, 1)):
        assert moved.compulsory.read[tensor] * halves == sixteen.compulsory.read[tensor]
        assert moved.compulsory.written[tensor] == sixteen.compulsory.written[tensor]
    assert eight.unserved.startswith("attention_fp8 rounds float16 and bfloat16 to it in its own call")


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_eight_bits_take_what_an_h200_took(head_dim, causal):
    """Its call rounds Q, K and V besides, with scales by block."""
    (row,) = (
        row
        for row in recording_of("h200").fp8
        if (row.numbers, row.inputs, row.problem.seq_q) == ("block", "normal", 16384)
        and (row.problem.head_dim, row.problem.mask.causal) == (head_dim, causal)
        and row.times
    )
    eight = Experiment(row.problem, "flash3").changed(dtype="float8_e4m3fn")
    assert simulate(eight).modelled.seconds == pytest.approx(row.times.p50, rel=0.2)


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2", "flash3", "split_kv"])
def test_a_latent_is_loaded_once_for_k_and_v(algorithm):
    shape = {"heads": 4, "kv_heads": 1, "seq": 200, "head_dim": 80, "head_dim_v": 64, "causal": True}
    apart, latent = (Experiment.of(algorithm=algorithm, **shape, latent=each) for each in (False, True))
    moved, both = (simulate(one).traffic for one in (latent, apart))
    kept = algorithm == "standard"  # whose kernel of O loads it once more
    spared = 0 if kept else both.requested.read[Tensor.V]
    assert moved.requested.total_read == both.requested.total_read - spared
    assert moved.flops == both.flops
    assert memory_bytes(latent) == memory_bytes(apart) - 200 * 64 * 2
    if algorithm != "split_kv":
        one = latent.changed(heads=1)
        q, k, v = one_head(one)
        trace = execute(one, q, k, v)
        assert trace.counted == simulate(one).traffic.requested
        np.testing.assert_allclose(trace.out, exact_attention(one.problem, q, k, k[:, :64])[0], atol=0.01)
    decoding = latent.changed(algorithm="split_kv", seq=1, head_dim=576, head_dim_v=512, heads=128)
    assert decoding.unserved is None
    assert "for Hopper GPUs, takes one query on one key head of 576" in decoding.changed(seq=2).unserved
    assert "apart: a latent is decoded over by Split keys" in decoding.changed(algorithm="flash2").unserved


@pytest.mark.parametrize(("batch", "keys"), [(1, 4096), (1, 100), (16, 32768), (64, 1000), (128, 131072)])
def test_a_latent_is_split_as_its_kernel_splits_it(batch, keys):
    pytest.importorskip("torch")
    kernel = pytest.importorskip("kernels.algorithms.flash3.latent")
    call = SimpleNamespace(batch=batch, heads=128, seq_kv=keys)
    shape = {"heads": 128, "kv_heads": 1, "head_dim": 576, "head_dim_v": 512, "latent": True, "block_kv": 64}
    decoding = decoding_of(Experiment.of(batch=batch, seq_kv=keys, **shape))
    assert kernel_splits(decoding) == kernel.split_count(call, decoding.gpu.sms)
    assert (split_kv.LATENT, 64) == (kernel.LATENT, kernel.KEYS)
