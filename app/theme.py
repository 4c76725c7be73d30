"""The theme the reader has chosen, and the few style rules that Streamlit has no setting for."""

from __future__ import annotations

import streamlit as st

from app.figures.colours import Palette, palette
from app.figures.tables import STYLE as TABLE_STYLE

STYLE = """
<style>
  [data-testid="stSidebar"] { min-width: 256px; max-width: 256px; }
  [data-testid="stSidebarContent"], [data-testid="stSidebarHeader"] { padding-inline: 0; }
  [data-testid="stSidebarHeader"] { height: 1.6rem; margin-block: 0; }
  [data-testid="stSidebarUserContent"] { padding-inline: 1rem; }
  [data-testid="stSidebar"] [data-testid="stVerticalBlock"] { gap: 0.3rem; }
  [data-testid="stSidebar"] [data-testid="stHorizontalBlock"] { gap: 0.5rem; }
  [data-testid="stSidebar"] [data-testid="stWidgetLabel"] { white-space: nowrap; min-height: 1.2rem; }
  [data-testid="stMainBlockContainer"] { padding-inline: 1.5rem; }
  [data-testid="stSliderThumbValue"], [data-testid="stMetricValue"], input[type="number"] {
    font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
    font-variant-numeric: tabular-nums;
  }
  [data-testid="stSidebar"] input[type="number"] { padding-inline: 0.5rem; }
  [data-testid="stWidgetLabelRequired"] { display: none; }
  .st-key-tools { position: relative; z-index: 1; margin-top: -1.3rem; max-width: 12.2rem; }
  .st-key-tools button { min-height: 0; padding: 0.15rem 0.45rem; }
  .st-key-tools button p { font-size: 0.85rem; white-space: nowrap; }
  .st-key-tools [data-testid="stPopoverButton"] svg { display: none; }
  [data-testid="stPopoverBody"] { max-width: min(44rem, 94vw); }
  .st-key-footprint { padding: 0.5rem 0.7rem; }
  .st-key-footprint p { font-size: 0.85rem; }
  .st-key-notices { padding: 0.4rem 0.8rem; }
</style>
"""


def colours() -> Palette:
    """The palette of the theme that the browser shows now."""
    return palette(st.context.theme.type == "dark")


def apply() -> None:
    """Send the style rules; once a run, before anything is drawn."""
    st.html(STYLE + TABLE_STYLE)
