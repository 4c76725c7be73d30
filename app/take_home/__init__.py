"""Download: whatever a page shows as a file, in one place on every page."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import streamlit as st

from app.canvas.moving import Component
from app.contents import NAME
from app.scenario.offers import CSV, HTML, TRACE, offered, subject
from app.take_home import snippet
from engine import Experiment, simulate
from engine.experiment import described
from engine.model.launch import launch
from engine.model.simulated_timeline import simulate_timeline
from engine.problem.cache import cached
from engine.studies.timeline_files import MOST_SLICES, chrome_trace

# finds the page's pictures and tables in the browser, and makes files of them
PAGE_FILES = Component("page_files", Path(__file__).with_name("page_files.html"))
FILMS = Path(__file__).with_name("films.js")  # makes files of a player, here and for slides
JSON = "application/json"


def show() -> None:
    """The popover, filled when it is opened; its files are made when they are asked for."""
    popover = st.popover("Download", key="take_home", on_change="rerun")
    if not popover.open:
        return
    experiment = subject()
    name = _scenario(experiment)
    with popover:
        PAGE_FILES.mount(key="page_files", data=name)
        with st.container(horizontal=True, gap="xsmall"):  # made by the server when they are asked for
            for label, file, make, kind in _files(experiment, name):
                st.download_button(label, make, file, kind, on_click="ignore", key=f"take home {label}")
        st.caption("These files open anywhere, without a server or a network. For a slide, beside a picture:")
        st.code(f"{NAME}: {described(experiment)}", None)
        if _too_many(experiment):
            st.caption(
                f"There is no Perfetto trace, because it holds at most {MOST_SLICES:,} thread blocks and "
                f"this is {launch(experiment).blocks:,}."
            )
        st.caption(
            "This Python computes the scenario from the repository's root: first the model, then the kernel."
        )
        st.code(snippet.model(experiment), None)
        st.code(snippet.kernel(experiment), None)


def _files(experiment: Experiment, name: str) -> Iterator[tuple[str, str, Callable[[], str], str]]:
    """Files that the server makes: what each is called, its name, what makes it, and its media type."""
    for title, make in (offered(HTML) or {"Player": lambda: _player(experiment)}).items():
        yield f"{title}, HTML", f"{name}-{_slug(title)}.html", make, "text/html"
    totals = "The scenario and its totals, JSON"
    yield totals, f"{name}-totals.json", lambda: json.dumps(simulate(experiment).summary(), indent=1), JSON
    for title, make in offered(TRACE).items():  # blocks on SMs over time for ui.perfetto.dev
        yield f"{TRACE}: {title}", f"attention-{_slug(title)}-trace.json", make, JSON
    if not offered(TRACE) and not _too_many(experiment):
        yield f"{TRACE}, modelled", f"{name}-trace.json", lambda: _chrome_trace(experiment), JSON
    for title, make in offered(CSV).items():
        yield f"{title}, CSV", f"attention-{_slug(title)}.csv", make, "text/csv"


def _too_many(experiment: Experiment) -> bool:
    """Whether the scenario has more blocks than anybody looks at, and the page shows no run of its own."""
    return not offered(TRACE) and launch(experiment).blocks > MOST_SLICES


def _scenario(experiment: Experiment) -> str:
    """The start of every file's name."""
    problem = experiment.problem
    queries = f"{problem.seq_q}x" * (problem.seq_q != problem.seq_kv)
    return f"attention-{experiment.algorithm}-n{queries}{problem.seq_kv}"


def _slug(title: str) -> str:
    """A title as part of a file's name."""
    return title.lower().replace(",", "").replace(" ", "-")


def _player(experiment: Experiment) -> str:
    """The scenario's player, for pages that show none; its modules are loaded when it is asked for."""
    from app.player import PLAYER
    from app.player.payload import build

    return PLAYER.offline(build(experiment), PLAYER.title)


@cached(most=4, most_bytes=64 * 2**20)
def _chrome_trace(experiment: Experiment) -> str:
    """Seconds of a processor for the longest: made once, however many ask for it."""
    return chrome_trace(simulate_timeline(experiment))
