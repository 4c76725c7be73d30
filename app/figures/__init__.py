"""Figures: engine data in, Plotly figures out. No streamlit, no arithmetic beyond scaling."""
