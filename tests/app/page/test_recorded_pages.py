"""Recordings on the pages: with GPU and date, apart from the model, and absent where there is none."""

from dataclasses import replace

import pytest

from app.figures.colours import palette
from app.figures.units import bytes_text
from engine.measuring.trial import training_problem
from engine.problem.problem import Mask, Problem
from engine.recordings.counters import recorded_counters
from engine.recordings.recording import Counters, Device, KernelCounters, Recording
from engine.recordings.timing import Times, Timing
from tests.app.worker_page import html, opened, unfolded, words

COLOURS = palette(False)
DEVICE = Device("NVIDIA H200", "580.95", {"torch": "2.11.0"}, {}, 150 * 10**9, "abc", "2026-11-21T09:00:00")
PROBLEM = Problem(1, 16, 16, 1024, 1024, 64, "float16", Mask())


def timing(provider: str, seq: int, seconds: float | None, direction: str = "forward") -> Timing:
    of = provider, provider, direction, training_problem(seq, 64, False)
    if seconds is None:
        return Timing(*of, skipped="out of memory")
    times = Times(0.9 * seconds, seconds, 1.2 * seconds, 9)
    return Timing(*of, times, times, 1e-4, 4e-4)


def counters_of(
    provider: str, tile: float, dram=7e6, written=1e6, left=1e6, problem=PROBLEM, blocks=(64, 64), **shares
) -> Counters:
    """Bytes from L2 and from DRAM, those that DRAM was sent, and those that L2 was."""
    kernel = KernelCounters("a_kernel", "1", 1e-3, dram, written, tile, left, **shares)
    return Counters(provider, "forward", problem, *blocks, kernels=(kernel,))


def counted(*rows: Counters) -> Recording:
    return Recording(DEVICE, counters=rows)


RECORDING = Recording(
    DEVICE,
    timings=(
        *(timing("eager", 128 * n, seconds) for n, seconds in ((1, 1e-3), (2, 2e-3), (4, None))),
        *(timing("flash2", 128 * n, seconds) for n, seconds in ((1, 2e-3), (2, 1e-3), (4, 1e-3))),
        timing("flash2", 128, 3e-3, "backward"),
    ),
    counters=(counters_of("flash2", 3.775e7), counters_of("flash1", 6e7), counters_of("sdpa_flash", 1e7)),
)


@pytest.fixture
def put(monkeypatch, own_worker):
    """A function (*recordings) that lays them, and no others, on the shelf."""

    def put(*recordings: Recording) -> None:
        for name in ("app.sidebar.recording", "app.page.agreement"):
            monkeypatch.setattr(f"{name}.recordings", lambda: recordings)

    return put


def test_the_speed_page_says_what_was_recorded_and_what_counters_saw_beside_the_models_bound(put):
    put(RECORDING)
    page = opened("speed")
    said = words(page)
    assert "**Recorded on NVIDIA H200, 2026-11-21**: forward, d = 64, no mask, float16" in said
    assert "16k tokens in all, hidden size 2,048" in said
    for metric in ("tflops", "p50"):
        page.segmented_control(key="speed_metric").set_value(metric)
        said = words(page.run())
    assert "Dotted lines are modelled for this shape" in said
    assert "shares out its last tiles among all SMs" in said
    assert "**Bottleneck (modelled)**: " in said
    assert "Nsight counters for this scenario, recorded on NVIDIA H200, 2026-11-21, as a share of" in said
    assert "L2's peak is 13.5 TB/s (measured at the SMs of an H200" in said
    put(counted(counters_of("flash2", 3.8e7, tensor_percent=41.4, sm_percent=97.0)))
    page = opened("speed", seq=2048)
    assert "<td>41%</td></tr>" in html(page)
    assert "tail: SMs idle" in html(page)
    assert "Nearest: the model of the recorded scenario nearest to this one, FlashA" in words(page)


def test_nothing_recorded_is_shown_as_nothing(put):
    put()
    said = words(opened("speed"))
    assert "Nothing was recorded for this shape." in said
    assert "ecorded on" not in said
    assert "counters" not in words(opened("agreement"))
    assert "on the chip" not in words(opened("traffic"))
    assert "takes" not in words(opened("gpu"))


def test_a_fold_says_how_far_the_model_is_off_by_kind_of_call(put):
    put(RECORDING)
    page = unfolded(opened("agreement"), "agreement model errors")
    one, other = (abs(each.modelled_seconds / 1e-3 - 1) for each in recorded_counters(RECORDING))
    half, most = (one + other) / 2, max(one, other) - 0.05 * abs(one - other)
    assert "<th scope='col'>H200, median</th>" in html(page)
    assert f"time under the profiler</td><td>2</td><td>{half:.1%}</td><td>{most:.1%}</td>" in html(page)
    assert "checked on" not in words(page)
    other = unfolded(opened("agreement", hardware="b200"), "agreement model errors")
    assert "Nothing modelled was ever checked on a B200" in words(other)


def test_the_traffic_page_sets_the_chips_bytes_beside_the_models(put):
    put(RECORDING)
    page = opened("traffic")
    assert "N 1,024, heads 16, d 64, blocks 64×64**, recorded on NVIDIA H200" in words(page)
    (one, _) = recorded_counters(RECORDING)
    requested = one.simulation.traffic.requested
    cells = (bytes_text(amount) for amount in (requested.total_read, requested.total_written))
    cells = "".join(f"<td>{cell}</td>" for cell in cells)
    assert f"requested by tiles, counted by the scheduler</td>{cells}" in html(page)
    between = bytes_text(one.simulation.from_l2), bytes_text(requested.total_written)
    assert f"between L2 and the SMs, modelled</td><td>{between[0]}</td><td>{between[1]}</td>" in html(page)
    assert "DRAM, recorded</td><td>7 MB</td><td>1 MB</td>" in html(page)
    assert "The same bytes on the chip" not in words(opened("traffic", algorithm="standard"))


def test_bytes_that_a_chip_sampled_stand_on_traffic_where_there_was_no_ncu(put):
    whole = KernelCounters("all kernels", "", 1e-4, 6.3e6, 2.1e6)
    put(replace(RECORDING, counters=(replace(RECORDING.counters[0], kernels=(whole,), sampled=True),)))
    page = opened("traffic")
    assert "The chip sampled itself, as there was no Nsight Compute" in words(page)
    assert "DRAM, recorded</td><td>6.3 MB</td><td>2.1 MB</td>" in html(page)
    assert "between L2 and the SMs, recorded" not in html(page)


@pytest.mark.parametrize(("page", "direction"), [("speed", "forward"), ("backward", "backward")])
def test_a_shape_of_which_nothing_ran_is_no_fault(put, page, direction):
    rows = tuple(timing("flash2", seq, None, direction) for seq in (128, 256))
    put(replace(RECORDING, device=replace(DEVICE, gpu="a small GPU"), timings=rows))
    opened(page)
