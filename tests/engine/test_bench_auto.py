"""Benches of a GPU: what auto takes against the fastest, and what the cache delivers."""

import re
import sys
from functools import partial
from math import inf
from types import SimpleNamespace

import pytest
import torch

import kernels
from engine.measuring import bench_kernels, bench_models
from engine.measuring.bench import Bench
from engine.measuring.clock import Repeats
from engine.measuring.implementations import Implementation, _dao_ailab, implementations
from engine.measuring.machine import Machine
from engine.problem.problem import Mask, Problem
from engine.recordings.timing import Times, Timing

ONCE = Repeats(1, 1, 0)
DECODING = Problem(16, 32, 8, 1, 4096, 128, "float16", Mask())


class Timed:
    """A contest that gives the same times for every problem."""

    def __init__(self, **microseconds):
        self.microseconds = microseconds

    def timings(self, problem):
        def times(one):
            return one and Times(one * 1e-6, one * 1e-6, one * 1e-6, 8)

        return [
            Timing(name, name, "forward", problem, times(one), skipped=None if one else "out of memory")
            for name, one in self.microseconds.items()
        ]


def test_a_choice_is_held_against_the_fastest_that_ran():
    rows = Timed(flash2=240.0, flash3=150.0, split_kv=60.0).timings(DECODING)
    assert bench_kernels.slowdown("flash3", rows) == pytest.approx(2.5)
    assert bench_kernels.slowdown("split_kv", rows) == 1
    rows = Timed(flash2=240.0, flash3=150.0, split_kv=None).timings(DECODING)
    assert bench_kernels.slowdown("flash3", rows) == 1


def test_a_line_says_the_shape_the_choice_and_all_times(capsys):
    contest = Timed(flash2=240.0, flash3=150.0, split_kv=60.0)
    assert bench_kernels.run_auto(contest, [DECODING], lambda problem: "flash3") == 1
    first, mean, _ = capsys.readouterr().out.splitlines()
    shape = "batch 16 heads 32/8 d 128 queries 1 keys 4096 no mask auto flash3 x2.50"
    assert " ".join(first.split()) == f"{shape} split_kv 60.0 flash3 150.0 flash2 240.0"
    assert mean == "auto takes x2.500 of the fastest one's time on average, at most x2.50"


def test_a_choice_that_did_not_run_fails(capsys):
    assert bench_kernels.run_auto(Timed(flash2=240.0, flash3=None), [DECODING], lambda problem: "flash3") == 1
    assert "auto flash3 xinf" in (said := capsys.readouterr().out)
    assert "flash3: out of memory" in said


def test_choices_near_the_fastest_pass():
    contest = Timed(flash2=80.0, flash3=60.0, split_kv=60.0)
    assert bench_kernels.run_auto(contest, [DECODING, DECODING], lambda problem: "flash2") == 0


def test_the_problems_have_one_query_and_many_and_heads_that_share_keys():
    problems = bench_kernels.auto_problems()
    assert len(set(problems)) == len(problems) == 60
    assert any(p.seq_q == 1 and p.kv_heads < p.heads and p.batch > 1 for p in problems)
    assert any(p.seq_q == p.seq_kv and p.batch == 1 for p in problems)


def test_what_the_cache_delivers_is_said_by_size(monkeypatch, capsys):
    rates = {"L2, 64 the same": [(2**23, 6.75e12)]}
    monkeypatch.setattr(bench_kernels, "machine", lambda: Machine("NVIDIA H200", True, {}, "", True))
    monkeypatch.setattr(bench_kernels.calibrate, "Bench", lambda: SimpleNamespace(cache=lambda: rates))
    assert bench_kernels.main(["--cache"]) == 0
    said = "NVIDIA H200: 8 MiB, L2, 64 the same: 6.75 TB/s, 50% of its preset's peak\n"
    assert capsys.readouterr().out == said
    monkeypatch.setattr(bench_kernels, "machine", lambda: Machine("a CPU", False, {}, "", True))
    assert bench_kernels.main(["--cache"]) == 2
    assert capsys.readouterr().err == "the cache of a GPU is measured on a GPU: there is none\n"


def test_a_line_of_a_model_says_who_was_timed_and_who_does_not_serve_it():
    """Ours and a peer that gives the same; one that is wrong is not timed, one that refuses says why."""
    mask = Mask(causal=True, documents=(20, 12))
    problem = Problem(1, 2, 1, 32, 32, 16, "float32", mask, softcap=30.0, sinks=True)
    wrong = Implementation("wrong", "wrong", lambda q, k, v, problem: lambda: torch.zeros_like(q))
    peers = [implementations()[name] for name in ("flash2", "sdpa_cudnn", "fa3")]
    bench = Bench(Machine("a CPU", False, {}, "", True), [bench_models.OURS, *peers, wrong], inf, ONCE)
    assert re.fullmatch(
        r"two documents +x\S+ +ours \d+  flash2 \d+  "
        r"fa3: flash_attn_interface is not installed  wrong: not timed, because its "
        r"result is wrong: it is off by .*  ours backward \d+",
        bench_models.line("two documents", problem, bench),
    )


def test_packages_of_flash_attention_are_called_as_they_take_it(monkeypatch):
    """Packed sequences as one, with the edges between them; windows, caps and sinks by their own names."""
    given = []

    def packed(q, k, v, **how):
        given.append({name: each for name, each in how.items() if "cu_seqlens" not in name})
        assert how["cu_seqlens_q"].tolist() == how["cu_seqlens_k"].tolist() == [0, 20, 32]
        whole = [each[None].transpose(1, 2) for each in (q, k, v)]
        out, _ = kernels.reference_attention(*whole, documents=[20, 12], window=(7, 2), softcap=30.0)
        return out[0].transpose(0, 1), None

    monkeypatch.setitem(sys.modules, "fake", SimpleNamespace(flash_attn_varlen_func=packed))
    fake = Implementation("fake", "fake", partial(_dao_ailab, "fake"))
    problem = Problem(
        1, 2, 1, 32, 32, 16, "float32", Mask(window=8, ahead=2, documents=(20, 12)), softcap=30.0
    )
    (row,) = Bench(Machine("a CPU", False, {}, "", True), [fake], inf, ONCE).timings(problem)
    assert row.times
    longest = dict.fromkeys(("max_seqlen_q", "max_seqlen_k"), 20)
    assert given[0] == {"causal": False, "window_size": (7, 2), "softcap": 30.0, **longest}
