"""Unfused attention whose rows are whole vectors or move number by number, against an H200's counters.

In blocks of 128 x 64; instructions, registers and blocks on an SM come from compiled code.
"""

from statistics import median

import pytest

from engine import simulate
from engine.model.launch import Launch, launch
from engine.model.unfused import fetching_seconds, issued_seconds
from engine.model.unfused_rows import rows_spill
from engine.problem.hardware import GPUS
from engine.recordings.counters import recorded_counters
from engine.recordings.file import recordings
from tests.engine.readings import READ, experiment_of, for_each

SMS = 132
RUNNING = GPUS["h200"].running_clock


def run_of(values: dict, **more) -> Launch:
    return launch(experiment_of(values, **{"algorithm": "standard", "block_q": 128, **more}))


def phases(run: Launch) -> dict:
    return {kernel.phase.name: kernel.phase for kernel in run.kernels}


@for_each("unfused")
def test_an_sm_holds_as_many_blocks_as_registers_and_shared_memory_leave(values, read):
    assert [kernel.resident for kernel in run_of(values).kernels] == read[3:]


def test_an_sm_holds_as_many_blocks_as_every_recorded_launch_had_waves_for():
    """Blocks of 128 x 64 and 64 x 64, with a window too."""
    rows = [row for each in recordings() for row in recorded_counters(each) if row.experiment.record.unfused]
    assert len(rows) >= 11
    for row in rows:
        for kernel, recorded in zip(row.simulation.launch.kernels, row.row.kernels, strict=True):
            assert kernel.blocks / SMS / recorded.waves == pytest.approx(kernel.resident, rel=0.025)


def test_every_kernel_takes_about_as_long_as_on_an_h200():
    off = []
    for values, read in READ["unfused"]:
        modelled = simulate(experiment_of(values, algorithm="standard", block_q=128)).modelled
        for kernel, recorded in zip(modelled.parts.values(), read[:3], strict=True):
            assert kernel * 1e6 == pytest.approx(recorded, rel=0.32)
        off.append(abs(modelled.seconds * 1e6 / sum(read[:3]) - 1))
    assert median(off) < 0.04
    assert max(off) < 0.14


@for_each("programs of the softmax")
def test_a_softmax_issues_as_many_instructions_as_were_counted(values, read):
    """One cost of a block whatever its rows, of which the compiler makes between 118 and 1,146."""
    run = run_of(values)
    assert issued_seconds(run, phases(run)["softmax"]) * RUNNING == pytest.approx(read, rel=0.22)


@for_each("programs of S")
def test_a_tile_of_s_issues_as_many_instructions_as_were_counted_or_compiled(values, read):
    run = run_of(values)
    assert issued_seconds(run, phases(run)["scores"]) * RUNNING == pytest.approx(read, rel=0.12)


@for_each("visits of O")
def test_a_visit_of_the_output_issues_what_the_compiled_loop_does(values, read):
    """Beside it, where numbers move one by one, loads and stores take 2 clocks for 32 of them."""
    run = run_of(values)
    moving = 2 * 128 * 64 / 32 if values["seq"] % 16 else 0
    clocks = fetching_seconds(run, phases(run)["output"]) * RUNNING
    assert clocks - moving == pytest.approx(read, rel=0.24)


@pytest.mark.parametrize(("keys", "spills"), [(20001, False), (32768, False), (40001, True), (65536, True)])
def test_rows_whose_numbers_fill_all_registers_spill_as_compiled(keys, spills):
    """Bytes of spill stores of a thread: 0, 0, 456 and 240."""
    assert rows_spill(run_of({"seq": 16, "seq_kv": keys}).schedule) == spills
