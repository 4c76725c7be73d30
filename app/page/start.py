"""The Start page."""

import streamlit as st


def show() -> None:
    """Draw the page."""
    st.header("Start")
