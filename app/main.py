"""The dashboard's entry point: `streamlit run app/main.py` from the repository root."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import streamlit as st  # noqa: E402
from starlette.routing import Route  # noqa: E402

from app.frame.document import routes  # noqa: E402
from app.serving.guard import MIDDLEWARE  # noqa: E402
from app.serving.start import lifespan  # noqa: E402


def application(more: Sequence[Route] = (), around: Callable = lifespan) -> st.App:
    """The dashboard, with more addresses, and what begins and ends with it."""
    script = ROOT / "app" / "dashboard.py"
    return st.App(script, routes=[*routes(), *more], middleware=MIDDLEWARE, lifespan=around)


app = application()
