"""What Python and the browser both need is written down once, and reaches the browser in the header."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.canvas.tables import palettes, steps_tables
from app.figures.colours import DARK, LIGHT
from app.player import backward, payload
from engine.algorithms import flash2
from engine.experiment import Experiment
from engine.model.launch import schedule_of
from engine.schedule.step import Operation, Tensor
from engine.schedule.traits import Leaves, Rows, traits
from tests.app.test_player_payload import unpack

APP = Path(__file__).resolve().parents[3] / "app"
SCRIPTS = sorted(APP.rglob("*.js"))
HEX = re.compile(r"#[0-9a-f]{6}\b", re.IGNORECASE)
ALGORITHM = re.compile(r"standard\b|flash-?(?:attention-)?\d|split_kv", re.IGNORECASE)


def test_every_operation_and_tensor_has_a_name_at_the_place_of_its_number():
    tables = steps_tables()
    assert [tables["operations"][operation] for operation in (Operation.LOAD, Operation.QUERY_GRADIENT)] == [
        *("load", "query_gradient")
    ]
    assert [tables["tensors"][tensor] for tensor in (Tensor.Q, Tensor.D_S, Tensor.LSE_LOG2)] == [
        *("Q", "dS", "lse")
    ]
    assert (len(tables["operations"]), len(tables["tensors"])) == (len(Operation), len(Tensor))


@pytest.mark.parametrize(("name", "palette"), [("dark", DARK), ("light", LIGHT)])
def test_the_canvas_has_the_figures_colours(name, palette):
    sent = palettes()[name]
    for tensor in ("Q", "K", "V", "S", "P", "O", "lse"):
        assert sent[tensor] == palette.tensor(tensor)
    assert (sent["dK"], sent["dP"], sent["statistics"]) == (palette.k, palette.s, palette.statistics)
    assert (sent["ground"], sent["panel"], sent["line"]) == (palette.ground, palette.panel, palette.grid)
    assert set(filter(None, steps_tables()["tensors"])) <= set(sent)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(APP)))
def test_no_script_holds_a_palette_or_an_algorithms_name(script):
    source = script.read_text("utf-8")
    colours = set(HEX.findall(source.lower())) - {"#ffffff"}  # white: the page's ground where none is told
    assert not colours
    if script.parent.name in ("player", "gpu", "canvas"):
        code = re.sub(r"^\s*(?://|/?\*).*$", "", source, flags=re.MULTILINE)
        assert not ALGORITHM.findall(code)


def test_the_header_carries_the_tables_and_what_each_run_is_called():
    for block, names in (
        (payload.build(Experiment.of()), ["standard", "FlashAttention-1", "FlashAttention-2"]),
        (backward.build(Experiment.of()), ["the backward pass"]),
    ):
        header, _ = unpack(block)
        assert [run["title"] for run in header["runs"].values()] == names
        assert header["palettes"] == palettes()
        assert header["operations"] == steps_tables()["operations"]


def like(algorithm: str, **values):
    return traits(schedule_of(Experiment.of(algorithm=algorithm, seq=256, **values)))


def test_what_an_algorithm_is_like_is_found_in_its_schedule():
    standard, flash1, flash2_, backward_ = map(like, ("standard", "flash1", "flash2", "backward"))
    assert [each.rows for each in (standard, flash1, flash2_, backward_)] == [
        *(Rows.WHOLE, Rows.ONLINE, Rows.ONLINE, Rows.GRADIENTS)
    ]
    assert [each.rewrites for each in (standard, flash1, flash2_, backward_)] == [False, True, False, False]
    assert [phase.leaves for phase in standard.phases] == [Leaves.SCORES, Leaves.WEIGHTS, Leaves.ALL]
    assert [phase.leaves for phase in backward_.phases] == [Leaves.NOTHING, Leaves.PART, Leaves.ALL]
    assert [phase.gathers for phase in standard.phases] == [False, False, True]
    assert not any(phase.carries for phase in (*standard.phases, *flash1.phases))
    assert flash2_.phases[0].carries
    assert standard.phases[2].loads == (Tensor.P, Tensor.V)


def test_only_unfused_attention_computes_what_the_mask_hides():
    assert like("standard", causal=True).visits_hidden
    assert not like("standard").visits_hidden  # there is nothing hidden
    assert not any(like(name, causal=True).visits_hidden for name in ("flash1", "flash2", "backward"))


def test_an_algorithm_that_nobody_knew_is_told_by_its_schedule():
    problem = Experiment.of(seq=256, causal=True)
    schedule = flash2.schedule(problem.problem, problem.tiling)
    assert traits(schedule) == like("flash2", causal=True)
