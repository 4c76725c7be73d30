"""Several GPUs, measured: two processes over gloo, what a profiler saw as marks, rows in and out of files."""

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.measuring import cluster
from engine.measuring.cluster import marks_of
from engine.model.cluster.seconds import KINDS
from engine.model.cluster.spread import Spread
from engine.problem.problem import Mask, Problem
from engine.recordings.cluster import ClusterTimeline, ClusterTiming, Extent, GpuMarks
from engine.recordings.file import CLUSTERS, FileError, dumps, loads, recordings
from engine.recordings.recording import Recording
from engine.studies.several_gpus import sent_bytes
from engine.worker.jobs import JobError
from tests.engine import worker_jobs

PROBLEM = Problem(1, 16, 16, 1024, 1024, 128, "float16", Mask(causal=True))
ROW = ClusterTiming("ring", "Ring", "forward", PROBLEM, 4, Extent(1e-3, 2e-3, 3e-3, 5), 1e-4, 1e-4, 4e-3)
LANES = ClusterTimeline(
    "ring", "forward", PROBLEM, 2, (GpuMarks((0, 1), (0, 5), (10, 20)), GpuMarks((0,), (1,), (2,)))
)
BESIDE = [sys.executable, Path(__file__).with_name("cluster_ranks.py")]


def test_two_processes_measure_a_ring_over_gloo(beside):
    pytest.importorskip("torch")
    pytest.importorskip("kernels.interpreter", exc_type=ImportError)
    first, second = json.loads(beside(__name__).splitlines()[-1])
    assert first == second  # every rank has the same rows, of which the first writes
    rows, lanes, unsampled, sampled = first
    ring, sent, off = rows
    assert ring["skipped"].startswith("ring runs as ring_send: copy engines are a GPU's")
    assert sent["skipped"] is None
    assert sent["times"]["median"] > 0
    assert sent["error"] < 2e-5
    assert sent["gpus"] == 2
    assert off["times"] is None
    assert off["skipped"].startswith("not timed, because its result is wrong: off by 0.0")
    assert lanes["skipped"] == "a CPU has no lanes: there is no GPU here"
    assert "the chip's own counters are read by" in unsampled["skipped"]
    assert [each["sent"] for each in sampled["marks"]] == [[0, 7], [1, 7]]


def test_a_ring_s_processes_stay_and_come_anew_where_one_has_ended(monkeypatch):
    """A ring of one, as each process takes seconds to start."""
    monkeypatch.setattr(cluster, "_rank", worker_jobs.rank)
    first, again = (cluster.ring_here(PROBLEM, "forward", 1) for _ in range(2))
    assert first == again == (first[0], [PROBLEM, "forward", "ring"])
    with pytest.raises(JobError, match="a process of the ring ended unexpectedly"):
        cluster.ring_here(PROBLEM, "die", 1)
    assert cluster.ring_here(PROBLEM, "forward", 1)[0] not in (0, first[0])
    ((_, process),) = cluster._RINGS.pop(1)
    process.kill()


def test_a_ring_takes_as_many_gpus_as_get_alike_parts():
    assert [cluster.ring_size(PROBLEM, most) for most in (0, 1, 2, 3, 7, 8)] == [1, 1, 2, 2, 4, 8]
    assert cluster.ring_size(replace(PROBLEM, seq_q=6), 8) == 3


def test_recorded_links_are_what_a_ring_must_send():
    """A causal ring's first GPU sends half of its keys, as no query of the second sees the others."""
    rows = [row for one in recordings(CLUSTERS) for row in one.cluster_timelines if row.interval]
    assert {(row.provider, row.problem.seq_q) for row in rows} >= set(
        product(("ring", "ring_send"), (32_768, 131_072))
    )
    for row in rows:
        counted = sent_bytes(Spread(row.problem, row.gpus, row.provider))
        for of, each in zip(row.marks, counted, strict=True):
            assert of.sent_bytes == pytest.approx(each, rel=4e-4)


def test_what_the_profiler_saw_becomes_marks_from_where_all_were_together():
    events = [
        ("flash3_kernel", 10.0, 5.0),  # before all were together
        ("ncclDevKernel_AllReduce_Sum_f32", 20.0, 4.0),
        ("combine_kernel", 60.0, 2.0),
        ("flash3_kernel", 30.0, 20.0),
        ("Memcpy PtoP (Device -> Device)", 25.0, 3.5),
        ("ncclDevKernel_SendRecv", 31.0, 1.0),
        ("c10d::symmetric_memory::barrier_kernel", 29.0, 1.0),
        ("void at::native::elementwise_kernel", 70.0, 1.0),
    ]
    found = marks_of(events)
    named = [KINDS[kind] for kind in found.kind]
    assert named == ["transfer", "computing", "transfer", "merging", "packing"]
    assert found.start == (1000, 6000, 7000, 36000, 46000)
    assert found.length == (3500, 20000, 1000, 2000, 1000)
    assert marks_of(events[:2]) == GpuMarks((), (), ())


def test_rows_of_several_gpus_come_back_from_a_file_and_old_files_are_read_as_before():
    (old,) = recordings()[:1]
    whole = Recording(old.device, cluster=(ROW,), cluster_timelines=(LANES,))
    assert loads(dumps(whole).encode()) == whole
    without = json.loads(dumps(Recording(old.device)))
    del without["cluster"], without["cluster_timelines"]
    assert loads(json.dumps(without).encode()) == Recording(old.device)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (replace(ROW, skipped="why"), "must have either times or the reason"),
        (replace(ROW, gpus=0), "must have at least one GPU"),
        (replace(ROW, times=Extent(2e-3, 1e-3, 3e-3, 5)), "times that are not positive and rising"),
        (replace(LANES, gpus=3), "must have marks of every GPU"),
        (replace(LANES, marks=(GpuMarks((9,), (0,), (1,)),) * 2), "has marks that cannot be"),
    ],
)
def test_what_cannot_be_is_refused(row, said):
    section = "cluster" if isinstance(row, ClusterTiming) else "cluster_timelines"
    with pytest.raises(FileError, match=said):
        loads(dumps(Recording(recordings()[0].device, **{section: (row,)})).encode())


def test_without_its_launcher_the_way_to_it_is_named(capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(SystemExit, match="2"):
        main(["measure", "--gpus", "2"])
    assert "torchrun --nproc-per-node GPUS -m engine measure --gpus GPUS" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["record", "--out", "x.json", "--only", "timings,cluster"])
    assert "several GPUs are recorded alone" in capsys.readouterr().err
