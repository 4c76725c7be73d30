"""The FlashAttention-3 page: techniques can be switched off, and every number says where it is from."""

import re

import pytest

from app.figures.units import bytes_range_text, bytes_text, seconds_text
from app.inside import payload
from app.page.parts import hopper
from engine import simulate
from engine.experiment import Experiment
from engine.problem.problem import Mask, Problem
from engine.recordings.file import recordings
from engine.recordings.timing import Fp8Timing, Times
from engine.studies.techniques import ALL, TECHNIQUES, recorded_kernels, variant, without
from engine.studies.warp_groups import inside
from tests.app.player.test_player_payload import unpack
from tests.app.worker_page import words

KEYS = list(TECHNIQUES)


def pills(app):
    return app.button_group(key="flash3_techniques_hopper")


def metrics(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def test_everything_is_on_at_first_and_the_page_says_what_is_modelled(open_app):
    app = open_app("flash3", seq="4096", head_dim="128")
    assert not app.exception
    assert set(pills(app).value) == set(KEYS)
    assert all(label.split(", ")[1] in ("modelled", "counted") for label in metrics(app))
    assert "(modelled)" in app.header[0].value


def test_the_loop_keeps_the_units_busy_for_their_work_over_its_period(open_app):
    """192 x 128 scores of d 64 per key block: 4 d FLOP each, 4,096 per clock of the SM's tensor cores."""
    (said,) = [each.value for each in open_app("flash3").caption if "In steady state" in each.value]
    period = float(re.search(r"one key block takes ([\d.]+) µs", said)[1]) * 1e-6
    share = 192 * 128 * 4 * 64 / (4096 * 0.98 * 1.83e9) / period
    tensor, softmax = map(int, re.search(r"busy for (\d+)% and the softmax units for (\d+)%", said).groups())
    assert tensor == pytest.approx(100 * share, abs=1)
    assert softmax > 100 * 192 * 128 / (16 * 0.98 * 1.83e9) / period  # their exponentials alone


def test_the_headline_has_the_time_beside_that_in_turns_and_claims_no_gain_where_there_is_none(open_app):
    for seq, gains in (("4096", True), ("64", False)):
        app = open_app("flash3", seq=seq, head_dim="128")
        experiment = Experiment.of(seq=int(seq), head_dim=128)
        now, apart = (
            seconds_text(variant(experiment, which).seconds) for which in (ALL, without("overlapped"))
        )
        assert (now != apart) == gains
        said = app.header[0].value
        assert (f"tensor cores: {now}, not {apart} (modelled)." in said) == gains
        assert (f"tensor cores: {now} (modelled), no less than in turns." in said) != gains


def test_switching_a_technique_off_says_what_happens_and_what_else_has_nothing_to_do(open_app):
    app = open_app("flash3", seq="4096", head_dim="128")
    before = metrics(app)
    pills(app).set_value([key for key in KEYS if key != "queries"]).run()
    assert not app.exception
    said = words(app)
    assert "Without queries outside, in parallel: As in FlashAttention-1, key blocks" in said
    assert "softmax under products need queries outside, in parallel, so they are off" in said
    assert metrics(app)["Tensor cores busy in the loop, modelled"] == "–"
    assert metrics(app)["Time, modelled"] != before["Time, modelled"]
    assert metrics(app)["Requested from L2, counted"] != before["Requested from L2, counted"]
    pills(app).set_value([key for key in KEYS if key not in ("specialised", "overlapped")]).run()
    said = words(app)
    assert "Without persistent blocks, a copying warp:" in said
    assert "Without softmax under products:" in said
    assert "The kernel Triton Flash 2 does exactly this." in said


def test_bytes_that_the_model_is_not_sure_of_have_a_range(open_app):
    """Its kernel's own, as on Traffic; a variant's where something is off; none far from L2's edge."""

    def said(app) -> str:
        return " ".join(each.value for each in app.caption if "sure only within a range" in each.value)

    edge = {"seq": 16384, "head_dim": 128, "heads": 8, "causal": True}
    app = open_app("flash3", **{key: str(value).lower() for key, value in edge.items()})
    own = simulate(Experiment.of(algorithm="flash3", **edge)).traffic.dram_range
    whole = f"FlashAttention-3 {bytes_range_text(*own.total)}."
    assert said(app).endswith(f"sure only within a range: {whole}")
    pills(app).set_value([key for key in KEYS if key != "queries"]).run()
    experiment = Experiment.of(**edge)
    ends = bytes_range_text(*variant(experiment, without("queries")).traffic.dram_range.total)
    assert ends not in whole
    assert said(app).endswith(f"range: these techniques {ends}, {whole}")
    assert said(open_app("flash3", seq="4096", head_dim="128")) == ""


def test_all_techniques_off_is_unfused_attention(open_app):
    app = open_app("flash3", seq="4096", head_dim="128")
    pills(app).set_value([]).run()
    assert not app.exception
    standard = simulate(Experiment.of(algorithm="standard", seq=4096, head_dim=128))
    assert metrics(app)["Time, modelled"] == seconds_text(standard.modelled.seconds)
    assert metrics(app)["Crosses HBM, modelled"] == bytes_text(standard.traffic.dram.total)
    assert app.header[0].value.startswith(f"Unfused attention takes {metrics(app)['Time, modelled']}")


def test_recorded_kernels_have_their_medians():
    """16,384 tokens of 16 heads of d 128 at N 4,096, in the raw rows."""
    recording = recordings()[0]
    every = recorded_kernels(recording, Experiment.of(seq=4096, head_dim=128))
    rows = [row for row in every if row.stages is None]  # one without copies ahead is of the sweep
    assert len(rows) == len(every) - 1 == 4
    for row in rows:
        (timing,) = [
            each.times.p50
            for each in recording.timings
            if (each.provider, each.problem, each.direction) == (row.kernel, row.problem, "forward")
        ]
        cells = hopper.kernel_row(row, frozenset())
        assert cells["recorded"] == seconds_text(timing)
        assert cells["rate"] == f"{4 * 4 * 16 * 4096**2 * 128 / timing / 1e12:,.0f} TFLOP/s"


def test_fp8_is_listed_with_its_time_over_float16s_and_its_error():
    problem = Problem(1, 16, 16, 4096, 4096, 128, "float16", Mask())
    half, eighth = (Times(seconds, seconds, seconds, 5) for seconds in (1.25e-3, 1e-3))
    rows = [
        Fp8Timing("flash3", "", "forward", problem, half, relative_error=0.0003),
        Fp8Timing("fp8", "", "forward", problem, eighth, relative_error=0.04, numbers="block"),
    ]
    assert [[*row.values()] for row in hopper.fp8_cells(rows)] == [
        ["float16", "normal inputs", "1.25 ms", "110 TFLOP/s", "1.00", "0.03%"],
        ["FP8, scales by block", "normal inputs", "1 ms", "137 TFLOP/s", "1.25", "4.00%"],
    ]


def test_the_payload_holds_the_lanes_marks_in_seconds():
    block = inside(Experiment.of(seq=4096, head_dim=128), variant(Experiment.of(), ALL).pipeline)
    sent, _ = unpack(payload(block))
    assert sum(len(lane["marks"]) for lane in sent["lanes"]) == len(block.marks)
    assert max(mark[3] for lane in sent["lanes"] for mark in lane["marks"]) == sent["seconds"]


def test_each_left_out_technique_has_a_row_with_its_factor():
    experiment = Experiment.of(seq=4096, head_dim=128)
    full = variant(experiment, ALL)
    left = variant(experiment, without("overlapped"))
    row = hopper.worth_row(left, full, "overlapped")
    assert [*row.values()][:3] == ["Softmax under products", seconds_text(left.seconds), "1.21×"]
    unfused = simulate(experiment.changed(algorithm="standard")).traffic
    moved = hopper.worth_row(variant(experiment, without("fusion")), full, "fusion")
    assert moved["requested from L2, counted"] == bytes_text(unfused.requested.total)
    assert moved["crosses HBM, modelled"] == bytes_text(unfused.dram.total)
    tiling = hopper.worth_row(variant(experiment, without("tiling")), full, "tiling")
    assert tiling["time, modelled"] == "does not fit"
