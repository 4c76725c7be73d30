"""A dashboard and a Chromium for who drives them: browser tests and benches."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
PATIENCE = 180  # s to wait for anything


def chromium(playwright, more: Sequence[str] = ()):
    """A headless Chromium: the one of CHROMIUM, of the system, or Playwright's own."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    return playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *more])


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def started(script: str, port: int | str, output, *more: str) -> subprocess.Popen:
    """The process of a dashboard that runs a script from the repository's root."""
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.headless", "true"]
    command += ["--server.port", str(port), *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)


def healthy(process: subprocess.Popen, address: str) -> bool:
    """Whether a dashboard answers there, waited for; not if it has ended."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return process.poll() is None
        except (urllib.error.URLError, OSError):
            time.sleep(0.02)
    return False


def start() -> tuple[subprocess.Popen, str, float]:
    """A dashboard of its own: its process, its address, and when it was started."""
    began, port = time.monotonic(), free_port()
    server, address = started("app/main.py", port, subprocess.DEVNULL), f"http://127.0.0.1:{port}"
    if healthy(server, address):
        return server, address, began
    raise SystemExit("the dashboard did not start")
