"""How far counters repeat, recomputed from the two files."""

from __future__ import annotations

import json
from statistics import median

import pytest

from engine.recordings.file import COUNTED_BEFORE, SHELF, recording_of
from engine.studies.counted_again import dram_scatter, l1_scatter


def calls(path) -> dict[str, dict]:
    """The counters of a file by what they are about: sums over kernels, compulsory and requested bytes."""
    found = {}
    for row in json.loads(path.read_text())["counters"]:
        if "kernels" in row:
            about = {key: row.get(key) for key in ("provider", "direction", "block_q", "block_kv", "splits")}
            about |= {"problem": {**row["problem"], "mask": {**row["problem"]["mask"], "ahead": 0}}}
            found[json.dumps(about, sort_keys=True)] = {
                counter: sum(kernel[counter] for kernel in row["kernels"])
                for counter in ("dram_read", "tile_read")
            } | {"row": row}
    return found


def compulsory(row: dict) -> float:
    """Q, K and V once, in float16; flash1 reads O, m and l as well, which it has written."""
    of = row["problem"]
    queries = of["batch"] * of["heads"] * of["seq_q"]
    again = queries * (2 * of["head_dim"] + 8) if row["provider"] == "flash1" else 0
    return 2 * of["head_dim"] * (queries + 2 * of["batch"] * of["kv_heads"] * of["seq_kv"]) + again


def test_dram_reads_scatter_by_what_the_two_files_say():
    """Of fused forward passes alone: no other call reads more than it must."""
    recording = recording_of("h200")
    now, before = calls(SHELF / "h200.json"), calls(COUNTED_BEFORE / "h200.json")
    apart = []
    for about, one in now.items():
        row = one["row"]
        fused = row["provider"] in ("flash1", "flash2", "flash3") and row["direction"] == "forward"
        if about in before and fused and one["dram_read"] > 1.02 * compulsory(row):
            pair = one["dram_read"], before[about]["dram_read"]
            apart.append(max(pair) / min(pair) - 1)
    found = dram_scatter(recording)
    assert (found.count, found.most) == (len(apart), pytest.approx(max(apart)))
    assert found.median == pytest.approx(median(apart))
    assert found.count >= 20
    assert (0.005 < found.median < 0.02, 0.05 < found.most < 0.16) == (True, True)


def test_bytes_from_l2_scatter_where_l1_is_nearly_large_enough():
    """One call of flash1, whose rows just fit no more: 17.5 MB once, 23.1 another time."""
    recording = recording_of("h200")
    now, before = calls(SHELF / "h200.json"), calls(COUNTED_BEFORE / "h200.json")
    apart = {
        about: one["tile_read"] / before[about]["tile_read"] for about, one in now.items() if about in before
    }
    worst = max(apart, key=lambda about: abs(apart[about] - 1))
    assert (now[worst]["row"]["provider"], now[worst]["row"]["problem"]["seq_q"]) == ("flash1", 512)
    found = l1_scatter(recording)
    assert found.most == pytest.approx(apart[worst] - 1)
    assert found.median < 0.01 < found.most
