"""Property-based tests repeat their examples; an algorithm laid beside the others leaves nothing behind."""

import tests.one_thread  # noqa: F401, I001 (before anything imports numpy or torch)
import gc
import os
import sys
from functools import _lru_cache_wrapper
from importlib.util import find_spec
from itertools import chain

import pytest
from hypothesis import HealthCheck, settings

import engine.algorithms
from engine.problem.cache import Cache
from engine.worker.client import Worker
from tests.beside import Beside

settings.register_profile(
    "repeatable",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")
gc.disable()  # what is imported stays: looking through it again and again takes a fifth of collecting

# what opens the dashboard cannot even be read without it
DASHBOARD = () if find_spec("streamlit") else ("app", "browser", "test_fuzz.py", "test_toy_*.py")
collect_ignore_glob = list(DASHBOARD)
LONG = ("test_operator", "test_speed_page")


def pytest_collection_modifyitems(items):
    """Of two workers one begins with the browser's tests, the other with what else takes long.

    Each is given half of the list, and who is done takes over from the end of what the other has left: short
    tests, so that no worker is alone with a long one at the end, nor starts a second dashboard for a few.
    What waits for a command that runs beside the tests comes late, and not last.
    """
    browser = [item for item in items if item.get_closest_marker("browser")]
    long = [item for item in items if item.path.stem in LONG]
    waiting = [item for item in items if hasattr(item.module, "BESIDE")]
    taken = {*browser, *long, *waiting}
    short = [item for item in items if item not in taken]
    half = max(0, len(items) // 2 - len(browser))
    late = (half + len(short)) // 2
    items[:] = browser + short[:half] + long + short[half:late] + waiting + short[late:]


@pytest.fixture(scope="session", autouse=True)
def beside(request, tmp_path_factory):
    """A function (file) that gives what the command of a test file printed; all are started here."""
    folder, run = tmp_path_factory.getbasetemp(), os.getpid()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder, run = folder.parent, os.getppid()
    beside = Beside(folder, run)
    for module in {item.module for item in request.session.items if hasattr(item.module, "BESIDE")}:
        beside.start(module.__name__, module.BESIDE)
    return beside


def pytest_report_header():
    """Say what is left out."""
    return f"Streamlit is not installed: left out are tests/{', tests/'.join(DASHBOARD)}" if DASHBOARD else ()


def pytest_collection_finish():
    gc.freeze()  # looked through no more, however much the tests make
    gc.enable()


def pytest_terminal_summary(terminalreporter):
    """Name the tests that failed at first and were run a second time, which a quiet summary leaves out."""
    again = sorted({report.nodeid for report in terminalreporter.stats.get("rerun", ())})
    if again:
        terminalreporter.write_line(f"needed a second run ({len(again)}): {', '.join(again)}", yellow=True)


def forget() -> None:
    """Clear what the product remembers: it was made of the algorithms that there were."""
    rooms = [
        vars(module) for name, module in list(sys.modules.items()) if name.split(".")[0] in ("engine", "app")
    ]
    kinds = [vars(found) for room in rooms for found in room.values() if isinstance(found, type)]
    for found in chain.from_iterable(map(dict.values, map(dict, rooms + kinds))):
        if isinstance(found, (_lru_cache_wrapper, Cache)):
            found.cache_clear()


@pytest.fixture(scope="session")
def kernel_worker():
    """A worker whose process runs the kernels: it takes seconds to import torch and Triton."""
    if find_spec("triton") is None:  # not imported here: `kernels` must be first
        pytest.skip("Triton is not installed here")
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture
def lay_algorithm(tmp_path, monkeypatch):
    """Lays a file of an algorithm in a folder beside the product's own, and gives the folder."""
    names = []

    def lay(name: str, text: str):
        (tmp_path / f"{name}.py").write_text(text)
        names.append(f"engine.algorithms.{name}")
        monkeypatch.setattr(engine.algorithms, "__path__", [*engine.algorithms.__path__, str(tmp_path)])
        engine.algorithms.discover()
        forget()
        return tmp_path

    yield lay
    monkeypatch.undo()
    for name in names:
        sys.modules.pop(name)
    engine.algorithms.discover()
    forget()
