"""What a tour asks: every quantity against a formula of its own, a sentence for what cannot be computed."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.algorithms import compared
from engine.model.cluster.seconds import modelled
from engine.model.cluster.spread import Spread
from engine.studies.answers import Answer, AnswerError, answer, holds
from engine.studies.quantities import COUNTED, GIVEN, MODELLED, QUANTITIES

UNMASKED = st.builds(
    lambda **values: Experiment.of(heads=3, **values),
    seq=st.integers(1, 700),
    seq_kv=st.integers(1, 700),
    dtype=st.sampled_from(("float16", "float32")),
    head_dim=st.sampled_from((16, 64, 80)),
    block_q=st.sampled_from((16, 64, 128)),
    block_kv=st.sampled_from((32, 64)),
)


def value(text: str, experiment: Experiment) -> float:
    return answer(text, experiment).value


@given(UNMASKED)
def test_passes_over_a_tensor_are_the_trips_of_the_other_loop(experiment):
    queries = ceil(experiment.problem.seq_q / experiment.tiling.block_q)
    keys = ceil(experiment.problem.seq_kv / experiment.tiling.block_kv)
    assert value("flash2.k_reads", experiment) == value("flash2.v_reads", experiment) == queries
    assert value("flash2.q_reads", experiment) == value("flash2.o_writes", experiment) == 1
    assert value("flash2.s_reads", experiment) == 0
    assert value("flash1.k_reads", experiment) == 1
    assert value("flash1.o_writes", experiment) == value("flash1.o_reads", experiment) == keys
    assert value("standard.s_reads", experiment) == 1
    assert value("tiles", experiment) == queries * keys == value("flash2.tiles_visited", experiment)


def test_ratios_have_no_unit_and_say_what_they_rest_on():
    experiment = Experiment.of(seq=4096, head_dim=128)
    ratio = answer("standard.compulsory_bytes / ideal_bytes", experiment)
    assert ratio == Answer(4096 / 128 + 1, "", COUNTED)
    assert answer("dram_bytes", experiment).origin == MODELLED
    assert answer("2 * (keys - 96)", experiment) == Answer(8000, "", GIVEN)
    assert answer("dram_bytes / 2", experiment).unit == "B"
    # an H200: 989.4 TFLOP/s and 4.8 TB/s
    assert value("balance", experiment) == pytest.approx(989.4 / 4.8, rel=1e-3)


def test_the_exponentials_of_a_short_head_take_as_long_as_its_products():
    """16 exponentials against 4096 FLOPs per clock and SM: 4 d FLOPs per score, so 256 / 256 at d = 64."""
    experiment = Experiment.of(seq=8192, head_dim=64, block_q=128, block_kv=128)
    assert value("exponential_seconds / matrix_seconds", experiment) == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize("name", QUANTITIES)
def test_every_quantity_has_a_value_for_every_algorithm(name):
    experiment = Experiment.of(seq=200, causal=True, kv_heads=4)
    for algorithm in compared():
        found = answer(f"{algorithm}.{name}", experiment)
        assert found.value >= 0
        assert (found.unit, found.origin) == (QUANTITIES[name].unit, QUANTITIES[name].origin)


def test_a_quantity_is_of_the_scenarios_own_algorithm_unless_one_is_named():
    experiment = Experiment.of(algorithm="flash1", seq=512)
    assert value("dram_bytes", experiment) == simulate(experiment).traffic.dram.total
    assert value("o_writes", experiment) == value("flash1.o_writes", experiment) == 8
    large = Experiment.of(heads=16, seq=4096, head_dim=128)  # blocks and bytes of a head by hand
    assert value("flash1.busy_sms", large) == 16
    assert value("lse_bytes", large) == 4 * 4096
    assert value("flash2.thread_blocks", large) == 16 * 4096 / 64
    assert value("flash2.busy_sms", large) == 132
    assert value("dram_seconds", large) == pytest.approx(value("dram_bytes", large) / 4.8e12)


WRONG = [
    (answer, "k_read", "'k_read' is not a quantity; it must be one of queries, "),
    (answer, "flash9.k_reads", "'flash9' is not an algorithm; it must be one of standard, "),
    (answer, "k_reads +", "'k_reads +' is not an expression"),
    (answer, "__import__('os')", "cannot be computed; allowed are numbers"),
    (answer, "keys ** 2", "cannot be computed"),
    (answer, "dram_bytes + keys", "B and a number cannot be added"),
    (answer, "dram_bytes * ideal_bytes", "B times B has no unit here"),
    (answer, "flops / dram_bytes", "FLOP over B has no unit here"),
    (answer, "keys / tiles_skipped", "divides by 0"),
    (answer, "'keys'", "cannot be computed"),
    (answer, "", "is not an expression"),
    (answer, "eager.recorded_seconds", "eager was not recorded for this problem"),
    (answer, "mine.recorded_seconds", "'mine' is in no recording; it must be one of "),
    (answer, "ring_block", "gpus is 4; it must be from 1 to 3, the tokens"),
    (answer, "ring_plain", "gpus is 4; it must be from 1 to 3, the tokens"),
    (answer, "ring_zigzag", "gpus is 4; it must be from 1 to 3, the tokens"),
    (holds, "keys", "'keys' is not a condition; it must be like flash2.flops < standard.flops"),
    (holds, "1 < keys < 3", "is not a condition"),
    (holds, "keys != 3", "is not a condition"),
    (holds, "keys <", "'keys <' is not a condition"),
    (holds, "dram_bytes < keys", "B and a number cannot be compared"),
    (holds, "key < 3", "'key' is not a quantity"),
]


@pytest.mark.parametrize(("ask", "text", "sentence"), WRONG)
def test_what_cannot_be_computed_is_one_sentence(ask, text, sentence):
    with pytest.raises(AnswerError) as error:
        ask(text, Experiment.of(seq=3))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("flash2.flops < standard.flops", False),
        ("flash2.flops == standard.flops", True),
        ("flash2.dram_bytes < standard.dram_bytes", True),
        ("keys >= 4096", True),
        ("keys > 4096", False),
        ("keys <= 4095", False),
    ],
)
def test_a_condition_is_two_expressions_compared(text, true):
    assert holds(text, Experiment.of(seq=4096, head_dim=128, block_q=128)) is true


def test_recorded_seconds_are_the_recordings_of_exactly_this_problem():
    """From assets/recordings: 4,096 tokens, batch 4, 16 heads of 128, on an H200, in microseconds."""
    recorded = Experiment.of(batch=4, heads=16, seq=4096, head_dim=128)
    for provider, microseconds in (("eager", 5572.4), ("flash2", 976.4), ("flash3", 765.2)):
        found = answer(f"{provider}.recorded_seconds", recorded)
        assert (found.unit, found.origin) == ("s", "recorded")
        assert found.value == pytest.approx(microseconds * 1e-6, rel=0.001)
    with pytest.raises(AnswerError, match="a T4 has no recording; it must be a GPU that has one"):
        answer("eager.recorded_seconds", recorded.changed(hardware="t4"))


def test_a_ring_in_plain_order_and_in_zigzag_order_is_as_many_times_faster_as_is_modelled():
    asked = Experiment.of(algorithm="flash3", heads=16, seq=131072, head_dim=128, causal=True)
    gpus = int(value("ring_gpus", asked))
    assert value("ring_block", asked) == 2 * 16 * 131072 / gpus * 128 * 2
    for name, zigzag in (("ring_plain", False), ("ring_zigzag", True)):
        found = modelled(Spread(asked.problem, gpus, zigzag=zigzag))
        assert value(name, asked) == pytest.approx(found.one_gpu / found.seconds)
