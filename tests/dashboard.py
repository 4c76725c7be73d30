"""A dashboard in a process of its own, with what it takes, and a Chromium: for who drives or measures it."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
PATIENCE = 60  # s to wait for anything


def chromium(playwright):
    """A headless Chromium: the one of CHROMIUM, of the system, or Playwright's own."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    return playwright.chromium.launch(executable_path=path, args=ARGUMENTS)


@dataclass(frozen=True)
class Dashboard:
    """Where it is, and in which processes."""

    port: int
    processes: tuple[int, ...]

    @property
    def address(self) -> str:
        """As a browser has it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def cpu(self) -> float:
        """Seconds of a processor that it took so far."""

        def ticks(process: int) -> int:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        return sum(map(ticks, self.processes)) / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        """Of memory that it holds now."""
        pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in self.processes)
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.contextmanager
def served(
    script: str | Path = "app/main.py",
    log: Path | None = None,
    cwd: str | Path = ROOT,
    address: str = "127.0.0.1",
    port: int = 0,
    more: Sequence[str] = (),
) -> Iterator[Dashboard]:
    """A fresh one, ready; on another port where the first is taken before it takes it.

    It listens at an address, or where its own configuration says, and is started from a folder. A port is
    one that is free, with 0, and `more` is what else the command says.
    """
    for _ in range(3):
        at = free_port(port)
        command = [sys.executable, "-m", "streamlit", "run", script, "--server.headless", "true"]
        command += ["--server.port", str(at), *(["--server.address", address] if address else []), *more]
        with (log or Path(os.devnull)).open("w") as output:
            # in a session of its own, as Ctrl+C is for whoever asks, who then ends the dashboard
            process = subprocess.Popen(command, cwd=cwd, stdout=output, stderr=output, start_new_session=True)
        try:
            found = Dashboard(at, (process.pid,))
            if ready(process, found.address):
                yield found
                return
        finally:
            process.kill()
            process.wait()
    raise RuntimeError(f"the dashboard did not start: {log.read_text()[-2000:] if log else ''}")


def free_port(wanted: int = 0) -> int:
    """A port of this machine at which nobody listens: the wanted one, or any."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", wanted))
        return free.getsockname()[1]


def ready(process: subprocess.Popen, address: str) -> bool:
    """Whether it answers, waited for; not if it has ended."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urlopen(f"{address}/_stcore/health", timeout=2):
                return process.poll() is None
        except HTTPError:  # under a base path there is nothing here
            return process.poll() is None
        except OSError:
            time.sleep(0.02)
    return False
