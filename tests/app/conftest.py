"""Opens the dashboard as Streamlit's AppTest does: the real script, without a browser."""

from collections.abc import Callable
from functools import cache

import pytest
import streamlit as st
from plotly.graph_objects import Figure
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app import elements
from app.canvas.moving import Component
from engine.root import ROOT
from tests.app.worker_page import own_worker, session_worker  # noqa: F401  fixtures of all tests here

MAIN = ROOT / "app" / "dashboard.py"
st.App(MAIN)  # from now on the configuration beside the script holds
# AppTest looks for components in all installed packages at every run, four fifths of its time: they stay.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """Every value of every figure that a test draws is one that Plotly knows."""
    monkeypatch.setattr(elements, "Unchecked", Figure)


@pytest.fixture(autouse=True)
def sound(monkeypatch):
    """No run of a page ends in an exception; what ran before, for a test that wants one."""
    run = AppTest._run

    def ran(self, *given, **more) -> AppTest:
        run(self, *given, **more)
        assert not self.exception, self.exception[0].value
        return self

    monkeypatch.setattr(AppTest, "_run", ran)
    return run


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Before 1.66 every AppTest begins without components: each registers its own."""
    if st.__version__.startswith("1.65."):
        monkeypatch.setattr(Component, "mount", property(Component.__dict__["mount"].func))


@pytest.fixture
def open_app():
    """A function (page, **url values) that opens a page of the dashboard and returns the AppTest."""

    def open_page(page: str = "masks", **values: str) -> AppTest:
        app = AppTest.from_file(str(MAIN), default_timeout=600)
        # AppTest has no call for pages that are functions: they are known by the hash of their path.
        app._page_hash = calc_hash(page)
        app.session_state["more"] = True  # the fold of the sidebar, with what is seldom moved
        for name, value in values.items():
            app.query_params[name] = value
        return app.run()

    return open_page


@pytest.fixture
def download(monkeypatch):
    """A function (app) that opens Download on a page, and gives what makes each of its files, by name."""
    makers = {}

    def deferred(_, make, kind, place, file_name, **__):
        makers[file_name] = make
        return file_name

    monkeypatch.setattr(MediaFileManager, "add_deferred", deferred)

    def opened(app: AppTest) -> dict[str, Callable[[], str]]:
        assert not app.sidebar.code  # made for whoever opens it
        app.session_state["take_home"] = True
        app.run()
        buttons = [node.proto for node in app.get("download_button")]
        return {each.label: makers[each.deferred_file_id] for each in buttons if each.deferred_file_id}

    return opened
