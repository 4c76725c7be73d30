"""The dashboard's entry point: `streamlit run app/main.py` from the repository root."""

import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import streamlit as st  # noqa: E402

from app import glossary, presenter, scenario, sidebar, take_home, theme  # noqa: E402
from app.page import PAGES  # noqa: E402
from app.presenter.mode import presenting  # noqa: E402


def page(name: str, title: str) -> st.Page:
    """A page whose module is imported when it is first opened."""

    def show():
        import_module(f"app.page.{name}").show()

    return st.Page(show, title=title, url_path=name)


st.set_page_config(page_title="Attention, tile by tile", layout="wide")
scenario.adopt()
theme.apply()
pages = [page(name, title) for name, title in PAGES.items()]
# Streamlit gives its default page no path of its own: a hidden one stands at "/" and leads to /tiles.
home = st.Page(lambda: None, title="Home", url_path="home", default=True, visibility="hidden")
opened = st.navigation([home, *pages], position="top")
if opened == home:
    st.switch_page(pages[0], query_params=scenario.link_values())
if scenario.notices():
    # As text, not Markdown: the sentences quote what came with the link.
    with st.container(border=True, key="notices"):
        st.text("\n".join(scenario.notices()))
presenter.show(pages, opened)
# The page goes first: it is what a moved slider changes, and the browser shows what arrives first.
failure = None
try:
    opened.run()
except Exception as error:  # the sidebar still comes: another scenario may be shown
    failure = error
with st.sidebar, st.container(horizontal=True, key="tools"):
    take_home.show()
    glossary.show()
    if not presenting():
        presenter.button()
glossary.hover()
sidebar.show()
scenario.publish(opened.url_path)
if failure:
    raise failure  # to the terminal; the page says it in the theme's words
