"""`python -m tests.on_gpu` presses every page's button on this machine's GPU, and prints how long it takes.

Streamlit's AppTest runs the pages, without a browser: each is pressed as by a visitor, then again, and on
Traffic and Speed the switch follows the length over some values.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button

from app.contents import GROUPS
from engine.experiment import Experiment
from engine.root import ROOT
from tests.kernels.watched_kernels import PLAIN

SCRIPT = "from app import scenario\nfrom app.page import {page}\nscenario.adopt()\n{page}.show()\n"
EXAMPLE = {"seq": "4096", "head_dim": "128"}
MOVED = (2048, 3072, 1024, 8192, 4096)
LIMIT = 120.0  # s
LOOKED = 0.05  # s between two runs of a page that waits


def opened(page: str) -> AppTest:
    """A page at the example."""
    app = AppTest.from_string(SCRIPT.format(page=page), default_timeout=LIMIT)
    for name, value in EXAMPLE.items():
        app.query_params[name] = value
    return app.run()


def said(app: AppTest) -> str:
    """What it says of what was measured, or of what went wrong."""
    found = [each.value for each in (*app.markdown, *app.error, *app.exception)]
    told = [each for each in found if "Measured here" in each and "Before" not in each]
    return " | ".join([*told, *(each.value for each in (*app.error, *app.exception))]).replace("  \n", " | ")


def until(app: AppTest, ended: Callable[[], bool]) -> float:
    """Run a page until it has ended what it does; seconds."""
    begun = time.perf_counter()
    while not ended():
        if time.perf_counter() - begun > LIMIT:
            return LIMIT
        time.sleep(LOOKED)
        app.run()
    return time.perf_counter() - begun


def button(app: AppTest) -> Button | None:
    """What measures, if there is one."""
    return next((each for each in app.button if each.label.startswith("Measure on this GPU")), None)


def pressed(app: AppTest) -> float | None:
    """Seconds from a press to the number; None where there is no button."""
    if button(app) is None:
        return None
    begun = time.perf_counter()
    button(app).click().run()
    until(app, lambda: all(each.label != "Cancel" for each in app.button))
    return time.perf_counter() - begun


def followed(app: AppTest, tokens: int) -> float:
    """Seconds from another length to its number."""
    begun = time.perf_counter()
    app.session_state["experiment"] = Experiment.of(**{**EXAMPLE, "seq": tokens})
    app.run()
    until(app, lambda: bool(said(app)))
    return time.perf_counter() - begun


def main() -> int:
    """Every page, those that measure first; 1 where one has no number."""
    st.App(ROOT / "app" / "dashboard.py")  # from now on the configuration beside it holds
    missing = 0
    pages = [name for group in reversed(GROUPS.values()) for name in group]  # the first starts the process
    own = Path(tempfile.mkdtemp()) / "mine.py"
    own.write_text(PLAIN)
    sys.argv += ["--kernel", str(own)]
    for page in [*pages, "kernel"]:
        app = opened(page)
        until(app, lambda app=app, page=page: page != "kernel" or button(app))  # that nothing was found
        times = [pressed(app) for _ in range(3)]
        if times[0] is None:
            print(f"{page}: no button")
            continue
        missing += "Measured here" not in said(app) or bool(app.error or app.exception)
        print(f"{page}: first {times[0]:.2f} s, again {times[1]:.2f} s, {times[2]:.2f} s: {said(app)}")
    for page in ("traffic", "speed"):
        app = opened(page)
        app.toggle[0].set_value(True)
        app.run()
        print(f"{page}, live:", ", ".join(f"{tokens}: {followed(app, tokens):.2f} s" for tokens in MOVED))
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
