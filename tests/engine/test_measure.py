"""Measuring: every result is checked before its time counts, and what cannot run says why in one sentence."""

import json
from dataclasses import replace

import pytest

from engine.algorithms import ALGORITHMS
from engine.experiment import Experiment
from engine.measuring import clock
from engine.measuring.implementations import implementations
from engine.measuring.interpreter import interpreter_seconds
from engine.measuring.measure import (
    SWEEP,
    at_length,
    ladder,
    main,
    measured_rows,
    sizes,
    sweep_payload,
    this_bench,
)
from engine.problem.bounds import visible
from engine.problem.flops import field_flops
from engine.worker.jobs import JobError

TINY = {"seq": 64, "heads": 2, "kv_heads": 1, "head_dim": 16, "block_q": 32, "block_kv": 32}
FAST = clock.Repeats(2, 2, 0.0)


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


@pytest.mark.parametrize(
    "values", [{}, {"causal": True}, {"window": 9, "seq_kv": 50}, {"documents": "37:0:27", "window": "7:3"}]
)
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
    assert main(["--algorithm", "flash2", "--seq", "32", "--heads", "1", "--head-dim", "16", "--json"]) == 0
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
    with pytest.raises(JobError, match="algorithm is ring; measured on one device is one of standard, "):
        this_bench("ring")


def test_a_sweep_runs_through_the_worker(kernel_worker):
    job = kernel_worker.submit(SWEEP, sweep_payload(Experiment.of(**TINY)))
    try:
        while len(job.rows) < 4 and not job.wait(0.05):
            pass
        assert job.rows, job.error
        assert job.rows[0]["keys"] == 64
        assert job.rows[0]["skipped"] is None
    finally:
        job.cancel()
