"""The dashboard's entry point: `streamlit run app/main.py` from the repository root."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import streamlit as st  # noqa: E402

from app import command_line  # noqa: E402
from app.frame.document import routes  # noqa: E402
from app.frame.startup import lifespan  # noqa: E402
from app.serving.guard import MIDDLEWARE  # noqa: E402

command_line.check()
# Streamlit reads this line to tell an application from a script
app = st.App(ROOT / "app" / "dashboard.py", routes=routes(), middleware=MIDDLEWARE, lifespan=lifespan)
