"""The GPU, its driver and its clocks, as a recording names them. Imports torch when called."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from engine.measuring import clock
from engine.recordings.recording import Device
from engine.root import ROOT
from engine.worker.jobs import JobError

CLOCKS = (
    "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw", "power.limit",
    "temperature.gpu",
)  # fmt: skip
PEERS = ("flash-attn", "flash-attn-4")  # packages that bring kernels to be timed


def device(commit: str | None = None) -> Device:
    """This machine's GPU, now; raises JobError where PyTorch can use none."""
    machine = clock.machine()
    if not machine.cuda:
        raise JobError("there is no GPU here that PyTorch can use, and only a GPU is recorded")
    import torch

    versions = dict(machine.versions) | _peers()
    read = dict(zip((*CLOCKS, "driver"), _nvidia_smi((*CLOCKS, "driver_version")), strict=False))
    driver = read.pop("driver", versions.pop("driver", "unknown"))
    return Device(
        gpu=machine.device,
        driver=driver,
        versions=versions,
        clocks={name: float(value) for name, value in read.items() if _is_number(value)},
        memory_bytes=torch.cuda.get_device_properties(0).total_memory,
        commit=commit or _commit(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _peers() -> dict[str, str]:
    """Versions of the other packages of attention that are installed."""
    found = {}
    for name in PEERS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _nvidia_smi(names: tuple[str, ...]) -> list[str]:
    """What it reads of the first GPU; nothing where it is missing."""
    command = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"]
    line = _output_of(command).splitlines()
    return [part.strip() for part in line[0].split(",")] if line else []


def _commit() -> str:
    return _output_of(["git", "-C", str(ROOT), "rev-parse", "HEAD"]).strip() or "unknown"


def _output_of(command: list[str]) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout if run.returncode == 0 else ""


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False
