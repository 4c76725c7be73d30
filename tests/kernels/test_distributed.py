"""Attention over several ranks, processes over gloo, held against float64 on the whole sequence."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from distributed_cases import EVERY, dense_combine

from kernels.call.call import Call
from kernels.dispatch.dispatch import chosen
from kernels.distributed import choice, shard
from kernels.distributed.combine import Piece, combine
from kernels.distributed.layout import Layout, planned

SCRIPT = Path(__file__).parent / "distributed_ranks.py"


SETS = ("4:results", "2:others", "1:around", "4:silent")
BESIDE = [sys.executable, SCRIPT, *SETS]  # one process that imports torch once, and forks


@pytest.fixture(scope="module")
def ranks(beside):
    """A function (set) that gives what each rank of it found.

    Half a minute of CPU: four ranks compute every case, each against float64 on the whole sequence.
    """
    found = json.loads(beside(__name__))

    def of(name: str) -> list[dict]:
        for each in found[name]:
            assert "failed" not in each, each["failed"]
        return found[name]

    return of


def worst(found: list[dict], name: str) -> float:
    """The largest error of any rank's results, 1 being what the dtype allows; NaN counts as much."""
    return max(error for each in found for error in each[name].values())


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_four_ranks_agree_with_float64(case, ranks):
    assert worst(ranks("4:results"), case.name) < 1


@pytest.mark.parametrize("name", ["kernels-causal-ring", "kernels-window"])
def test_the_kernels_themselves_on_two_ranks(name, ranks):
    assert worst(ranks("2:others"), name) < 1


def test_unshard_gives_back_what_shard_took_apart_and_a_device_mesh_serves_for_its_group(ranks):
    assert all(each["round trips"] and each["by mesh"] for each in ranks("2:others"))


def test_the_compiler_and_checkpointing_go_around_it(ranks):
    (found,) = ranks("1:around")
    assert found == {"compiled": True, "checkpointed": True}


SENTENCES = {
    "dtype": "^ValueError: the ranks differ in dtype: float32 on rank 0; float16 on rank 1; it must",
    "causal": "^ValueError: the ranks differ in causal: False on rank 0; True on rank 1;",
    "window": "^ValueError: the ranks differ in window: 4 on rank 0; 5 on rank 1;",
    "gradient": "^ValueError: the ranks differ in whether a gradient is asked for: False on rank 0; True on",
    "tokens": "^ValueError: rank 0 holds 6 of 13 tokens, it must hold 7 in zigzag order on 2 ranks, as shard",
    "one rank's error": "^ValueError: rank 1: k is float16 and q is float32, they must be alike$",
    "method": "^ValueError: rank 0: method is 'spiral', it must be one of auto, ring, ring_send, all_gather,",
    "heads": "^ValueError: method is 'all_to_all': all_to_all gives each rank whole heads, and 2 ranks do",
    "unshard": r"^ValueError: t is \(1, 2, 6, 8\) torch.float32, \(1, 2, 5, 8\) torch.float32 on the ranks",
    "unshard with gradient": "^ValueError: t requires grad, which unshard does not give",
    "few tokens": "^ValueError: t has 3 tokens, it must have at least 4 for 2 ranks$",
    "explain": r"^all_to_all runs by send and receive: tokens are sent for .*; copy engines are a GPU's",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_every_rank_is_told_the_same_before_anything_is_sent(name, ranks):
    said = [each["sentences"][name] for each in ranks("2:others")]
    assert re.search(SENTENCES[name], said[0]), said[0]
    assert len(set(said)) == 1


def test_without_copy_engines_a_sentence_names_the_method_that_runs(ranks):
    for each in ranks("2:others"):
        (sentence,) = each["sentences"]["no copy engines"]
        assert sentence.startswith("ring runs as ring_send: copy engines are a GPU's")


def test_a_lost_rank_is_an_error_in_a_set_time(ranks):
    for each in ranks("4:silent")[:3]:
        assert re.match(r"(RuntimeError|DistBackendError|DistNetworkError): ", each["silent"]), each["silent"]
        assert float(re.search(r"\(([\d.]+) s\)$", each["silent"])[1]) < 100  # usually it waits for 120 s


def test_without_a_process_group_the_way_to_one_is_named():
    with pytest.raises(
        RuntimeError, match=r"^torch\.distributed is not initialised: start the ranks with torchrun"
    ):
        shard(torch.ones(1, 1, 8, 8), causal=True)


# ---------------------------------------------------------------- one process


@pytest.mark.parametrize("tokens", [8, 9, 37, 64])
@pytest.mark.parametrize("zigzag", [False, True])
def test_ranks_hold_every_token_once(tokens, zigzag):
    layout = Layout(tokens, 4, zigzag)
    held = [t for span, _ in layout.owners for t in range(span.start, span.stop)]
    assert held == list(range(tokens))
    assert sum(map(layout.rows, range(4))) == tokens
    assert layout.most_rows - min(map(layout.rows, range(4))) <= 2


def moved(layout, causal, window, ring):
    """Rows that a plan sends from rank to rank, and back."""
    rounds = planned(layout, 0, causal, window, ring, 1).rounds
    there = sum(t.rows for each in rounds for t in each.transfers if t.source != t.target)
    return there, sum(t.rows for each in rounds for t in each.returns)


def test_what_no_query_needs_is_not_sent():
    assert moved(Layout(4000, 4, False), False, 501, True) == (3 * 500, 3 * 500)
    assert moved(Layout(4000, 4, True), True, 101, True) == (6 * 100, 6 * 100)  # a 7th border is a rank's own
    later, earlier = 6 * 1000, 6 * 500
    assert moved(Layout(4000, 4, True), True, None, True) == (later + earlier, later + earlier)
    assert moved(Layout(4000, 4, False), False, None, True) == (12 * 1000, 12 * 1000)


def a_call(dtype, device) -> Call:
    q = torch.ones(2, 3, 20, 24, dtype=dtype, device=device)
    call, _ = chosen(q, q, q, False, None, None, "auto", None, None)
    return call


@pytest.mark.parametrize("weighed", [True, False])
@pytest.mark.parametrize(("count", "dtype"), [(1, torch.float32), (3, torch.bfloat16), (10, torch.float32)])
def test_parts_are_combined_as_float64_does(count, weighed, dtype, device):
    generator = torch.Generator().manual_seed(count)
    pieces = []
    for number in range(count):
        rows = 20 - number
        tensor = torch.randn(rows, 2, 3, 24, generator=generator).to(dtype).permute(1, 2, 0, 3)
        lse = torch.randn(2, 3, rows, generator=generator) if weighed else None
        if weighed and number:
            lse[..., ::5] = -torch.inf
        pieces.append(Piece(tensor.to(device), min(number, 7), lse if lse is None else lse.to(device)))
    out = torch.empty(2, 3, 22, 24, dtype=dtype, device=device)
    lse = torch.empty(2, 3, 22, device=device) if weighed else None
    combine(pieces, a_call(dtype, device), out, lse)
    right = torch.empty(2, 3, 22, 24, dtype=torch.float64)
    right_lse = torch.empty(2, 3, 22, dtype=torch.float64) if weighed else None
    dense_combine(
        [Piece(p.tensor.cpu(), p.row, p.lse if p.lse is None else p.lse.cpu()) for p in pieces],
        None,
        right,
        right_lse,
    )
    bound = 1e-5 if dtype == torch.float32 else 0.04
    assert (out.cpu().double() - right).abs().max() < bound
    assert (out[:, :, 21:] == 0).all()
    if weighed:
        assert torch.equal(lse[..., 21:].cpu(), torch.full((2, 3, 1), -torch.inf))
        assert (lse[..., :20].cpu() - right_lse[..., :20]).abs().max() < 1e-5


def test_auto_takes_what_was_fastest_on_four_gpus(device):
    q = torch.ones(1, 16, 1, 128, dtype=torch.float16, device=device)
    call = replace(chosen(q, q, q, True, None, None)[0], causal=True)
    layout = Layout(32768, 4, True)
    taken = {
        "ring": choice.fastest(layout, call, 2, True),
        "all_gather": choice.fastest(Layout(4096, 4, True), call, 2, True),
        "all_to_all": choice.fastest(layout, call, 2, False),
        "ring_send": choice.fastest(layout, replace(call, kv_heads=2), 2, False),
    }
    assert [method for method, _ in taken.values()] == list(taken)
    for copying, ring in ((True, "ring"), (False, "ring_send")):
        assert choice.fastest(layout, replace(call, window=500), 2, copying)[0] == ring
