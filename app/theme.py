"""The theme the reader has chosen, and the few style rules that Streamlit has no setting for."""

from __future__ import annotations

import streamlit as st

from app.figures.colours import Palette, palette

STYLE = """
<style>
  [data-testid="stSidebar"] { min-width: 244px; max-width: 244px; }
  [data-testid="stSidebarContent"] [data-testid="stVerticalBlock"] { gap: 0.35rem; }
  [data-testid="stSidebarHeader"] { height: 2.2rem; margin: 0; padding-block: 0; }
  [data-testid="stMetricValue"], [data-testid="stSlider"] p, input[type="number"], .number {
    font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
    font-variant-numeric: tabular-nums;
  }
</style>
"""


def colours() -> Palette:
    """The palette of the theme that the browser shows now."""
    return palette(st.context.theme.type == "dark")


def apply() -> None:
    """Send the style rules; once a run, before anything is drawn."""
    st.html(STYLE)
