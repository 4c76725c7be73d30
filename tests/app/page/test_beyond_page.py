"""The page Beyond: its topics by link, numbers that are the studies', and boxes within each picture."""

import json

import numpy as np
import pytest

from app.scenario.presets import first
from app.shapes.layer import level, of_times
from app.shapes.topics import PICTURES
from app.tour.pictures import MOVING
from engine.experiment import Experiment
from engine.layers.config import shipped
from engine.studies import block_scales, latents, selected_keys
from engine.studies.beyond import BITS, FILE, KEYS, LATENTS, STATE, recorded
from engine.studies.your_model import TAUGHT, layer_time
from tests.app.player.test_player_payload import unpack

SMALL = Experiment.of(seq=512, heads=4, kv_heads=2, head_dim=32, causal=True, hardware="a100")


DRAWN = PICTURES | {name: MOVING[name][1] for name in ("square", "cut", "warps", "slice", "bridge")}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_a_picture_places_every_box_in_each_of_its_frames(draw):
    for experiment in (SMALL, first("beyond")):
        header, arrays = unpack(draw(experiment))
        many = len(arrays["tones"])
        assert arrays["boxes"].shape == (len(header["frames"]) * many * 5,)
        boxes = arrays["boxes"].reshape(len(header["frames"]), many, 5).astype(float)
        drawn = boxes[boxes[..., 4] > 0]
        assert (drawn[:, :2] + drawn[:, 2:4] <= 65_535 * 1.001).all()  # within the picture
        assert all(np.abs(boxes[at] - boxes[at + 1]).max() for at in range(len(boxes) - 1))  # each step moves
        for frame in header["frames"]:
            assert frame["sentence"].endswith(".")
            assert all(len(fact) == 3 for fact in frame["facts"])


def test_a_layers_bars_are_as_long_as_they_take_and_its_curve_is_attentions_share():
    times = [layer_time(shipped(TAUGHT), tokens, "h200") for tokens in (1024, 65536)]
    header, arrays = unpack(of_times(times, ""))
    boxes = arrays["boxes"].reshape(2, -1, 5) / 65_535
    for at, drawn in zip(times, boxes, strict=True):
        wide = drawn[3:7, 2]  # of the rest and of attention, both ways
        seconds = np.array([at.rest, at.standard, at.rest, at.fast])
        assert wide == pytest.approx(seconds / (at.rest + at.standard), abs=0.004)
    for way, (_, points) in enumerate(header["lines"]):
        assert [y for _, y in points] == pytest.approx([level(at.shares[way]) for at in times])


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        (LATENTS, f"the time of {latents.groups_as_fast(SMALL.gpu):.3g} on an A100"),
        (KEYS, "computes less from 1,152 tokens on"),
        (BITS, f"{block_scales.error(SMALL, block_scales.NVFP4, block_scales.DRAWN):.1%} wrong"),
        (STATE, "It decodes faster from 257 tokens of cache on, or 2,049 that 8 heads share"),
    ],
)
def test_a_topics_headline_has_the_studys_number(open_app, topic, said):
    values = {"seq": "512", "heads": "4", "kv_heads": "2", "head_dim": "32", "causal": "true"}
    assert said in open_app("beyond", topic=topic, hardware="a100", **values).header[0].value


def test_a_link_opens_a_topic_and_a_press_leads_to_another(open_app):
    app = open_app("beyond", topic=KEYS)
    assert "chosen blocks" in app.header[0].value
    app.main.button_group[0].set_value(STATE).run()
    assert "Linear attention keeps a state" in app.header[0].value
    assert STATE in app.query_params["topic"]


def test_what_was_recorded_is_right_and_slower_and_faster_where_the_page_says():
    found = recorded()
    rows = json.loads(FILE.read_text())["selected"]
    assert len(rows) == len(found.decoded) + sum(map(len, found.prompts.values())) + len(found.pieces) - 1
    assert max(row["error"] for row in (*rows, *found.latents)) < 2e-3
    prompts = found.prompts[1]
    slower = [row["seq_kv"] for row in prompts if row["selected"]["p50"] > row["all"]["p50"]]
    faster = [row["seq_kv"] for row in prompts if row["selected"]["p50"] < row["all"]["p50"]]
    # the counted crossing of what is read lies between the recorded lengths on both sides of it
    assert (max(slower), min(faster)) == (8192, 16384)  # as the second tour says, too
    assert max(slower) < selected_keys.crossing("read") < min(faster)
    assert [row["block_kv"] for row in found.pieces] == [16, 32, 64, 128]
    assert all(row["latent"]["p50"] < row["grouped"]["p50"] for row in found.latents)
