"""The dashboard's entry point: `streamlit run app/main.py` from the repository root."""

import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import streamlit as st  # noqa: E402

from app import scenario, sidebar, theme  # noqa: E402

PAGES = ("Tiles", "Softmax", "Traffic", "Speed", "Agreement")


def page(title: str, default: bool) -> st.Page:
    """A page whose view is imported when it is first opened, so that none waits for another's libraries."""
    name = title.lower()

    def show():
        import_module(f"app.views.{name}").show()

    return st.Page(show, title=title, url_path=name, default=default)


st.set_page_config(page_title="Attention, tile by tile", layout="wide")
theme.apply()
scenario.adopt()
pages = [title for title in PAGES if (ROOT / "app" / "views" / f"{title.lower()}.py").exists()]
opened = st.navigation([page(title, title == pages[0]) for title in pages], position="top")
sidebar.show()
scenario.publish()
if scenario.notices():
    # As text, not Markdown: the sentences quote what came with the link.
    with st.container(border=True, key="notices"):
        st.text("\n".join(scenario.notices()))
opened.run()
