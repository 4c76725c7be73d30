"""Inside a block, FlashAttention-4: its techniques can be switched off, and numbers say whose they are."""

import re

import pytest

from app import inside
from app.figures.units import share_text
from app.page import flash3
from app.page.parts import blackwell
from engine.experiment import Experiment
from engine.problem.hardware import GPUS
from engine.studies.rescales import in_all, rescales
from engine.studies.tensor_memory import ALL, TECHNIQUES, on_blackwell, variant
from tests.app.player.test_player_payload import unpack
from tests.app.worker_page import words

WIDE = {"seq": "4096", "head_dim": "128"}


def opened(open_app, **values):
    app = open_app("flash3", generation="blackwell", **WIDE | values)
    assert not app.exception
    return app


def pills(app):
    return app.button_group(key="flash3_techniques_blackwell")


def metrics(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def test_an_old_link_opens_hoppers_block_and_the_choice_is_in_the_address(open_app):
    app = open_app("flash3", **WIDE)
    assert app.header[0].value.startswith("In FlashAttention-3 one warp group")
    assert "generation" not in app.query_params
    (choice,) = [each for each in app.button_group if "FlashAttention-4 on Blackwell" in each.options]
    choice.set_value("blackwell").run()
    assert app.query_params["generation"] == "blackwell"
    assert app.header[0].value.startswith("In FlashAttention-4 one warp issues all products")


def test_everything_is_on_at_first_and_says_what_is_modelled_of_which_gpu(open_app):
    app = opened(open_app)
    assert set(pills(app).value) == set(TECHNIQUES)
    assert all(re.search(r"modelled|counted", label) for label in metrics(app))
    assert "on a B200 (modelled)" in app.header[0].value
    assert "A B200 is shown: an H200 has no tensor memory." in words(app)
    assert metrics(app)["Rate in the loop, modelled"] == f"{2250 * GPUS['b200'].reached.matrix:,.0f} TFLOP/s"
    assert "A B300" not in words(opened(open_app, hardware="b300"))


def test_switching_a_technique_off_says_what_happens_and_what_it_costs(open_app):
    app = opened(open_app)
    pills(app).set_value([key for key in TECHNIQUES if key != "polynomials"]).run()
    assert "Without part of the exponentials by polynomials: All exponentials go through" in words(app)
    left, full = (
        variant(Experiment.of(seq=4096, head_dim=128), each) for each in (ALL - {"polynomials"}, ALL)
    )
    assert metrics(app)["Rate in the loop, modelled"] == f"{left.tflops:,.0f} TFLOP/s"
    assert f"{left.tflops / full.tflops:.3f}×" in app.header[0].value


def test_what_a_mask_forbids_is_not_offered(open_app):
    app = opened(open_app, causal="true")
    assert "pairs" not in pills(app).options
    assert "none share K and V here" in words(app)
    assert [*blackwell.worth_row(None, variant(Experiment.of(causal=True)), "pairs").values()][
        1
    ] == "not here"


def test_what_was_tried_on_hopper_stands_beside_the_techniques_that_cost_there(open_app):
    full = variant(Experiment.of())
    rows = {key: blackwell.worth_row(full, full, key)["on Hopper, measured"] for key in TECHNIQUES}
    assert [key for key, told in rows.items() if "slower" in told] == ["threshold", "polynomials"]
    assert "On Hopper two of these cost more than they bring." in words(opened(open_app))


def test_published_figures_have_a_source_each():
    rows = blackwell.published()
    assert all(row["source"] in (blackwell.PAPER, blackwell.KERNEL, blackwell.AUTHORS) for row in rows)
    assert rows[0]["published"] == "1,613 TFLOP/s, 71% of peak"


def test_the_fold_says_how_often_the_scenarios_heads_rescale(open_app):
    app = opened(open_app, seq="512", heads="2", kv_heads="2")
    app.session_state["fold rescales"] = True
    app.run()
    found = rescales(on_blackwell(Experiment.of(seq=512, heads=2, head_dim=128)))
    shown = in_all(found)
    assert f"rises at {share_text(shown[0])} of the key blocks after a row's first." in words(app)
    assert f"rescaled at {share_text(shown[1])} of them" in words(app)
    assert all(each.rescaled < each.rises for each in found)


@pytest.mark.parametrize("techniques", [ALL, ALL - {"correction"}, ALL - {"tiles"}, frozenset()], ids=len)
def test_every_mark_has_a_row_in_its_lane(techniques):
    block = variant(Experiment.of(seq=4096, head_dim=128), techniques).block
    sent, _ = unpack(inside.payload(block))
    for lane in sent["lanes"]:
        assert {sent["operations"][mark[0]]["row"] for mark in lane["marks"]} <= set(lane["rows"])
    assert sum(len(lane["marks"]) for lane in sent["lanes"]) == len(block.marks)


def test_phones_and_the_site_show_the_generation_that_is_asked_for():
    first, second = flash3.PICTURE.files()
    lanes = [unpack(one.draw().data)[0]["lanes"] for one in (first, second)]
    assert list(map(len, lanes)) == [3, 5]
    asked, _ = unpack(flash3._drawn(Experiment.of(), generation="blackwell").data)
    assert asked["lanes"][1]["name"] == "tensor cores"
