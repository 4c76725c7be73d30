"""Download: whatever a page shows as a file, in one place on every page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from app.canvas.moving import Component
from app.scenario.again import PARTS
from app.scenario.offers import CSV, HTML, TRACE, offered, subject
from app.take_home import snippet
from engine import Experiment, simulate
from engine.model.export import MOST_SLICES, chrome_trace
from engine.model.launch import launch
from engine.model.simulated_timeline import simulate_timeline
from engine.problem.cache import kept

# finds the page's pictures and tables in the browser, and makes files of them
PAGE_FILES = Component("page_files", Path(__file__).with_name("page_files.html"))
JSON = "application/json"


def show() -> None:
    """The popover; its files are made when they are asked for."""
    experiment = subject()
    name = _scenario(experiment)
    with st.popover("Download", key="take_home"):
        PARTS.show(_from_the_page, name)
        with st.container(horizontal=True):
            for title, make in (offered(HTML) or {"Player": lambda: _player(experiment)}).items():
                _file(f"{title}, HTML", make, f"{name}-{_slug(title)}.html", "text/html")
            _file(
                "The scenario and its totals, JSON", lambda: _numbers(experiment), f"{name}-totals.json", JSON
            )
            _traces(experiment, name)
            for title, make in offered(CSV).items():
                _file(f"{title}, CSV", make, f"attention-{_slug(title)}.csv", "text/csv")
        PARTS.show(_snippets, experiment)


def _from_the_page(name: str) -> None:
    PAGE_FILES.mount(key="page_files", data={"scenario": name})
    st.caption("These files open anywhere, without a server or a network.")


def _snippets(experiment: Experiment) -> None:
    st.caption(
        "This Python computes the scenario from the repository's root: first the model, then the kernel."
    )
    st.code(snippet.model(experiment), None)
    st.code(snippet.kernel(experiment), None)


def _scenario(experiment: Experiment) -> str:
    """The start of every file's name."""
    problem = experiment.problem
    queries = f"{problem.seq_q}x" * (problem.seq_q != problem.seq_kv)
    return f"attention-{experiment.algorithm}-n{queries}{problem.seq_kv}"


def _file(label: str, make: Callable[[], str], name: str, kind: str) -> None:
    st.download_button(label, make, name, kind, key=f"take home {label}", on_click="ignore")


def _slug(title: str) -> str:
    """A title as part of a file's name."""
    return title.lower().replace(",", "").replace(" ", "-")


def _player(experiment: Experiment) -> str:
    """The scenario's player, for pages that show none; its modules are loaded when it is asked for."""
    from app.player import PLAYER
    from app.player.payload import build

    return PLAYER.offline(build(experiment), PLAYER.title)


def _numbers(experiment: Experiment) -> str:
    return json.dumps(simulate(experiment).summary(), indent=1)


def _traces(experiment: Experiment, name: str) -> None:
    """Blocks on SMs over time for ui.perfetto.dev: the runs that the page shows, else the scenario's."""
    runs = offered(TRACE)
    for title, make in runs.items():
        _file(f"{TRACE}: {title}", make, f"attention-{_slug(title)}-trace.json", JSON)
    if not runs:
        _trace(experiment, name)


@kept(most=4, most_bytes=64 * 2**20)
def _chrome_trace(experiment: Experiment) -> str:
    """Seconds of a processor for the longest: made once, however many ask for it."""
    return chrome_trace(simulate_timeline(experiment))


def _trace(experiment: Experiment, name: str) -> None:
    """The scenario's, modelled, unless it has too many blocks to look at."""
    blocks = launch(experiment).blocks
    if blocks > MOST_SLICES:
        st.caption(
            f"There is no Perfetto trace, because it holds at most {MOST_SLICES:,} thread blocks and this "
            f"is {blocks:,}."
        )
        return
    _file(
        f"{TRACE}, modelled",
        lambda: _chrome_trace(experiment),
        f"{name}-trace.json",
        JSON,
    )
