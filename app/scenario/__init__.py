"""The scenario: widgets, URL and Experiment kept as one; the only user of session state and query parameters.

The Experiment in the session is the truth (`state`). A link or the back button replaces it (`link`); a widget
changes one value of it (`widgets`); every run shows it in the widgets and writes it to the URL.
"""

from app.scenario.link import adopt, leads_on, link_values, publish, settle, short_values, turn_to, url_values
from app.scenario.page_values import own, own_values, tie
from app.scenario.presets import PRESETS, first, preset
from app.scenario.state import arrive, current, go, kept, kept_in_run, notices, place, replace
from app.scenario.widgets import control, divisors, options

__all__ = [
    "PRESETS",
    "adopt",
    "arrive",
    "control",
    "current",
    "divisors",
    "first",
    "go",
    "kept",
    "kept_in_run",
    "leads_on",
    "link_values",
    "notices",
    "options",
    "own",
    "own_values",
    "place",
    "preset",
    "publish",
    "replace",
    "settle",
    "short_values",
    "tie",
    "turn_to",
    "url_values",
]
