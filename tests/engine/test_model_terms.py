"""What models have beside plain attention: its counts, its costs, and which kernel does not take it."""

from types import SimpleNamespace

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.algorithms import split_kv
from engine.experiment import ExperimentError, described
from engine.model.device_memory import memory_bytes
from engine.problem.inputs import make_inputs
from engine.recordings.file import recordings
from engine.schedule.step import Tensor
from engine.studies.decoding import decoding_of, kernel_splits
from engine.trace.execute import execute
from tests.engine.strategies import exact_attention

LONG = Experiment.of(heads=16, seq=16384, head_dim=128, causal=True)


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
        (
            {"page_size": 16, "head_dim": 96},
            "reads pages of head dims 64, 128 and 256, causal or without a mask",
        ),
        ({"softcap": 100}, "takes caps of 8 to 64: FlashAttention-2's takes any."),
    ],
)
def test_what_a_kernel_does_not_take_is_one_sentence(values, sentence):
    experiment = Experiment.of(algorithm="flash3", **values)
    assert sentence in experiment.unserved
    other = "split_kv" if "page_size" in values else "flash2"
    assert experiment.changed(algorithm=other).unserved is None


def test_keys_in_pages_take_whole_pages_and_a_table():
    plain, paged = (
        Experiment.of(seq_kv=1000, algorithm="split_kv", batch=3, page_size=size) for size in (None, 64)
    )
    more = 2 * 3 * 16 * 24 * 64 * 2 + 3 * 16 * 4  # K and V of 24 empty slots in each head; 16 entries each
    assert memory_bytes(paged) == memory_bytes(plain) + more
    assert simulate(paged).traffic == simulate(plain).traffic
    sentence = "The kernel takes K and V whole: keys in pages are read by FlashAttention-3 and Split keys"
    assert paged.changed(algorithm="flash2").unserved.startswith(sentence)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"head_dim_v": 0}, "head_dim_v is 0; it must be a whole number from 1 to 512"),
        ({"head_dim_v": "wide"}, "head_dim_v is 'wide'; it must be a whole number from 1 to 512"),
        ({"softcap": 0}, "softcap is 0.0; it must be a number from 0.01 to 1,000,000, or none"),
        ({"softcap": "nan"}, "softcap is 'nan'; it must be a number from 0.01 to 1,000,000, or none"),
        (
            {"head_dim": 300},
            "head_dim is 300; it must be a whole number from 1 to 256, or to 576 with a latent",
        ),
        (
            {"latent": True, "head_dim_v": 65},
            "head_dim_v is 65; it must be at most head_dim, 64, with a latent",
        ),
        ({"prefix": -1}, "prefix is -1; it must be a whole number from 0 to 1,048,576"),
        ({"prefix": 3, "window": 9}, "prefix is '3'; it must be 0 with a window or documents, which may .*"),
        ({"sinks": 3}, "sinks is '3'; it must be true or false"),
    ],
)
def test_a_bad_value_is_one_sentence(values, sentence):
    with pytest.raises(ExperimentError, match=f"^{sentence}$"):
        Experiment.of(**values)


def test_one_problem_has_one_form_in_links_and_words():
    assert Experiment.of(head_dim_v=64, softcap="none") == Experiment()
    terms = {"head_dim_v": 128, "softcap": 50.0, "sinks": True, "slopes": True}
    found = Experiment.of(head_dim=192, **{name: str(value) for name, value in terms.items()})
    assert found.unusual() == {"head_dim": 192, **terms}
    assert "d 192/128, cap 50, sinks, slopes," in described(found)


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2", "flash3"])
def test_eight_bits_halve_what_is_loaded_and_o_keeps_sixteen(algorithm):
    eight = Experiment.of(
        algorithm=algorithm, heads=1, seq=200, head_dim=64, dtype="float8_e4m3fn", causal=True
    )
    trace = execute(eight, *(array[0] for array in make_inputs(eight.problem)))
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
    (h200,) = (one for one in recordings() if "H200" in one.device.gpu)
    found = (row for row in h200.fp8 if (row.problem.head_dim, row.problem.seq_q) == (head_dim, 16384))
    (row,) = (
        row
        for row in found
        if row.problem.mask.causal == causal
        and (row.numbers, row.inputs) == ("block", "normal")
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
        q, k, v = (array[0] for array in make_inputs(one.problem))
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
