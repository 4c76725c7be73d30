"""One dashboard and one Chromium for all browser tests; without a Chromium they skip and say so."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOCAL_SCHEMES = ("data", "blob", "about")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_healthy(process: subprocess.Popen, address: str, log: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    pytest.fail(f"the dashboard did not start: {log.read_text()[-2000:]}")


@contextmanager
def _served(script: str, log: Path):
    """The address of a dashboard that runs a script from the repository's root."""
    port = _free_port()
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.headless", "true"]
    command += ["--server.port", str(port), "--server.address", "127.0.0.1"]
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_until_healthy(process, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory):
    """Address of a dashboard that runs for the session."""
    with _served("app/main.py", tmp_path_factory.mktemp("dashboard") / "log.txt") as address:
        yield address


@pytest.fixture
def served():
    """A context (script, log) that gives the address of a dashboard of its own."""
    return _served


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium: the one of CHROMIUM, of the system, or Playwright's own."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    with api.sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        except api.Error as error:
            reason = f"no Chromium that starts: {str(error).splitlines()[0]}"
            (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(reason)
        yield chromium
        chromium.close()


class Watch:
    """What a page complained about, and which hosts it asked for."""

    def __init__(self, page):
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", self._message)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._request)

    def _message(self, message) -> None:
        # on a page with a path Streamlit looks for its server below that path first: one 404, and it goes on
        probe = "/_stcore/" in message.location.get("url", "") and "404" in message.text
        if message.type == "error" and not probe:
            self.complaints.append(message.text)

    def _request(self, request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in LOCAL_SCHEMES:
            self.hosts.add(parts.hostname)


@pytest.fixture
def page(browser):
    """A new page of 1440 x 900, in its own session, with `page.watch` for complaints and hosts."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark")
    page = context.new_page()
    page.watch = Watch(page)
    page.set_default_timeout(60_000)
    yield page
    context.close()
