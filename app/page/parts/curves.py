"""Lines over a quantity on the page Beyond: what they are, the chart, and what to notice."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.elements import chart
from app.figures.beyond import over
from app.scenario import theme


def curves(title: str, places: Sequence[float], lines: Mapping[str, tuple], notice: str, **axes) -> None:
    """A chart of lines, which with its axes are as `over` takes them."""
    st.markdown(title)
    chart(over(places, lines, theme.colours(), **axes), title.split("**")[1])
    if notice:
        st.caption(notice)
