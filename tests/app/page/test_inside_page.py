"""Inside a block: techniques can be switched off, and every number says where it is from and of which GPU."""

import re

import pytest

from app import inside
from app.figures.units import bytes_text, seconds_text, share_text, times_text
from app.page import flash3
from engine import simulate
from engine.experiment import Experiment
from engine.problem.hardware import GPUS
from engine.studies.rescales import in_all, rescales
from engine.studies.techniques import ALL, TECHNIQUES, variant
from engine.studies.tensor_memory import ALL as WHOLE
from engine.studies.tensor_memory import TECHNIQUES as FOURTH
from engine.studies.tensor_memory import on_blackwell
from engine.studies.tensor_memory import variant as fourth
from tests.app.player.test_player_payload import unpack
from tests.app.worker_page import words

KEYS = list(TECHNIQUES)
WIDE = {"seq": "4096", "head_dim": "128"}


def pills(app, generation="hopper"):
    return app.button_group(key=f"flash3_techniques_{generation}")


def metrics(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


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
        times = (variant(experiment, which).seconds for which in (ALL, ALL - {"overlapped"}))
        now, apart = map(seconds_text, times)
        assert (now != apart) == gains
        said = app.header[0].value
        assert (f"tensor cores: {now}, not {apart} (modelled)." in said) == gains
        assert (f"tensor cores: {now} (modelled), no less than in turns." in said) != gains


def test_switching_a_technique_off_says_what_happens_and_what_else_has_nothing_to_do(open_app):
    app = open_app("flash3", seq="4096", head_dim="128")
    before = metrics(app)
    pills(app).set_value([key for key in KEYS if key != "queries"]).run()
    said = words(app)
    assert "Without queries outside, in parallel: As in FlashAttention-1, key blocks" in said
    assert "What rests on that is off too: fewer non-matrix operations, asynchronous copies" in said
    assert metrics(app)["Tensor cores busy in the loop, modelled"] == "–"
    assert metrics(app)["Time, modelled"] != before["Time, modelled"]
    assert metrics(app)["Requested from L2, counted"] != before["Requested from L2, counted"]
    pills(app).set_value([key for key in KEYS if key not in ("specialised", "overlapped")]).run()
    said = words(app)
    assert "Without persistent blocks, a copying warp:" in said
    assert "Without softmax under products:" in said
    pills(app).set_value([key for key in KEYS if key != "online"]).run()
    assert "The kernel Triton Flash 2 does exactly this." in said
    pills(app).set_value([]).run()
    standard = simulate(Experiment.of(algorithm="standard", seq=4096, head_dim=128))
    assert metrics(app)["Time, modelled"] == seconds_text(standard.modelled.seconds)
    assert metrics(app)["Crosses HBM, modelled"] == bytes_text(standard.traffic.dram.total)
    assert app.header[0].value.startswith(f"Unfused attention takes {metrics(app)['Time, modelled']}")


def opened(open_app, **values):
    app = open_app("flash3", generation="blackwell", **WIDE | values)
    return app


def test_an_old_link_opens_hoppers_block_and_the_choice_is_in_the_address(open_app):
    app = open_app("flash3", **WIDE)
    assert app.header[0].value.startswith("In FlashAttention-3 one warp group")
    assert "generation" not in app.query_params
    (choice,) = [each for each in app.button_group if "FlashAttention-4 on Blackwell" in each.options]
    choice.set_value("blackwell").run()
    assert app.query_params["generation"] == "blackwell"
    assert app.header[0].value.startswith("In FlashAttention-4 one warp issues all products")


def test_everything_is_on_at_first_on_blackwell_and_says_what_is_modelled_of_which_gpu(open_app):
    app = opened(open_app)
    assert set(pills(app, "blackwell").value) == set(FOURTH)
    assert all(re.search(r"modelled|counted", label) for label in metrics(app))
    assert "on a B200 (modelled)" in app.header[0].value
    assert "A B200 is shown: an H200 has no tensor memory." in words(app)
    assert metrics(app)["Rate in the loop, modelled"] == f"{2250 * GPUS['b200'].reached.matrix:,.0f} TFLOP/s"
    assert "A B300" not in words(opened(open_app, hardware="b300"))
    pills(app, "blackwell").set_value([key for key in FOURTH if key != "polynomials"]).run()
    assert "Without part of the exponentials by polynomials: All exponentials go through" in words(app)
    experiment = Experiment.of(seq=4096, head_dim=128)
    left, full = (fourth(experiment, each) for each in (WHOLE - {"polynomials"}, WHOLE))
    assert metrics(app)["Rate in the loop, modelled"] == f"{left.tflops:,.0f} TFLOP/s"
    assert times_text(left.tflops, full.tflops) in app.header[0].value


def test_what_a_mask_forbids_is_not_offered(open_app):
    app = opened(open_app, causal="true")
    assert "pairs" not in pills(app, "blackwell").options
    assert "none share K and V here" in words(app)
    (table,) = [each for each in app.get("html") if "What each technique is worth" in each.value]
    assert "Two blocks share K and V" not in table.value


def test_the_fold_says_how_often_the_scenarios_heads_rescale(open_app):
    app = opened(open_app, seq="512", heads="2", kv_heads="2")
    app.session_state["fold rescales"] = True
    app.run()
    found = rescales(on_blackwell(Experiment.of(seq=512, heads=2, head_dim=128)))
    shown = in_all(found)
    assert f"rises at {share_text(shown[0])} of the key blocks after a row's first." in words(app)
    assert f"rescaled at {share_text(shown[1])} of them" in words(app)
    assert all(each.rescaled < each.rises for each in found)


@pytest.mark.parametrize("techniques", [WHOLE, WHOLE - {"tiles"}, frozenset()], ids=len)
def test_every_mark_has_a_row_in_its_lane(techniques):
    block = fourth(Experiment.of(seq=4096, head_dim=128), techniques).block
    sent, _ = unpack(inside.payload(block))
    for lane in sent["lanes"]:
        assert {sent["operations"][mark[0]]["row"] for mark in lane["marks"]} <= set(lane["rows"])
    assert sum(len(lane["marks"]) for lane in sent["lanes"]) == len(block.marks)


def test_phones_and_the_site_show_the_generation_that_is_asked_for():
    first, second = flash3.PICTURE.files("flash3")
    lanes = [unpack(one.draw().data)[0]["lanes"] for one in (first, second)]
    assert list(map(len, lanes)) == [3, 5]
    asked, _ = unpack(flash3._drawn(Experiment.of(), generation="blackwell").data)
    assert asked["lanes"][1]["name"] == "tensor cores"
