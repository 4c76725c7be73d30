"""The bench: nothing wrong is timed, what cannot be done is foreseen, and failures are sentences."""

import re
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

import kernels
from engine.algorithms import BACKWARD, FORWARD
from engine.measuring import bench_kernels, clock
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.implementations import Implementation, _dao_ailab, implementations
from engine.measuring.machine import Machine
from engine.problem.problem import Mask, Problem, Tiling
from engine.recordings.timing import Times, Timing
from engine.worker.jobs import JobError

FAST = clock.Repeats(2, 2, 0.0)
TINY = Problem(1, 2, 2, 32, 32, 16, "float16", Mask(causal=True))


@pytest.fixture(autouse=True)
def needs_torch():
    return pytest.importorskip("torch")


def bench_of(*entered: Implementation) -> Bench:
    machine = Machine("a CPU", cuda=False, versions={}, l2="", has_triton=True)
    return Bench(machine, list(entered), LONGEST_RECORDED, FAST)


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
def test_what_is_wrong_is_not_timed(direction, needs_torch):
    right = implementations()["eager"].prepare
    wrong = Implementation("wrong", "wrong", lambda q, k, v, p: right(q, k, 1.1 * v, p), backward=True)
    row = bench_of(wrong).timings(TINY, direction)[0]
    assert row.skipped.startswith("not timed, because its result is wrong: it is off by")
    assert needs_torch.is_grad_enabled()


def test_memory_and_time_that_are_not_there_are_foreseen(monkeypatch):
    eager = implementations()["eager"]
    here = bench_of(eager)
    here.remember([Timing("eager", "", "forward", TINY, Times(5.0, 5.0, 5.0, 1))])
    assert here.timings(TINY)[0].skipped.startswith("would take about 5.0 s per call")
    monkeypatch.setattr(clock, "available_bytes", lambda cuda: 10**9)
    row = here.timings(replace(TINY, heads=32, kv_heads=32, seq_q=32768, seq_kv=32768))[0]
    assert row.skipped == "out of memory: needs about 207.4 GB, may use 1.0 GB here"


def failing(error: Exception) -> Implementation:
    def prepare(*inputs):
        raise error

    return Implementation("failing", "failing", prepare)


def test_a_call_that_fails_is_a_sentence_and_the_others_are_timed():
    one = failing(RuntimeError("No available kernel. Aborting execution."))
    row, eager = bench_of(one, implementations()["eager"]).timings(TINY)
    assert row.skipped == "this backend of PyTorch does not take such a problem on this machine"
    assert eager.times.repeats == 2
    assert eager.tflops == pytest.approx(2 * 2 * 32**2 * 16 / eager.times.p50 / 1e12)


def test_a_gpu_that_fails_ends_it_all():
    with pytest.raises(JobError, match="the GPU failed: CUDA error: an illegal memory access"):
        bench_of(failing(RuntimeError("CUDA error: an illegal memory access"))).timings(TINY)


def test_what_takes_much_of_the_memory_is_timed_by_itself(monkeypatch):
    groups, interleaved = [], clock.interleaved

    def noted(calls, *rest):
        groups.append(list(calls))
        return interleaved(calls, *rest)

    monkeypatch.setattr(clock, "interleaved", noted)
    monkeypatch.setattr(clock, "available_bytes", lambda cuda: 10**5)  # of which the matrices take an eighth
    eager, sdpa = (implementations()[name] for name in ("eager", "sdpa"))
    rows = bench_of(eager, sdpa).timings(TINY)
    assert groups == [["sdpa"], ["eager"]]
    assert all(row.times for row in rows)


def test_a_kernel_takes_the_blocks_that_are_asked():
    given = []

    def prepare(q, k, v, problem, **options):
        given.append(options)
        return implementations()["eager"].prepare(q, k, v, problem)

    one = Implementation("flash2", "flash2", prepare, ours=True, takes_blocks=True)
    bench_of(one, replace(one, name="split_kv", takes_blocks=False)).timings(TINY, tiling=Tiling(16, 32))
    assert given == [{"block_q": 16, "block_kv": 32}, {}]


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


def test_a_line_says_the_shape_the_choice_and_all_times(capsys):
    contest = Timed(flash2=240.0, flash3=150.0, split_kv=60.0)
    assert bench_kernels.run_auto(contest, [DECODING], lambda problem: "flash3") == 1
    first, mean, _ = capsys.readouterr().out.splitlines()
    shape = "batch 16 heads 32/8 d 128 queries 1 keys 4096 no mask auto flash3 x2.50"
    assert " ".join(first.split()) == f"{shape} split_kv 60.0 flash3 150.0 flash2 240.0"
    assert mean == "auto takes x2.500 of the fastest one's time on average, at most x2.50"


def test_a_choice_that_did_not_run_fails_and_one_near_the_fastest_passes(capsys):
    assert bench_kernels.run_auto(Timed(flash2=240.0, flash3=None), [DECODING], lambda problem: "flash3") == 1
    said = capsys.readouterr().out
    assert ("auto flash3 xinf" in said, "flash3: out of memory" in said) == (True, True)
    contest = Timed(flash2=80.0, flash3=60.0, split_kv=60.0)
    assert bench_kernels.run_auto(contest, [DECODING, DECODING], lambda problem: "flash2") == 0


def test_a_line_of_a_model_says_who_was_timed_and_who_does_not_serve_it():
    """Ours and a peer that gives the same; one that is wrong is not timed, one that refuses says why."""
    mask = Mask(causal=True, documents=(20, 12))
    problem = Problem(1, 2, 1, 32, 32, 16, "float32", mask, softcap=30.0, sinks=True)
    wrong = Implementation("wrong", "wrong", lambda q, k, v, problem: lambda: 0 * q)
    peers = [implementations()[name] for name in ("flash2", "sdpa_cudnn", "fa3")]
    bench = bench_of(bench_kernels.OURS, *peers, wrong)
    assert re.fullmatch(
        r"two documents +x\S+ +ours \d+  flash2 \d+  "
        r"fa3: flash_attn_interface is not installed  wrong: not timed, because its "
        r"result is wrong: it is off by .*  ours backward \d+",
        bench_kernels.model_line("two documents", problem, bench),
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
    (row,) = bench_of(fake).timings(problem)
    assert row.times
    longest = dict.fromkeys(("max_seqlen_q", "max_seqlen_k"), 20)
    assert given[0] == {"causal": False, "window_size": (7, 2), "softcap": 30.0, **longest}
