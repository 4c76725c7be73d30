"""Several GPUs, modelled: formulas by hand, limits, a card's power; and what H200s were recorded to do."""

import json
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.algorithms import FORWARD
from engine.model.cluster import seconds
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.kernel import kernel_seconds, one_gpu_seconds
from engine.model.cluster.lanes import lanes
from engine.model.cluster.seconds import COMPUTING, KINDS, MERGING, NETWORK, PACKING, TAIL, TRANSFER, modelled
from engine.model.cluster.spread import ALL_TO_ALL, METHODS, RING, RING_SEND, Spread
from engine.problem.hardware import GPUS, LINKS
from engine.problem.problem import Mask, Problem
from engine.recordings.cluster import ONE, GpuMarks
from engine.recordings.file import CLUSTERS
from engine.recordings.recording import Recording
from engine.studies.several_gpus import (
    RECORDED,
    Held,
    Room,
    cluster_recordings,
    errors,
    held,
    over_gpus,
    recorded_lanes,
    runs_of,
)

REACHED = GPUS["h200"].reached
FULL, LEFT = REACHED.sustained_from, REACHED.sustained_clock
SECONDS = st.floats(1e-6, 100)
sustained, unsustained = REACHED.sustained, REACHED.unsustained
TOKENS = 32_768
PROBLEM = Problem(1, 16, 16, TOKENS, TOKENS, 128, "float16", Mask(causal=True))
SPREAD = Spread(PROBLEM, 2, RING, True)
EVERY = cluster_recordings(None)


def spread(tokens=131072, gpus=4, method="ring", causal=True, kv_heads=16, **more) -> Spread:
    """16 heads of 128 in float16 on H200s."""
    problem = Problem(1, 16, kv_heads, tokens, tokens, 128, "float16", Mask(causal))
    return Spread(problem, gpus, method, more.pop("zigzag", causal), **more)


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


@given(SECONDS, SECONDS)
def test_one_way_is_the_other_undone_and_more_work_takes_longer(one, other):
    assert unsustained(sustained(one)) == pytest.approx(one, rel=1e-9)
    assert sustained(unsustained(one)) == pytest.approx(one, rel=1e-9)
    assert sustained(min(one, other)) <= sustained(max(one, other))
    assert one <= sustained(one) <= one / LEFT * (1 + 1e-12)
    assert sustained(min(one, FULL)) == min(one, FULL)  # from then on a call has the clock that is left
    assert sustained(FULL + LEFT * one) == pytest.approx(FULL + one)


@pytest.mark.parametrize(("hardware", "dtype"), [("a100", "float16"), ("h200", "float32")])
def test_several_gpus_are_limited_where_one_is(hardware, dtype):
    """Neither is known to be: four share its work, and none takes less than a quarter."""
    problem = Problem(1, 16, 16, 2**17, 2**17, 128, dtype, Mask(causal=True))
    alone = kernel_seconds(problem, hardware, 2**17, 2**17, True)
    assert one_gpu_seconds(problem, hardware) == alone > 0.3
    assert modelled(Spread(problem, 4, hardware=hardware)).efficiency < 1.01


def of(gpus: int) -> list[Recording]:
    """The recordings of so many GPUs, the newest first."""
    return [one for one in EVERY if any(row.gpus == gpus for row in one.cluster)]


@pytest.mark.parametrize(("gpus", "rows", "half", "most"), [(4, 108, 0.06, 0.14), (2, 126, 0.05, 0.12)])
def test_the_model_is_as_near_to_several_gpus_as_is_told(gpus, rows, half, most):
    found = tuple(one for one in held(EVERY) if one.row.gpus == gpus)
    assert len(found) == rows
    assert (errors(found)[0] < half, errors(found)[1] < most) == (True, True)


def test_the_model_is_near_what_four_gpus_took():
    """Where it is off is known: the shortest calls, whose host takes as long as they."""
    found = held(tuple(of(4)))
    off = {method: np.median([abs(one.error) for one in forward(found, method)]) for method in (ONE, RING)}
    assert off[ONE] < 0.052
    assert off[RING] < 0.058
    assert max(abs(one.error) for one in found if one.row.times.median > 0.01) < 0.14
    far = [one for one in found if abs(one.error) > 0.16]
    assert {one.row.problem.seq_q for one in far} == {16_384}
    assert all(one.row.times.median < 0.004 for one in far)


def test_exchanged_heads_are_modelled_as_two_gpus_took():
    """Recorded by PyTorch's all-to-all over NCCL, whose kernels stand between packing and computing."""
    found = [one for one in held(EVERY) if one.row.provider == ALL_TO_ALL]
    assert {one.row.gpus for one in found} == {2}
    assert np.median([abs(one.error) for one in found]) < 0.03
    assert max(abs(one.error) for one in found) < 0.12
    assert all(one.one_gpu for one in found)  # also where another day's recording has it
    (lane,) = (
        one for one in of(2)[0].cluster_timelines if (one.provider, one.problem) == (ALL_TO_ALL, PROBLEM)
    )
    kinds = [KINDS[kind] for kind in lane.marks[0].kind]
    assert kinds[:9] == [PACKING, TRANSFER, PACKING] * 3
    assert kinds[9:13] == [COMPUTING, PACKING, TRANSFER, PACKING]  # then the same of lse


def forward(found: tuple[Held, ...], method: str) -> list[Held]:
    """A method's forward passes."""
    return [one for one in found if (one.row.provider, one.row.direction) == (method, FORWARD)]


def test_two_gpus_share_the_work_of_one_and_beat_pytorch_in_every_cell():
    cells = {}
    for row in (row for one in reversed(of(2)) for row in one.cluster if row.times):
        cells.setdefault((row.problem, row.direction), {})[row.provider] = row.times.median
    assert len(cells) == 32
    for (problem, _), times in cells.items():
        theirs = [seconds for name, seconds in times.items() if name.startswith("context_parallel")]
        assert times[RING] < 0.62 * times[ONE]
        assert bool(theirs) == problem.mask.causal
        assert all(times[RING] < 0.92 * seconds for seconds in theirs)


def raw(file: str) -> dict:
    """The file's own row of the ring over 32,768 tokens, read without the product's loader."""
    rows = json.loads((CLUSTERS / file).read_text())["cluster_timelines"]
    return next(row for row in rows if (row["provider"], row["problem"]["seq_q"]) == (RING, TOKENS))


@pytest.mark.parametrize(
    ("gpus", "file", "nanoseconds"), [(2, "h200x2-2026-11-27.json", 3_142_031), (4, "h200x4.json", 1_915_641)]
)
def test_recorded_lanes_are_the_files_events_in_their_rounds(gpus, file, nanoseconds):
    ring, sent = recorded_lanes(replace(SPREAD, gpus=gpus), EVERY)
    assert (ring.spread.method, sent.spread.method) == (RING, RING_SEND)
    assert ring.origin == of(gpus)[0].origin
    for gpu, marks in enumerate(raw(file)["marks"]):
        events = list(zip(marks["kind"], marks["start"], marks["length"], strict=True))
        own = [mark for mark in ring.marks if mark.gpu == gpu]
        calls = sorted((mark for mark in own if mark.kind == COMPUTING), key=lambda mark: mark.round)
        computing = [(start, start + length) for kind, start, length in events if kind == 0]
        assert [(mark.start, mark.end) for mark in calls] == [
            pytest.approx((start * 1e-9, end * 1e-9)) for start, end in computing
        ]
        assert [mark.owner for mark in calls] == [(gpu - number) % gpus for number in range(gpus)]
        copies = [mark for mark in own if mark.kind == TRANSFER]
        assert Counter(mark.round for mark in copies) == dict.fromkeys(range(1, gpus), 2)  # K and V
        assert all(mark.owner == (gpu - mark.round) % gpus for mark in copies)
        assert all(mark.end < calls[mark.round].start for mark in copies)
        assert [mark.kind for mark in own].count(PACKING) == 2
        assert all(mark.start > calls[-1].start for mark in own if mark.kind == MERGING)
    assert ring.seconds == pytest.approx(nanoseconds * 1e-9)


def test_recorded_rounds_compute_every_visible_chunk_once():
    ring, _ = recorded_lanes(SPREAD, EVERY)
    tiles = sorted(tile for mark in ring.marks for tile in mark.tiles)
    assert tiles == sorted((queries, keys) for queries in range(4) for keys in range(queries + 1))


def test_lanes_stand_beside_the_model_only_where_they_were_recorded():
    runs = runs_of(SPREAD, RECORDED, recordings=EVERY)
    assert [run.origin.split()[0] for run in runs] == ["modelled", "recorded", "recorded"]
    assert runs[1].one_gpu == pytest.approx(6.01e-3, rel=0.01)
    assert runs[0].seconds == pytest.approx(runs[1].seconds, rel=0.1)
    longer = replace(PROBLEM, seq_q=65_536, seq_kv=65_536)
    assert recorded_lanes(replace(SPREAD, problem=longer), EVERY) == ()
    assert recorded_lanes(replace(SPREAD, gpus=3), EVERY) == ()


def test_a_call_whose_rounds_cannot_be_told_is_not_drawn():
    recording = of(2)[0]
    alike = [
        (one.provider, one.problem, one.gpus) == (RING, PROBLEM, 2) for one in recording.cluster_timelines
    ]
    whole = recording.cluster_timelines[alike.index(True)]
    idle = replace(whole, marks=(GpuMarks((1,), (0,), (9,)), *whole.marks[1:]))
    drawn = replace(recording, cluster_timelines=(whole,))
    assert recorded_lanes(SPREAD, (drawn,))
    assert recorded_lanes(SPREAD, (replace(drawn, cluster_timelines=(idle,)),)) == ()
