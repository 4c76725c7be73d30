"""The colours of the theme that the reader has chosen."""

from dataclasses import replace

import streamlit as st

from app.figures.colours import Palette, palette
from app.scenario import presentation


def colours() -> Palette:
    """The palette of the theme that the browser shows now, its charts enlarged as a presenter's page is."""
    chosen = palette(st.context.theme.type == "dark")
    scale = presentation.type_size() / presentation.USUAL_TYPE
    return replace(chosen, scale=scale) if presentation.presenting() else chosen
