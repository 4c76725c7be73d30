"""Take home: whatever a page shows as a file, in one place on every page."""

from __future__ import annotations

import json
from functools import lru_cache, partial
from pathlib import Path

import streamlit as st

from app import scenario
from app.take_home import snippet
from app.take_home.offline import html_file
from engine import simulate

HERE = Path(__file__).parent


@lru_cache(maxsize=1)
def _page_files():
    """The component that finds the page's pictures and tables in the browser, and makes files of them."""
    html, css, js = ((HERE / f"page_files.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    return st.components.v2.component("page_files", html=html, css=css, js=js)


def show() -> None:
    """The popover; its files are made when they are asked for."""
    experiment = scenario.current()
    with st.popover("Take home", key="take_home"):
        name = f"attention-{experiment.algorithm}-{experiment.problem.seq_kv}"
        for played, payload in scenario.offered().items():
            st.download_button(
                "Player, one offline HTML file",
                partial(html_file, payload, f"Attention, tile by tile: {experiment.algorithm}"),
                f"{name}-{played}.html",
                "text/html",
                key=f"take home {played}",
                on_click="ignore",
            )
        _page_files()(key="page_files", data={"name": name})
        st.download_button(
            "All numbers of the scenario, JSON",
            lambda: json.dumps(simulate(experiment).summary(), indent=1),
            f"{name}.json",
            "application/json",
            key="take home numbers",
            on_click="ignore",
        )
        st.caption("The scenario in Python, from the repository's root: the model, then the kernel.")
        st.code(snippet.model(experiment), "python")
        st.code(snippet.kernel(experiment), "python")
