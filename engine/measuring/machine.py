"""What measures here: its processor, or its GPU with driver and clocks. Imports torch when called."""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine.recordings.recording import Device
from engine.root import ROOT
from engine.worker.jobs import JobError


class Library:
    """A module by its name: `Library("torch").empty` imports torch."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks of every object imports nothing
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


torch, distributed, kernels = map(Library, ("torch", "torch.distributed", "kernels"))


CLOCKS = (
    "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw", "power.limit",
    "temperature.gpu",
)  # fmt: skip
PEERS = ("flash-attn", "flash-attn-4")  # packages that bring kernels to be timed


@dataclass(frozen=True)
class Machine:
    """What measures here, as every row names it."""

    device: str
    cuda: bool
    versions: dict[str, str]
    l2: str
    has_triton: bool


def machine() -> Machine:
    """This machine: its GPU if PyTorch can use one, else its CPU.

    Raises JobError without PyTorch, and with one that is built for AMD GPUs.
    """
    versions = {"python": platform.python_version(), **_installed("triton")}
    try:
        versions["torch"] = torch.version.__version__
    except ImportError as error:
        raise JobError(f"nothing can be measured here: {error}") from None
    if torch.version.hip is not None:
        raise JobError(
            f"nothing can be measured here: PyTorch is built for AMD GPUs (HIP {torch.version.hip}), which"
            " nothing was ever measured on"
        )
    has_triton = "triton" in versions
    if not torch.cuda.is_available():
        name = f"{_processor()}, {torch.get_num_threads()} threads"
        return Machine(name, False, versions, "as the call before left it", has_triton)
    versions |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    driver = Path("/proc/driver/nvidia/version")
    if driver.exists():
        words = driver.read_text().splitlines()[0].split()
        versions["driver"] = next((word for word in words if word[:1].isdigit() and "." in word), "unknown")
    return Machine(torch.cuda.get_device_name(), True, versions, "cold", has_triton)


def device(commit: str | None = None, why: str = "only a GPU is recorded") -> Device:
    """This machine's GPU, now; raises JobError where PyTorch can use none."""
    here = machine()
    if not here.cuda:
        raise JobError(f"there is no GPU here that PyTorch can use, and {why}")
    versions = here.versions | _installed(*PEERS)
    asked = f"--query-gpu={','.join(CLOCKS)},driver_version"
    line = _output_of(["nvidia-smi", "--id=0", asked, "--format=csv,noheader,nounits"]).partition("\n")[0]
    told = (part.strip() for part in line.split(",") if line)
    read = dict(zip((*CLOCKS, "driver"), told, strict=False))
    driver, clocks = read.pop("driver", versions.pop("driver", "unknown")), {}
    for name, value in read.items():
        with suppress(ValueError):  # what this GPU does not tell
            clocks[name] = float(value)
    return Device(
        gpu=here.device,
        driver=driver,
        versions=versions,
        clocks=clocks,
        memory_bytes=torch.cuda.get_device_properties(0).total_memory,
        commit=commit or _output_of(["git", "-C", str(ROOT), "rev-parse", "HEAD"]).strip() or "unknown",
        date=now(),
    )


def now() -> str:
    """As ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _installed(*packages: str) -> dict[str, str]:
    """Versions of those packages that are there."""
    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _output_of(command: list[str]) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout if run.returncode == 0 else ""


def _processor() -> str:
    """The processor's name, as the system gives it."""
    path = Path("/proc/cpuinfo")
    if sys.platform == "linux" and path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or f"{platform.machine()} CPU with {os.cpu_count()} cores"
