"""Inside a block of FlashAttention-4: a unit does one thing at a time, each when it can."""

from itertools import pairwise

import pytest

from engine import Experiment, simulate
from engine.problem.hardware import GPUS
from engine.studies import tensor_memory as study
from engine.studies.answers import answer
from engine.studies.rescales import rescales
from engine.studies.tensor_memory import ALL, PV, QK, TILES, variant

WIDE = Experiment.of(seq=4096, head_dim=128)
CLOCK = 1.86e9  # Hz, of a B200
CASES = {
    "all": (WIDE, ALL),
    **{f"without {key}": (WIDE, ALL - {key}) for key in sorted(ALL)},
    "none": (WIDE, frozenset()),
    "d 64, causal": (WIDE.changed(head_dim=64, causal=True), ALL),
    "d 256": (WIDE.changed(head_dim=256), ALL),
    "one key block": (Experiment.of(seq=100, head_dim=64), ALL),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def shown(request) -> study.Variant:
    return variant(*request.param)


def marks(shown, *operations):
    found = [mark for mark in shown.block.marks if mark.operation in operations]
    return sorted(found, key=lambda mark: mark.start)


def in_flight(shown) -> list[str]:
    return [tile for tile in TILES if marks(shown, QK[tile])]


def test_every_product_and_softmax_has_what_it_needs(shown):
    """S before its softmax; P, V, a free O and a rescaled O before P V; P V before S takes P's place.

    Tensor cores take one product at a time, and groups take turns.
    """
    apart = [marks(shown, *QK.values(), *PV.values()), marks(shown, study.STORE)]
    for row in apart + [marks(shown, study.EXPONENTIALS)] * ("turns" in shown.techniques):
        assert all(before.end <= after.start + 1e-12 for before, after in pairwise(row))
    copies = {name: marks(shown, name) for name in ("K", "V")}
    for lane, tile in enumerate(in_flight(shown), 2):
        own = [mark for mark in shown.block.marks if mark.lane == lane]
        found = [mark for mark in own if mark.operation == study.MAXIMUM]
        weights = [mark for mark in own if mark.operation == study.EXPONENTIALS]
        scores, outputs = marks(shown, QK[tile]), marks(shown, PV[tile])
        for visit, row in enumerate(zip(scores, found, weights, outputs, strict=True)):
            assert all(before.end <= after.start + 1e-12 for before, after in pairwise(row))
            assert len({mark.key_block for mark in row}) == 1
            for name, mark in (("K", row[0]), ("V", row[3])):
                assert copies[name][visit].key_block == mark.key_block
                assert copies[name][visit].end <= mark.start + 1e-12
        freed = zip(outputs, scores[1:], strict=False)
        assert all(output.end <= later.start + 1e-12 for output, later in freed)
        rescaled = [mark for mark in own if mark.operation == study.OWN]
        rescaled = rescaled or marks(shown, study.CORRECTION)[lane - 2 :: len(in_flight(shown))]
        visits = shown.block.visits
        assert len(rescaled) == visits - 1
        needed = zip(rescaled, outputs[1:visits], strict=True)
        assert all(mark.end <= out.start + 1e-12 for mark, out in needed)


def test_a_buffer_is_filled_again_only_when_its_last_product_is_done(shown):
    """Of 224 KiB, beside Q and O, by hand; a pair's blocks keep half of each."""
    problem, count = shown.block.experiment.problem, len(in_flight(shown))
    rows = 128 * count
    held = rows * problem.head_dim * 2 * (1 if problem.head_dim > 128 else 2)
    stages = max(2, (224 * 1024 - held) // (128 * problem.head_dim * 2))
    stages *= 2 if "pairs" in shown.techniques else 1
    copies = marks(shown, "K", "V")
    users = [marks(shown, each[in_flight(shown)[-1]]) for each in (QK, PV)]
    done = [mark.end for both in zip(*users, strict=True) for mark in both]
    assert all(copy.start + 1e-12 >= freed for copy, freed in zip(copies[stages:], done, strict=False))


def test_the_pace_is_that_of_the_unit_that_has_most_to_do():
    """By hand at d 128, clocks: products at a share of 8,173 FLOPs a clock; 16 exponentials a clock."""
    reached = GPUS["b200"].reached.matrix
    product = 2 * 128**3 / (reached * 2250e12 / 148 / CLOCK)
    operation = 128 * 128 * CLOCK / GPUS["b200"].issued_per_second  # 128 threads a clock, as that lasts
    unit = 128 * 128 / 16
    weights = unit * (1 - 24 / 128) + 2 * operation
    for values, without, expected in (
        ({}, set(), 4 * product),  # tensor cores
        ({}, {"polynomials"}, 3 * operation + unit + 2 * product),  # a tile's own chain
        ({"head_dim": 64}, set(), 2 * weights),  # the exponentials of both tiles
        ({}, {"tiles"}, operation + weights + 2 * product),
        ({}, {"turns"}, operation + 2 * weights + 4 * product),
        ({"hardware": "b300"}, {"polynomials"}, 4 * product),  # as many exponentials a clock, twice
    ):
        block = variant(WIDE.changed(**values), ALL - without).block
        assert block.period * CLOCK == pytest.approx(expected), (values, without)


def test_rate_and_shares_follow_from_the_pace():
    found = variant(WIDE)
    flops = 148 * 2 * 4 * 128**3 / found.block.period
    assert found.tflops == pytest.approx(flops / 1e12)
    assert found.of_peak == pytest.approx(flops / 2250e12)
    # Q, and half of K and V as a pair has them, 128 bytes a clock; all of them without; P by way of it too
    for techniques, kib in ((ALL, 64), (ALL - {"pairs"}, 96), (ALL - {"memory"}, 160)):
        one = variant(WIDE, techniques)
        tiles = len(in_flight(one))
        assert one.shared_busy == pytest.approx(tiles * kib * 1024 / 128 / (one.block.period * CLOCK))


@pytest.mark.parametrize(("key", "rows"), [("", 512), ("pairs", 256), ("tiles", 128), ("memory", 128)])
def test_k_and_v_are_asked_for_once_for_all_queries_in_flight(key, rows):
    read = variant(WIDE, ALL - {key}).requested.read
    tensors = {tensor.name: amount for tensor, amount in read.items() if amount}
    assert tensors == {"Q": 2**24, "K": 2**24 * 4096 // rows, "V": 2**24 * 4096 // rows}
    if rows == 256:
        assert read == simulate(study.on_blackwell(WIDE)).traffic.requested.read


def test_pairs_are_for_no_mask_and_few_head_dims_and_other_gpus_show_a_b200():
    for off in ({"causal": True}, {"window": 100}, {"head_dim": 64}, {"seq": 256}):
        assert "pairs" not in variant(WIDE.changed(**off)).techniques
    assert variant(WIDE.changed(hardware="rtx5090")).block.experiment.hardware == "b200"
    assert variant(WIDE.changed(hardware="b300")).block.experiment.hardware == "b300"
    assert study.sensible(WIDE, ALL - {"memory"}) == {"correction", "threshold", "polynomials"}


def test_what_was_published_stands_beside_the_same():
    tflops, of_peak, over_second, clocks = study.beside_published()
    assert list(clocks.values()) == pytest.approx([1024, 1024, 768], rel=0.003)  # arXiv 2603.05451
    assert 0.55 < of_peak < 0.71  # published: 71% at best
    assert tflops == pytest.approx(of_peak * 2250)
    assert 1.5 < over_second < 2.7


def test_what_a_tour_asks_is_what_the_lanes_and_the_heads_give():
    narrow = WIDE.changed(head_dim=64, hardware="b200")
    asked = {name: answer(name, narrow).value for name in ("product_clocks", "exponential_clocks")}
    clocks = {"product_clocks": 4 * 64 * 128**2 / 8192, "exponential_clocks": 1024}
    assert asked == pytest.approx(clocks, rel=0.003)
    periods = {key: variant(narrow, ALL - {key}).block.period for key in ("tiles", "polynomials", "")}
    assert answer("two_tiles_gain", narrow).value == pytest.approx(2 * periods["tiles"] / periods[""])
    assert answer("polynomials_gain", narrow).value == pytest.approx(periods["polynomials"] / periods[""])
    heads = rescales(narrow.changed(algorithm="flash4", heads=2, kv_heads=2))
    few = narrow.changed(heads=2, kv_heads=2)
    assert answer("maxima_rise", few).value == pytest.approx(sum(each.rises for each in heads) / 2)
    assert answer("threshold_rescales", few).value == pytest.approx(sum(each.rescaled for each in heads) / 2)
