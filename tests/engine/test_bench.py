"""The bench: nothing wrong is timed, what cannot be done is foreseen, and failures are sentences."""

from dataclasses import replace

import pytest

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring import bench, clock
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.implementations import Implementation, implementations
from engine.measuring.machine import Machine
from engine.problem.problem import Mask, Problem, Tiling
from engine.recordings.timing import Times, Timing
from engine.worker.jobs import JobError

FAST = clock.Repeats(2, 2, 0.0)
TINY = Problem(1, 2, 2, 32, 32, 16, "float16", Mask(causal=True))


@pytest.fixture(autouse=True)
def needs_torch():
    pytest.importorskip("torch")


def bench_of(*entered: Implementation) -> Bench:
    machine = Machine("a CPU", cuda=False, versions={}, l2="", has_triton=True)
    return Bench(machine, list(entered), LONGEST_RECORDED, FAST, FAST)


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
def test_what_is_wrong_is_not_timed(direction):
    import torch

    right = implementations()["eager"].prepare
    wrong = Implementation("wrong", "wrong", lambda q, k, v, p: right(q, k, 1.1 * v, p), backward=True)
    row = bench_of(wrong).timings(TINY, direction)[0]
    assert row.skipped.startswith("not timed, because its result is wrong: it is off by")
    assert torch.is_grad_enabled()


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


def test_a_call_that_fails_is_a_sentence_and_the_others_are_timed(monkeypatch):
    monkeypatch.setattr(bench, "SLOW", 60.0)  # a busy machine takes long even for this
    one = failing(RuntimeError("No available kernel. Aborting execution."))
    row, eager = bench_of(one, implementations()["eager"]).timings(TINY)
    assert row.skipped == "this backend of PyTorch does not take such a problem on this machine"
    assert eager.times.repeats == eager.alone.repeats == 2
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
    rows = replace(bench_of(eager, sdpa), alone=None).timings(TINY)
    assert groups == [["sdpa"], ["eager"]]
    assert all(row.times and row.alone is None for row in rows)


def test_a_kernel_takes_the_blocks_that_are_asked():
    given = []

    def prepare(q, k, v, problem, **options):
        given.append(options)
        return implementations()["eager"].prepare(q, k, v, problem)

    one = Implementation("flash2", "flash2", prepare, ours=True, takes_blocks=True)
    bench_of(one, replace(one, name="split_kv", takes_blocks=False)).timings(TINY, tiling=Tiling(16, 32))
    assert given == [{"block_q": 16, "block_kv": 32}, {}]
