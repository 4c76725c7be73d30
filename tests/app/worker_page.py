"""A page in Streamlit's AppTest, with a worker of its own."""

import time

import pytest
from streamlit.testing.v1 import AppTest

from app.page.parts import job
from engine.worker.client import Worker

SCRIPT = "from app import scenario\nfrom app.page import {page}\nscenario.adopt()\n{page}.show()\n"


def opened(name: str, **values) -> AppTest:
    """The page at a scenario, run once."""
    page = AppTest.from_string(SCRIPT.format(page=name), default_timeout=600)
    for key, value in values.items():
        page.query_params[key] = str(value)
    return page.run()


def unfolded(page: AppTest, *keys: str) -> AppTest:
    """The page with folds of it open."""
    for key in keys:
        page.session_state[f"fold {key}"] = True
    return page.run()


def html(page: AppTest) -> str:
    """All of the page's own HTML."""
    return " ".join(block.proto.body for block in page.get("html"))


def words(page: AppTest) -> str:
    """All that the page says in headings, sentences and captions."""
    said = (*page.header, *page.subheader, *page.main.markdown, *page.caption, *page.main.text)
    return " ".join(block.value for block in said)


def press(page: AppTest, name: str) -> AppTest:
    """The button with this key or label pressed."""
    return next(button for button in page.button if name in (button.key, button.label)).click().run()


def until_done(page: AppTest, seconds: float = 600.0) -> AppTest:
    """Run the page until no job of its visitor is under way."""
    end = time.monotonic() + seconds
    while any(button.label == "Cancel" for button in page.button):
        assert time.monotonic() < end, "the job did not end in time"
        time.sleep(0.05)
        page.run()
    return page


def new_visitor(monkeypatch, worker: Worker | None = None) -> None:
    """From here on a page is another visitor's, who has asked for nothing, maybe of this worker."""
    jobs: dict = {}
    monkeypatch.setattr(job, "_own_jobs", lambda: jobs)
    if worker is not None:
        worker._runs.clear()
        monkeypatch.setattr(job, "shared_worker", lambda: worker)


@pytest.fixture
def own_worker(monkeypatch):
    """A fresh worker in place of the server's."""
    worker = Worker()
    new_visitor(monkeypatch, worker)
    yield worker
    worker.close()


@pytest.fixture
def session_worker(monkeypatch, kernel_worker):
    """The tests' own worker in place of the server's, with nothing remembered; its process runs by now."""
    new_visitor(monkeypatch, kernel_worker)
    return kernel_worker
