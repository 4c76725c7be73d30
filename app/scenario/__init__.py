"""The scenario: widgets, URL and Experiment kept as one; the only user of session state and query parameters.

The Experiment in the session is the truth (`state`). A link or the back button replaces it (`link`); a widget
changes one value of it (`widgets`); every run shows it in the widgets and writes it to the URL.
"""

# ruff: noqa: F401  what is imported here is what pages call
from app.scenario import beside
from app.scenario.link import (
    adopt,
    leads_on,
    link_values,
    publish,
    settle,
    short_values,
    turn_to,
    url_values,
)
from app.scenario.page_values import own, own_values, tie
from app.scenario.presets import PRESETS, first, preset
from app.scenario.state import arrive, current, go, kept, kept_in_run, notices, place, replace, told
from app.scenario.widgets import control, divisors, options
