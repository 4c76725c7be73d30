"""Across GPUs: what is sent to the browser is the modelled run, and the page's numbers are the model's."""

from dataclasses import replace

import numpy as np
import pytest

from app.across.payload import build
from app.figures.units import bytes_text, seconds_text, share_text
from engine import simulate
from engine.experiment import Experiment
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.seconds import KINDS, modelled
from engine.problem.hardware import GPUS
from engine.problem.problem import Problem
from engine.recordings.cluster import ClusterTimeline, GpuMarks
from engine.studies import several_gpus as studies
from engine.studies.several_gpus import ORDERS, WAYS, cluster_recordings, held, runs_of, spread_of
from tests.app.player.test_player_payload import unpack
from tests.app.worker_page import html, opened, words


def runs(gpus: int = 4, beside: str = ORDERS, causal: bool = True):
    return runs_of(spread_of(Experiment.of(head_dim=128), 131072, gpus, causal, Fabric()), beside)


@pytest.mark.parametrize(("gpus", "beside"), [(4, ORDERS), (4, WAYS), (16, WAYS)])
def test_the_browser_gets_every_mark_of_every_run(gpus, beside):
    drawn = runs(gpus, beside)
    header, arrays = unpack(build(drawn))
    assert header["kinds"] == list(KINDS)
    assert all(len(set(colours)) == gpus for colours in header["owners"].values())  # in both themes
    assert len(header["runs"]) == len(drawn) == len({run["name"] for run in header["runs"]})
    for number, (run, about) in enumerate(zip(drawn, header["runs"], strict=True)):
        found = {name: arrays[f"run{number}.{name}"] for name in ("gpu", "end", "tileFrom", "tileKey")}
        assert len(found["gpu"]) == len(run.marks)
        np.testing.assert_allclose(found["end"] / 1e6, [mark.end for mark in run.marks], rtol=1e-6)
        assert found["tileFrom"][-1] == len(found["tileKey"])
        assert about["length"] == pytest.approx(run.seconds * 1e6)
        alone = {"causal": run.spread.problem.mask.causal, "head_dim": run.spread.problem.head_dim}
        one = Experiment.of(algorithm="flash3", seq=run.spread.problem.seq_q, **alone)
        assert about["oneGpu"] == pytest.approx(simulate(one).modelled.seconds * 1e6)
        assert about["efficiency"] == pytest.approx(about["oneGpu"] / gpus / about["length"])
        assert about["origin"] == "modelled"


def test_the_page_says_the_models_numbers_and_recorded_points_at_their_own_length_alone():
    page = opened("across", head_dim=128)
    (run, plain), said = runs(), words(page)
    alone = simulate(Experiment.of(algorithm="flash3", seq=131_072, head_dim=128, causal=True)).modelled
    assert f"one H200 {seconds_text(alone.seconds)}; 4 of them need" in page.header[0].value
    assert f"4 of them need {seconds_text(run.seconds)} (modelled)" in page.header[0].value
    assert run.seconds == pytest.approx(0.0246, rel=0.01)  # 25.4 ms recorded
    assert plain.seconds == pytest.approx(GPUS["h200"].reached.sustained(run.seconds * 7 / 4), rel=0.02)
    block = 2 * 16 * 131072 // 4 * 128 * 2
    assert f"one block of K and V ({bytes_text(block)})" in said
    four, two = (f"recorded on NVIDIA H200, 2026-11-2{day}" for day in (6, 7))
    assert f"Points were {four} and {two}: 16 heads of 128." in words(page)
    for tokens in (32768, 262144):  # more than one GPU's time over their number: at the second alone
        page.main.select_slider[1].set_value(tokens).run()
        assert "Points were" in words(page)
        assert ("Above 100%" in words(page)) == (tokens == 262144)
    page.main.select_slider[1].set_value(8192).run()
    assert "Points were" not in words(page)
    page.main.select_slider[0].set_value(16).run()
    assert "16 GPUs fill 2 hosts of 8" in words(page)


def test_efficiencies_are_one_gpus_time_over_that_of_all_modelled_and_recorded():
    spread, recorded = runs()[0].spread, held(cluster_recordings(None))
    for gpus, efficiency in studies.over_gpus(spread).items():
        one = modelled(replace(spread, gpus=gpus))
        assert efficiency == pytest.approx(one.one_gpu / one.seconds / gpus)
    points = studies.recorded_over_gpus(spread, recorded)
    assert points["ring"].keys() == {2, 4}
    ring = points["ring"][4]
    assert ring.efficiency == ring.one_gpu / 4 / ring.row.times.median
    assert share_text(ring.efficiency) == "108%"


def test_recorded_lanes_stand_beside_the_modelled_where_there_are_any(open_app):
    app = open_app("across", gpus="2", beside=studies.RECORDED, head_dim="128")
    said = words(app)
    assert "The lanes of 'Ring, recorded' and 'NCCL, recorded' were recorded on NVIDIA H200" in said
    assert shown(app)["beside"] == studies.RECORDED
    assert shown(open_app("across", gpus="3", beside=studies.RECORDED, head_dim="128"))["beside"] == ORDERS
    assert "gpus" not in open_app("traffic", gpus="16").query_params  # which is another page's to ask
    # an order makes no difference without a mask
    assert shown(open_app("across", mask="none", beside=ORDERS))["beside"] == "methods"


ASKED = {"gpus": "16", "tokens": "65536", "link": "NVLink 5", "mask": "none"}
ASKED |= {"pass": "backward", "beside": "ring"}


def shown(app) -> dict[str, str]:
    """What the page's own controls stand at."""
    sliders, buttons = app.main.select_slider, app.main.button_group
    values = [*(each.value for each in sliders), *(each.value for each in buttons)]
    return dict(zip(ASKED, map(str, values), strict=True))


def link_of(app) -> dict[str, str]:
    """The values in the address."""
    values = dict(app.query_params.items())
    return {name: value if isinstance(value, str) else value[0] for name, value in values.items()}


def test_a_link_restores_what_the_page_asks_and_every_control_writes_it(open_app):
    app = open_app("across", **ASKED)
    assert shown(app) == ASKED
    assert link_of(app).items() >= ASKED.items()
    assert "16 of them need" in app.header[0].value
    app.main.select_slider[0].set_value(8).run()
    app.main.select_slider[1].set_value(131072).run()
    link = link_of(app)
    assert link["gpus"] == "8"
    assert "tokens" not in link  # the usual ones
    again = open_app("across", **link)
    assert link_of(again) == link
    assert shown(again) == {**ASKED, "gpus": "8", "tokens": "131072"} == shown(app)


def test_memory_by_hand():
    """131,072 tokens of 16 heads of d 64."""
    one = 131_072 * 16 * (4 * 64 * 2 + 4)
    assert f"<td class='words'>One GPU</td><td>{bytes_text(one)}</td><td>0 B</td>" in html(opened("across"))


def test_what_gpus_send_over_nvlink_is_a_rate():
    marks = (GpuMarks((), (), (), (0, 31_250)), GpuMarks((), (), (), (62_500,)))
    found = studies.sent_over_time(ClusterTimeline("ring", "forward", Problem(), 2, marks, 1e-5))
    assert {name: [*at] for name, at in found.items()} == {"GPU 0": [0, 0.01], "GPU 1": [0]}
    assert [*found["GPU 0"].values(), *found["GPU 1"].values()] == pytest.approx([0, 100e9, 200e9])
