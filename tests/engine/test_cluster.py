"""Several GPUs, modelled: formulas by hand, limits; what a card's power limit leaves in long calls."""

import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.cluster import seconds
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.kernel import kernel_seconds, one_gpu_seconds
from engine.model.cluster.lanes import lanes
from engine.model.cluster.seconds import (
    COMPUTING,
    NETWORK,
    PACKING,
    TAIL,
    TRANSFER,
    modelled,
)
from engine.model.cluster.spread import METHODS, Spread
from engine.problem.hardware import GPUS, LINKS
from engine.problem.problem import Mask, Problem
from engine.studies.several_gpus import (
    Room,
    over_gpus,
)


def spread(tokens=131072, gpus=4, method="ring", causal=True, kv_heads=16, **more) -> Spread:
    """16 heads of 128 in float16 on H200s."""
    problem = Problem(1, 16, kv_heads, tokens, tokens, 128, "float16", Mask(causal))
    return Spread(problem, gpus, method, more.pop("zigzag", causal), **more)


REACHED = GPUS["h200"].reached
FULL, LEFT = REACHED.sustained_from, REACHED.sustained_clock


def limited(seconds: float) -> float:
    """What so many at the first clock become: after a while a card holds a share of it."""
    return min(seconds, FULL) + max(0.0, seconds - FULL) / LEFT


def unlimited(seconds: float) -> float:
    """The other way round."""
    return min(seconds, FULL) + max(0.0, seconds - FULL) * LEFT


def test_a_ring_is_its_rounds_by_hand():
    one = spread(gpus=4, causal=False)
    n = 131072 // 4
    alone = kernel_seconds(one.problem, "h200", n, n, False)
    computing = limited(4 * alone) / 4
    transfer = 15e-6 + 2 * 16 * n * 128 * 2 / (0.7778 * 450e9)
    row = 16 * n * 128 * 2  # bytes of a GPU's Q, K, V or O; K and V are read and written, then published
    around = (2 * 2 + 5) * row / (0.7292 * 4.8e12)
    expected = 4 * computing + 4 * TAIL + around
    assert transfer < computing
    assert modelled(one).seconds == pytest.approx(expected, rel=1e-6)
    slow = replace(one, fabric=Fabric(peak=2e9))
    exposed = 3 * (15e-6 + 2 * 16 * n * 128 * 2 / (2e9 * 0.7778))
    assert modelled(slow).seconds == pytest.approx(computing + exposed + 4 * TAIL + around, rel=1e-6)

    by_nccl = modelled(replace(one, method="ring_send")).seconds  # whose transfers come between calls
    exposed = 3 * (20e-6 + 2 * row / (0.53 * 450e9))
    assert by_nccl == pytest.approx(expected + exposed, rel=1e-6)


def test_exchanged_heads_are_their_steps_by_hand():
    """Q, K and V there, O back; of each the half that another GPU computes goes over the link."""
    one = spread(gpus=2, method="all_to_all")
    row = 16 * (131072 // 2) * 128 * 2
    half = replace(one.problem, heads=8, kv_heads=8)
    alone = limited(kernel_seconds(half, "h200", 131072, 131072, True))
    sent = sum(20e-6 + tensors * row / 2 / (0.53 * 450e9) for tensors in (3, 1))
    copied = (2 * 3 + 2 * 3 + 2 * 1) * row / (0.27 * 4.8e12)  # before it is sent, into order, and O
    gathered = 2 * row / (0.7292 * 4.8e12)
    assert modelled(one).seconds == pytest.approx(alone + TAIL + sent + copied + gathered, rel=1e-6)
    plain = lanes(spread(gpus=2, method="all_to_all", causal=False))
    assert sum(mark.kind == PACKING for mark in plain.marks) == 2 * 2  # nothing is put in order


def test_a_cluster_of_one_is_one_gpu():
    for method in METHODS[:4]:
        found = modelled(spread(gpus=1, method=method))
        assert found.seconds == found.one_gpu == one_gpu_seconds(found.spread.problem, "h200")
        assert found.efficiency == 1


@pytest.mark.parametrize("gpus", [2, 4, 8, 64])
def test_plain_order_wastes_the_idle_half(gpus):
    """No round is shorter than a whole block: G / (2 G - 1) of the work of G GPUs at most, at one clock."""
    plain, zigzag = (
        modelled(spread(gpus=gpus, zigzag=each, fabric=Fabric(host=64))) for each in (False, True)
    )
    efficiency = unlimited(plain.one_gpu) / (gpus * unlimited(plain.seconds))
    assert efficiency < gpus / (2 * gpus - 1) * 1.03  # kernels of whole blocks run a little faster
    assert zigzag.efficiency > plain.efficiency


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gpus", [2, 16])
def test_lanes_last_as_long_as_the_model_says(method, gpus, backward):
    for causal, zigzag in ((True, True), (True, False), (False, False)):
        one = spread(32768, gpus, method, causal, zigzag=zigzag)
        if one.unserved is None:
            found = lanes(one, backward)
            last = max(mark.end for mark in found.marks)
            assert found.seconds - 2 * TAIL <= last * (1 + 1e-9)  # of gathered keys, after the last calls
            assert last <= found.seconds * (1 + 1e-9)


def test_lanes_compute_every_visible_chunk_once_and_never_before_its_keys_are_here():
    for method, zigzag in (("ring", True), ("ring", False), ("ring_send", True), ("two_level", True)):
        one = spread(65536, 16, method, fabric=Fabric(host=8 if method == "two_level" else 16), zigzag=zigzag)
        found = lanes(one)
        computing = [mark for mark in found.marks if mark.kind == COMPUTING]
        chunks = one.order.chunks
        tiles = sorted(tile for mark in computing for tile in mark.tiles)
        visible = [(i, j) for i in range(chunks) for j in range(i + 1)]
        assert tiles == visible
        arrived = {
            (mark.gpu, mark.owner, mark.round): mark.end
            for mark in found.marks
            if mark.kind in (TRANSFER, NETWORK)
        }
        for mark in computing:
            if mark.owner != mark.gpu:
                assert arrived[mark.gpu, mark.owner, mark.round] <= mark.start * (1 + 1e-9)
        first, other = seconds.computing(one)
        spent = sum(mark.end - mark.start for mark in computing if mark.gpu == 15)  # sees keys of all
        assert spent == pytest.approx(first + 15 * other, rel=1e-9)


def test_ten_thousand_gpus_take_less_than_a_second():
    """A tenth of one: 130,000 calls, which are the same on any machine."""
    calls = Counter()
    sys.setprofile(lambda frame, event, _: calls.update([event]))
    try:
        flat, hosts = (over_gpus(spread(10**8, 4, method))[10_000] for method in ("ring", "two_level"))
    finally:
        sys.setprofile(None)
    assert calls["call"] + calls["c_call"] < 400_000
    assert flat == pytest.approx(0.216 / LEFT, abs=0.01)  # the network has its own pace
    assert hosts == pytest.approx(0.87, abs=0.01)


def test_memory_and_the_longest_context_are_a_formula():
    one = spread(gpus=4)
    row = 16 * 128 * 2  # bytes of a token in all heads
    per_token = (2 + 2 + 2 * 2 + 3 * 2 + 4) * row / 4 + 5 * 16 * 4 / 4  # of which 4 + 6 are others' keys
    room = Room.of(one)
    assert room.bytes[0] == pytest.approx(131072 * per_token)
    assert room.longest == int(GPUS["h200"].memory_bytes / per_token)
    assert Room.of(spread(gpus=8)).longest > room.longest
    assert Room.of(spread(gpus=1)).longest == int(GPUS["h200"].memory_bytes / (4 * row + 16 * 4))


def test_what_is_not_modelled_is_refused():
    packed = Problem(seq_q=64, seq_kv=64, mask=Mask(documents=4))
    for wrong in (lambda: Spread(packed, 2), lambda: spread(gpus=0), lambda: spread(method="spiral")):
        with pytest.raises(ValueError, match=r"spread problem|gpus is 0|method is 'spiral'"):
            wrong()
    assert "do not divide 16 heads" in spread(gpus=3, method="all_to_all").unserved


def test_a_link_counts_one_direction_of_its_lanes():
    """NVLink 3: 12 links of 25 GB/s, 4: 18 of 25, 5: 18 of 50; PCIe: 16 lanes of 16 and of 32 GT/s."""
    expected = [16 * 16 / 8, 400 / 8, 16 * 32 / 8, 12 * 25, 18 * 25, 18 * 50]
    assert list(LINKS.values()) == pytest.approx([1e9 * rate for rate in expected])
    assert (Fabric().peak, Fabric().network) == (LINKS["NVLink 4"], LINKS["InfiniBand, 400 Gbit/s"])


SECONDS = st.floats(1e-6, 100)
sustained, unsustained = REACHED.sustained, REACHED.unsustained


@given(SECONDS, SECONDS)
def test_one_way_is_the_other_undone_and_more_work_takes_longer(one, other):
    assert unsustained(sustained(one)) == pytest.approx(one, rel=1e-9)
    assert sustained(unsustained(one)) == pytest.approx(one, rel=1e-9)
    assert sustained(min(one, other)) <= sustained(max(one, other))
    assert one <= sustained(one) <= one / LEFT * (1 + 1e-12)


def test_after_a_while_a_call_has_the_clock_that_is_left():
    assert [sustained(each) for each in (0.01, FULL)] == [0.01, FULL]
    assert sustained(FULL + LEFT) == pytest.approx(1 + FULL)


@pytest.mark.parametrize(("hardware", "dtype"), [("a100", "float16"), ("h200", "float32")])
def test_several_gpus_are_limited_where_one_is(hardware, dtype):
    """Neither is known to be: four share its work, and none takes less than a quarter."""
    problem = Problem(1, 16, 16, 2**17, 2**17, 128, dtype, Mask(causal=True))
    alone = kernel_seconds(problem, hardware, 2**17, 2**17, True)
    assert one_gpu_seconds(problem, hardware) == alone > 0.3
    assert modelled(Spread(problem, 4, hardware=hardware)).efficiency < 1.01
