"""Measuring: nothing wrong is timed, what cannot be done is foreseen, failures are sentences; masks' rows."""

import json
import re
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

import kernels
from engine.algorithms import ALGORITHMS, BACKWARD, FORWARD
from engine.experiment import Experiment
from engine.measuring import bench_kernels, clock, exact, sections
from engine.measuring.bench import LONGEST_RECORDED, Bench, interpreter_seconds
from engine.measuring.implementations import Implementation, _dao_ailab, implementations
from engine.measuring.machine import Machine
from engine.measuring.measure import (
    at_length,
    ladder,
    main,
    measured_rows,
    sizes,
    sweep,
    sweep_payload,
    this_bench,
)
from engine.measuring.sections import together
from engine.problem.bounds import field_flops, visible
from engine.problem.problem import Mask, Problem, Tiling
from engine.recordings.recording import Recording, identity
from engine.recordings.timing import Times, Timing, VariantTiming
from engine.studies.masks import beside, variant_costs
from engine.worker.jobs import JobError
from tests.engine.strategies import dense_mask
from tests.engine.test_recording import DEVICE

TINY = {"seq": 64, "heads": 2, "kv_heads": 1, "head_dim": 16, "block_q": 32, "block_kv": 32}
FAST = clock.Repeats(2, 2, 0.0)
SHORT = Problem(1, 2, 2, 32, 32, 16, "float16", Mask(causal=True))
DECODING = Problem(16, 32, 8, 1, 4096, 128, "float16", Mask())
EVERY = dict(zip((FORWARD, BACKWARD), together("variants", "direction"), strict=True))
PLAN = {way: [row for row in rows if row.provider == "flash2"] for way, rows in EVERY.items()}
ONCE = clock.Repeats(1, 1, 0.0)


@pytest.fixture
def bench(monkeypatch):
    pytest.importorskip("torch")
    for name in ("ON_CPU", "INTERPRETED"):
        monkeypatch.setattr(clock, name, FAST)
    return this_bench()


def by_provider(bench, experiment):
    return {row["provider"]: row for row in measured_rows(bench, experiment)}


@pytest.mark.parametrize(
    "values", [{"window": 5}, {"seq": 40, "seq_kv": 64, "causal": True}, {"seq_kv": 96}, {"documents": 3}]
)
def test_flops_follow_the_convention_of_the_field(values):
    """A square under a causal mask is a half; of other masks the visible pairs count."""
    square = Experiment.of(batch=2, heads=4, seq=128, head_dim=32)
    assert field_flops(square.problem) == 4 * 2 * 4 * 128 * 128 * 32
    assert field_flops(square.changed(causal=True).problem) == field_flops(square.problem) // 2
    problem = Experiment.of(**{"seq": 64, "heads": 1, **values}).problem
    assert field_flops(problem) == 4 * visible(problem).sum() * problem.head_dim


def test_a_sweep_holds_powers_of_two_and_the_scenario_and_a_ladder_foretells_long_calls():
    assert sizes(Experiment.of(seq=300), cuda=False) == [64, 128, 256, 300, 512, 1024, 2048]
    assert sizes(Experiment.of(seq=2**17), cuda=True)[-1] == 2**17
    assert (ladder(65536), ladder(200)) == ([256, 1024, 4096, 16384, 65536], [200])


def test_lengths_keep_the_proportion_of_queries_to_keys():
    assert at_length(Experiment.of(seq=100, seq_kv=200), 64).problem.seq_q == 32
    assert at_length(Experiment.of(seq=1, seq_kv=8192), 64).problem.seq_q == 1
    assert at_length(Experiment.of(seq=1, seq_kv=777), 2**20).problem.seq_q == 1, "decoding stays decoding"
    assert at_length(Experiment.of(seq=1), 64).problem.seq_q == 64


def test_scenarios_that_are_measured_alike_share_a_payload():
    experiment = Experiment.of(**TINY)
    assert sweep_payload(experiment) == sweep_payload(experiment.changed(algorithm="flash1", hardware="t4"))
    assert sweep_payload(experiment) != sweep_payload(experiment.changed(causal=True))


@pytest.mark.parametrize("values", [{"causal": True}, {"documents": "37:0:27", "window": "7:3"}])
def test_every_provider_of_this_machine_is_right_and_timed(bench, values):
    rows = by_provider(bench, Experiment.of(**TINY, **values))
    if not bench.cuda:
        assert rows["flash2"]["note"] == "interpreted: for correctness, not speed"
    assert rows["eager"]["note"] == ""
    assert {"standard", "flash1", "flash2", "eager"} <= set(rows)
    for row in rows.values():
        if row["skipped"] and row["provider"].startswith("sdpa_"):
            continue  # a backend of PyTorch need not take every mask
        assert row["skipped"] is None
        assert 0 < row["p20"] <= row["p50"] <= row["p80"]
        assert row["error"] <= row["allowed"] < 0.1
        assert row["tokens_per_second"] == pytest.approx(64 / row["p50"])
        assert row["versions"]["torch"]


def test_the_records_know_which_kernels_have_a_backward_pass():
    theirs = pytest.importorskip("kernels.algorithms").ALGORITHMS
    differentiable = {key for key, record in theirs.items() if record.differentiable}
    assert {one.kernel for one in ALGORITHMS.values() if one.differentiable} == differentiable


def test_what_the_interpreter_cannot_do_in_time_is_foreseen(bench):
    if bench.cuda:
        pytest.skip("this machine has a GPU")
    experiment = Experiment.of(seq=16384, heads=1)
    row = by_provider(replace(bench, implementations=[implementations()["flash2"]]), experiment)["flash2"]
    assert row["skipped"].startswith("would take about 4")
    largest = int(row["skipped"].split("N = ")[1].replace(",", ""))
    assert interpreter_seconds(at_length(experiment, largest)) <= 3
    assert interpreter_seconds(at_length(experiment, 2 * largest)) > 3


def test_no_triton_on_this_platform_is_a_sentence(bench):
    ours = [implementations()[name] for name in ("flash2", "eager")]
    without = replace(bench, machine=replace(bench.machine, has_triton=False), implementations=ours)
    rows = by_provider(without, Experiment.of(**TINY))
    assert rows["flash2"]["skipped"].startswith("no triton on this platform")
    assert rows["eager"]["skipped"] is None


def test_the_command_line_prints_json_rows(bench, capsys):
    main(["--algorithm", "flash2", "--seq", "32", "--heads", "1", "--head-dim", "16", "--json"])
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert err == "Measuring N = 32\n"
    assert {"flash2", "eager"} <= {row["provider"] for row in rows}
    assert not {"flash1", "standard"} & {row["provider"] for row in rows}
    assert all(row["keys"] == 32 for row in rows)


def test_an_algorithm_that_is_named_is_measured_or_says_why_not(bench):
    decoding = Experiment.of(seq=1, seq_kv=64, heads=2, head_dim=16)
    assert by_provider(this_bench("split_kv"), decoding)["split_kv"]["skipped"] is None
    long = by_provider(this_bench("split_kv"), decoding.changed(seq_kv=2**20))["split_kv"]
    assert bench.cuda or "in the interpreter; largest here is N = " in long["skipped"]
    skipped = by_provider(this_bench("flash3"), decoding)["flash3"]["skipped"]
    assert bench.cuda or skipped == "Triton's interpreter does not run it"


def test_a_sweep_gives_its_rows_as_they_come(bench):
    work = sweep(sweep_payload(Experiment.of(**TINY)))
    row = next(update.row for update in work if update.row)
    assert (row["keys"], row["skipped"]) == (64, None)


def bench_of(*entered: Implementation) -> Bench:
    pytest.importorskip("torch")
    machine = Machine("a CPU", cuda=False, versions={}, l2="", has_triton=True)
    return Bench(machine, list(entered), LONGEST_RECORDED, FAST)


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
def test_what_is_wrong_is_not_timed(direction):
    torch = pytest.importorskip("torch")
    right = implementations()["eager"].prepare
    wrong = Implementation("wrong", "wrong", lambda q, k, v, p: right(q, k, 1.1 * v, p), backward=True)
    row = bench_of(wrong).timings(SHORT, direction)[0]
    assert row.skipped.startswith("not timed, because its result is wrong: it is off by")
    assert torch.is_grad_enabled()


def test_memory_and_time_that_are_not_there_are_foreseen(monkeypatch):
    eager = implementations()["eager"]
    here = bench_of(eager)
    here.remember([Timing("eager", "", "forward", SHORT, Times(5.0, 5.0, 5.0, 1))])
    assert here.timings(SHORT)[0].skipped.startswith("would take about 5.0 s per call")
    monkeypatch.setattr(clock, "available_bytes", lambda cuda: 10**9)
    row = here.timings(replace(SHORT, heads=32, kv_heads=32, seq_q=32768, seq_kv=32768))[0]
    assert row.skipped == "out of memory: needs about 207.4 GB, may use 1.0 GB here"


def failing(error: Exception) -> Implementation:
    def prepare(*inputs):
        raise error

    return Implementation("failing", "failing", prepare)


def test_a_call_that_fails_is_a_sentence_and_a_gpu_that_fails_ends_it_all():
    one = failing(RuntimeError("No available kernel. Aborting execution."))
    row, eager = bench_of(one, implementations()["eager"]).timings(SHORT)
    assert row.skipped == "this backend of PyTorch does not take such a problem on this machine"
    assert eager.times.repeats == 2
    assert eager.tflops == pytest.approx(2 * 2 * 32**2 * 16 / eager.times.p50 / 1e12)
    with pytest.raises(JobError, match="the GPU failed: CUDA error: an illegal memory access"):
        bench_of(failing(RuntimeError("CUDA error: an illegal memory access"))).timings(SHORT)


def test_what_takes_much_of_the_memory_is_timed_by_itself(monkeypatch):
    groups, interleaved = [], clock.interleaved

    def noted(calls, *rest):
        groups.append([row.provider for row in calls])
        return interleaved(calls, *rest)

    monkeypatch.setattr(clock, "interleaved", noted)
    monkeypatch.setattr(clock, "available_bytes", lambda cuda: 10**5)  # of which the matrices take an eighth
    eager, sdpa = (implementations()[name] for name in ("eager", "sdpa"))
    rows = bench_of(eager, sdpa).timings(SHORT)
    assert groups == [["sdpa"], ["eager"]]
    assert all(row.times for row in rows)


def test_a_kernel_takes_the_blocks_that_are_asked():
    given = []

    def prepare(q, k, v, problem, **options):
        given.append(options)
        return implementations()["eager"].prepare(q, k, v, problem)

    one = Implementation("flash2", "flash2", prepare, ours=True, takes_blocks=True)
    bench_of(one, replace(one, name="split_kv", takes_blocks=False)).timings(SHORT, tiling=Tiling(16, 32))
    assert given == [{"block_q": 16, "block_kv": 32}, {}]


def auto(monkeypatch, choice: str, times: dict, calls: int = 1) -> int:
    """The exit code where so many calls take such times, µs, and `auto` makes a choice."""

    def timings(problem):
        for name, one in times.items():
            spent = one and Times(*[one * 1e-6] * 3, 8)
            yield Timing(name, name, FORWARD, problem, spent, skipped=None if one else "out of memory")

    monkeypatch.setattr(bench_kernels, "auto_choice", lambda problem: choice)
    return bench_kernels.run_auto(SimpleNamespace(timings=lambda one: [*timings(one)]), [DECODING] * calls)


def test_a_line_says_the_shape_the_choice_and_all_times(capsys, monkeypatch):
    """A choice that did not run fails, one near the fastest passes."""
    assert auto(monkeypatch, "flash3", {"flash2": 240.0, "flash3": 150.0, "split_kv": 60.0}) == 1
    first, mean, _ = capsys.readouterr().out.splitlines()
    shape = "batch 16 heads 32/8 d 128 queries 1 keys 4096 no mask auto flash3 x2.50"
    assert " ".join(first.split()) == f"{shape} split_kv 60.0 flash3 150.0 flash2 240.0"
    assert mean == "auto takes x2.500 of the fastest one's time on average, at most x2.50"
    assert auto(monkeypatch, "flash3", {"flash2": 240.0, "flash3": None}) == 1
    said = capsys.readouterr().out
    assert ("auto flash3 xinf" in said, "flash3: out of memory" in said) == (True, True)
    assert auto(monkeypatch, "flash2", {"flash2": 80.0, "flash3": 60.0, "split_kv": 60.0}, calls=2) == 0


def test_a_line_of_a_model_says_who_was_timed_and_who_does_not_serve_it():
    """Ours and a peer that gives the same; one that is wrong is not timed, one that refuses says why."""
    mask = Mask(causal=True, documents=(20, 12))
    problem = Problem(1, 2, 1, 32, 32, 16, "float32", mask, softcap=30.0, sinks=True)
    wrong = Implementation("wrong", "wrong", lambda q, k, v, problem: lambda: 0 * q)
    peers = [implementations()[name] for name in ("flash2", "sdpa_cudnn", "fa3")]
    bench = bench_of(bench_kernels.OURS, *peers, wrong)
    assert re.fullmatch(
        r"two documents +x\S+ +(ours|flash2) \d+  (ours|flash2) \d+  "
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
    mask = Mask(window=8, ahead=2, documents=(20, 12))
    problem = Problem(1, 2, 1, 32, 32, 16, "float32", mask, softcap=30.0)
    (row,) = bench_of(fake).timings(problem)
    assert row.times
    longest = dict.fromkeys(("max_seqlen_q", "max_seqlen_k"), 20)
    assert given[0] == {"causal": False, "window_size": (7, 2), "softcap": 30.0, **longest}


def times_of(row: VariantTiming, rate: float) -> Times:
    """In which it reaches so many TFLOP/s."""
    seconds = row.flops / rate / 1e12
    return Times(0.9 * seconds, seconds, 1.2 * seconds, 5)


def small(row: VariantTiming) -> VariantTiming:
    """The same row on 48 keys of one head, for the interpreter."""
    mask = row.problem.mask
    if mask.packed:
        mask = replace(mask, documents=3 if isinstance(mask.documents, int) else (20, 1, 27))
    if mask.window:
        mask = replace(mask, window=9, ahead=8)
    dims = (24, 16) if row.v_dim else (16, None)
    problem = Problem(1, 1, 1, 48, 48, dims[0], "float32", mask)
    return replace(row, problem=problem, v_dim=dims[1], prefix=12 if row.prefix else None)


def test_flops_are_those_of_the_pairs_that_the_mask_leaves():
    for row in map(small, PLAN[FORWARD]):
        pairs = dense_mask(row.whole).sum()
        wide = row.problem.head_dim + (row.v_dim or row.problem.head_dim)
        assert row.flops == 2 * pairs * wide
        assert replace(row, direction=BACKWARD).flops == 5 * pairs * wide


def test_every_row_stands_beside_the_plain_one_that_looks_as_far():
    rows = PLAN[FORWARD]
    none, causal = rows[:2]
    assert [row.plain for row in rows] == [True, True] + [False] * (len(rows) - 2)
    assert len({identity(row) for row in rows}) == len(rows) == 11
    ahead = (Mask(), Mask(window=1025, ahead=1024), Mask(documents=16))
    for row in rows:
        assert beside(row, rows) is (none if row.problem.mask in ahead else causal)
    others = [row for row in EVERY[FORWARD] if row.provider == "flash3"]
    assert len(others) == 16
    for row in others:
        plain = beside(row, EVERY[FORWARD])
        assert plain in others
        assert plain.problem.head_dim == (256 if row.term and row.problem.head_dim == 256 else 128)


def test_a_recordings_rows_stand_beside_those_of_their_own_commit():
    rows = [
        replace(row, times=times_of(row, rate), commit=commit)
        for commit, plain in ((None, 500.0), ("other", 400.0))
        for row, rate in zip(PLAN[FORWARD], (plain, plain / 2, *[100.0] * 9), strict=True)
    ]
    found = variant_costs(Recording(DEVICE, variants=(*rows, PLAN[BACKWARD][0])), FORWARD)
    assert len(found) == 22
    assert [found[at].over for at in (0, 1, 2, 5, 13, 16)] == pytest.approx([1, 1, 0.2, 0.4, 0.25, 0.5])
    documents, prefix = found[3].seen, found[6].seen
    assert documents == pytest.approx(1 / 16)
    assert prefix == pytest.approx(0.5 * (1 + (4096 / 16384) ** 2), rel=1e-4)  # a square above the diagonal
    assert found[10].seen == pytest.approx(0.5, rel=1e-4)  # of pairs, whatever V is


def test_rows_are_checked_before_they_are_timed(monkeypatch):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("a GPU has no interpreter")
    rows = [small(row) for row in (*PLAN[FORWARD][8:], PLAN[BACKWARD][-1])]
    found = sections.timed(rows, ONCE, cuda=False)
    assert all(row.times and row.error <= row.allowed for row in found)
    monkeypatch.setattr(exact, "_attended", lambda q, k, v, queries, *_: torch.ones_like(q))
    (wrong,) = sections.timed([small(PLAN[FORWARD][0])], ONCE, cuda=False)
    assert wrong.times is None
    assert wrong.skipped.startswith("not timed, because its result is wrong: it is off by")


def test_a_line_tells_the_rate_beside_the_plain_one():
    plain, row = (PLAN[FORWARD][at] for at in (1, 5))
    plain, row = replace(plain, times=times_of(plain, 500.0)), replace(row, times=times_of(row, 300.0))
    assert bench_kernels.variant_line(row, plain) == (
        "forward  5 documents, causal                              1.337 ms  300 TFLOP/s  0.60 of plain"
    )
    none = replace(plain, times=None, skipped="no room")
    assert bench_kernels.variant_line(none, plain).endswith("no room")
