"""The style rules that Streamlit has no setting for, sent to where each is needed."""

import re
from pathlib import Path

import streamlit as st

from app.contents import HOME, OWN
from app.figures.base import RULES
from app.scenario import theme
from app.scenario.presentation import presenting

SECTION = re.compile(r"/\* == (\w+): [^*]* \*/\n(.*?)(?=/\* == |\Z)", re.DOTALL)
SECTIONS = dict(SECTION.findall(Path(__file__).with_name("streamlit.css").read_text("utf-8")))


def early(aside: bool, presented: bool) -> str:
    """The rules that hold on every page, with a sidebar or without; the document has them.

    Those of a presentation are there until a run has sent them: it may end, while the document stays.
    """
    aside_rules = SECTIONS["aside"] if aside else ""
    room = f'<style id="presented">{SECTIONS["presented"]}</style>' if presented else ""
    waiting = f'<style id="waiting">{SECTIONS["waiting"]}</style>'
    return f"<style>{SECTIONS['everywhere']}{RULES}{aside_rules}</style>{waiting}{room}"


def apply(page: str) -> None:
    """Send what the document's rules lack on this page, and in this theme; before anything is drawn."""
    colours = theme.colours()
    told = {"ground": colours.ground, "muted": colours.muted, "q": colours.q, "s": colours.s}
    here = {"aside": page != HOME, "start": page == HOME, "kernel": page in OWN, "presented": presenting()}
    rules = f":root {{ {' '.join(f'--theme-{name}: {colour};' for name, colour in told.items())} }}"
    send(rules + "".join(SECTIONS[name] for name, on in here.items() if on))


def send(rules: str) -> None:
    """Let rules hold while this run's page is shown."""
    # the browser loads what draws st.html later than what draws Markdown
    with st.container(key="style"):
        st.markdown(f"<style>{rules}</style>", unsafe_allow_html=True)
