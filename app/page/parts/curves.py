"""Lines over a quantity on the page Beyond: what they are, the chart, and what to notice."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.elements import chart
from app.figures.beyond import Line, over
from app.scenario import theme


def curves(title: str, places: Sequence[float], lines: Mapping[str, tuple], notice: str, **axes) -> None:
    """A chart of lines, each of its values, a colour's name, and maybe a dash; axes as `over` takes them."""
    st.markdown(title)
    drawn = {name: Line(*each) for name, each in lines.items()}
    chart(over(places, drawn, theme.colours(), **axes), title.split("**")[1])
    if notice:
        st.caption(notice)
