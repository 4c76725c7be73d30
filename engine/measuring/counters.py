"""The hardware's counters: ncu runs this module over scenarios, its rows become Counters.

It empties the caches before every kernel, so each stands by itself. Left alone they would say less: ncu
needs several passes over a kernel, and between two kernels it writes to memory itself.
"""

import csv
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from engine.measuring.machine import kernels, torch
from engine.measuring.sections import checked
from engine.measuring.trial import attempt
from engine.recordings.recording import Counters, KernelCounters
from engine.root import ROOT
from engine.worker.jobs import JobError

MARKER = "scenario_marker"  # launched before scenario i with i + 1 programs
NEEDED = {
    "seconds": "gpu__time_duration.sum",
    "dram_read": "dram__bytes_read.sum",
    "dram_written": "dram__bytes_write.sum",
    "tile_read": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "tile_written": "l1tex__m_l1tex2xbar_write_bytes.sum",
}
OF_LAUNCHES = {"waves": "launch__waves_per_multiprocessor"}  # known without counting; no list has them
SHARE = ".avg.pct_of_peak_sustained_elapsed"
WANTED = {  # read where this chip has one of them, the first that it has
    "loaded": ("smsp__sass_data_bytes_mem_global_op_ld.sum",),
    "copied": ("smsp__sass_data_bytes_mem_global_op_ldgsts.sum",),
    "by_tma": ("l1tex__m_xbar2l1tex_read_bytes_pipe_tma.sum",),
    "l2_bytes": ("lts__t_bytes.sum",),
    "l2_hit_percent": ("lts__t_sector_hit_rate.pct",),
    "tensor_percent": tuple(
        f"sm__{name}{SHARE}"
        for name in (
            "pipe_tensor_cycles_active",
            "pipe_tensor_op_gmma_cycles_active",
            "pipe_tensor_op_hmma_cycles_active",
            "inst_executed_pipe_tensor",
        )
    ),
    "exponential_percent": (f"sm__inst_executed_pipe_xu{SHARE}",),
    "issue_percent": (f"sm__inst_issued{SHARE}", f"sm__inst_executed{SHARE}"),
    "sm_percent": (f"sm__cycles_active{SHARE}",),
    "shared_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",),
    "sm_clock": ("sm__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second"),
}
UNITS = {  # in lower case
    "": 1, "%": 1, "byte": 1, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12,
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1,
    "nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3, "second": 1,
    "hz": 1, "khz": 1e3, "mhz": 1e6, "ghz": 1e9,
    "cycle/second": 1, "cycle/s": 1, "cycle/usecond": 1e6, "cycle/us": 1e6,
    "cycle/nsecond": 1e9, "cycle/ns": 1e9,
}  # fmt: skip
NO_PERMISSION = (
    "ncu may not read the counters (ERR_NVGPUCTRPERM): an administrator must allow it,"
    " see https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
PREPARING = ("at::", "elementwise", "Memset")  # in names of PyTorch's that fill, copy or finish tensors
PLACES, APART = 3, 38 * 2**20  # where tensors may begin, and bytes between these
AT_A_TIME = 44  # scenarios of one ncu process: what it read is printed when it ends
QUERY_SECONDS = 60.0
SPARE = 60.0  # seconds beyond its time after which ncu is given up


class Profiled(NamedTuple):
    """One kernel as ncu printed it: name, grid, and its metrics in bytes, seconds, Hz or per cent."""

    name: str
    grid: tuple[int, ...]
    metrics: dict[str, float]


def available_metrics(ncu: str) -> dict[str, str]:
    """The metric of each field that this chip can count."""
    try:
        listed = subprocess.run(
            [ncu, "--query-metrics"], capture_output=True, text=True, timeout=QUERY_SECONDS
        )
    except subprocess.TimeoutExpired:
        return NEEDED
    known = {line.split()[0] for line in listed.stdout.splitlines() if line.strip()}
    wanted = {
        field: next((name for name in names if name.partition(".")[0] in known), None)
        for field, names in WANTED.items()
    }
    return NEEDED | OF_LAUNCHES | {field: name for field, name in wanted.items() if name is not None}


def profiled_counters(scenarios: list[Counters], seconds: float) -> Iterator[Counters]:
    """Rows of those scenarios that could be profiled in this time; raises JobError with what ncu lacks."""
    end = time.monotonic() + seconds
    ncu = find_ncu()
    metrics = available_metrics(ncu)
    for first in range(0, len(scenarios), AT_A_TIME):
        left = end - time.monotonic()
        if left <= 0:
            return
        yield from _profiled(ncu, scenarios[first : first + AT_A_TIME], metrics, left)


def find_ncu() -> str:
    """The path of Nsight Compute's command line; raises JobError."""
    for path in (shutil.which("ncu"), "/usr/local/cuda/bin/ncu"):
        if path and Path(path).exists():
            return path
    raise JobError("ncu is not installed; it comes with NVIDIA's CUDA toolkit, as Nsight Compute")


def _profiled(ncu: str, scenarios: list[Counters], metrics: dict, seconds: float) -> Iterator[Counters]:
    with tempfile.TemporaryDirectory() as folder:
        given, results = Path(folder, "calls"), Path(folder, "reasons.json")
        given.write_bytes(pickle.dumps(scenarios))
        command = [
            ncu, "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw",
            "--metrics", ",".join(metrics.values()),
            sys.executable, "-m", "engine.measuring.counters", str(given), str(results), str(seconds),
        ]  # fmt: skip
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds + SPARE, cwd=ROOT, env=os.environ
            )
        except subprocess.TimeoutExpired:
            return
        if not results.exists():
            raise JobError(_complaint(run.stdout + run.stderr))
        reasons = json.loads(results.read_text())
    profiled = parsed(run.stdout)
    if not profiled and not all(reasons):
        raise JobError(_complaint(run.stdout + run.stderr))
    yield from rows_of(scenarios, reasons, profiled, metrics)


def _complaint(output: str) -> str:
    """What ncu says went wrong, in a sentence."""
    if "ERR_NVGPUCTRPERM" in output:
        return NO_PERMISSION
    lines = [line.strip("= ") for line in output.splitlines() if "ERROR" in line or "Error" in line]
    return f"ncu counted nothing: {' '.join(lines[-1].split())[:300] if lines else 'it gave no reason'}"


def parsed(text: str) -> list[Profiled]:
    """The kernels of `ncu --csv --page raw`, in the order they ran; other lines are passed over."""
    lines = (line for line in text.splitlines() if line.startswith('"'))
    units, *rows = [*csv.DictReader(lines)] or ({},)
    scales = {name: UNITS.get(unit.lower()) for name, unit in units.items() if "__" in name}
    found = []
    for row in (row for row in rows if None not in row and None not in row.values()):
        values = {name: _value(row[name], unit) for name, unit in scales.items() if unit}
        grid = tuple(int(part) for part in row["Grid Size"].strip("()").split(","))
        known = {name: value for name, value in values.items() if value is not None}
        found.append(Profiled(row["Kernel Name"], grid, known))
    return found


def _value(text: str, unit: float) -> float | None:
    with suppress(ValueError):
        value = float(text.replace(",", "")) * unit
        return value if isfinite(value) else None
    return None


def rows_of(
    scenarios: list[Counters], reasons: list[str | None], kernels: list[Profiled], metrics: dict[str, str]
) -> Iterator[Counters]:
    """A row for each scenario that was reached: its kernels are those after its marker."""
    own: dict[int, list[Profiled]] = {}
    current: list[Profiled] = []
    for kernel in kernels:
        if MARKER in kernel.name:
            current = own.setdefault(kernel.grid[0] - 1, [])
        else:
            current.append(kernel)
    for index, (row, reason) in enumerate(zip(scenarios, reasons, strict=False)):
        if reason is not None:
            yield replace(row, skipped=reason)
            continue
        sides: tuple[list, list] = [], []
        for kernel in own.get(index, ()):
            if found := _counters(kernel, metrics):
                sides[any(each in found.name for each in PREPARING)].append(found)
        if sides[0]:
            yield replace(row, kernels=tuple(sides[0]), others=tuple(sides[1]))


def _counters(kernel: Profiled, metrics: dict[str, str]) -> KernelCounters | None:
    """The fields of one kernel; None if ncu did not count what every row needs."""
    values = {field: kernel.metrics.get(metric) for field, metric in metrics.items()}
    if any(values[field] is None for field in NEEDED):
        return None
    name = kernel.name.partition("(")[0].partition("<")[0].removeprefix("void ")
    return KernelCounters(name, " x ".join(map(str, kernel.grid)), **values)


def under_ncu() -> None:
    """What ncu watches: python -m engine.measuring.counters SCENARIOS REASONS SECONDS.

    Each scenario runs unwatched first (compiled, checked against float64), then once under the profiler,
    after a kernel whose grid says which scenario follows; its tensors lie elsewhere in memory than the last
    one's, as what L2 keeps depends on where. REASONS gets a list: null, or why a scenario did not run;
    shorter than the scenarios where the time was up.
    """
    scenarios, results, seconds = sys.argv[1:]
    end = time.monotonic() + float(seconds)
    reasons: list[str | None] = []
    for index, scenario in enumerate(pickle.loads(Path(scenarios).read_bytes())):
        if time.monotonic() > end:
            break
        _, reason = attempt(lambda i=index, s=scenario: profile(s, i), cuda=True)
        reasons.append(reason)
        torch.cuda.empty_cache()
    Path(results).write_text(json.dumps(reasons))


def profile(scenario: Counters, index: int) -> None:
    """One scenario, profiled; raises JobError if its result is wrong."""
    elsewhere = torch.empty((index + 1) % PLACES * APART, dtype=torch.uint8, device="cuda")
    place = torch.zeros(1, dtype=torch.int32, device="cuda")
    kernels.scenario_marker[(1,)](place)
    found = checked(scenario)
    if isinstance(found, str):
        raise JobError(found)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    try:
        kernels.scenario_marker[(index + 1,)](place)
        found.call()
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()
        del elsewhere


if __name__ == "__main__":
    under_ncu()
