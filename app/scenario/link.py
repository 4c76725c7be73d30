"""The scenario in the address: taken from a link, written to every link, whatever a link holds."""

from collections.abc import Sequence

import streamlit as st

from app.contents import HOME
from app.scenario import beside, page_values, presets, state, widgets
from engine.experiment import PARAMETERS, Experiment, ExperimentError

PLACES = ("tour", "step", "minutes", "present")  # where the reader is: in the URL beside the scenario
TOO_LONG = "link_too_long"  # what the server makes of a link with more than it takes
MOST_VALUES, MOST_CHARACTERS = 1_000, 500_000
BACK = "went_back"  # what `frame.js` writes into an address that the browser has gone back or forward to
LEFT_OUT = (
    "The link has more than 1,000 values or 500,000 characters, which is more than this server reads, so all "
    "of it was left out. Shown instead: the usual scenario."
)
LECTERN = "presenter"  # in the URL of the lecturer's own window, with or without a value
ALWAYS = ("algorithm", "seq", "head_dim", "block_q", "block_kv")
TOUR = "tour"  # the page whose steps have scenarios of their own
NAMED = 4  # of a link's unknown names that a sentence lists
FOLLOWING = {"kv_heads": "as many as heads", "seq_kv": "as many as queries"}  # what they are by default


def adopt() -> None:
    """Take the scenario from the URL when the session starts or the reader goes back, else from widgets.

    A URL without values is where Streamlit leads when the page is switched: it says nothing of the scenario.
    """
    values = st.query_params.to_dict()
    state.begin_run()
    if values.pop(BACK, None):
        state.kept_in_run(BACK, True)
    if state.started() and not (values.keys() - PLACES and _went_back()):
        return widgets.take()
    places = {name: values.pop(name) for name in PLACES if name in values}
    if LECTERN in values:
        places[LECTERN] = "" if values.pop(LECTERN) == "false" else "true"
    too_long = values.pop(TOO_LONG, None) is not None
    beside_it = values.pop(beside.BESIDE, None)
    asked, wrong = page_values.read(values)
    values = {name: value for name, value in values.items() if name not in page_values.OWN}
    experiment, errors = Experiment.lenient(values)
    errors = (*errors, *wrong)
    if places.get("present", "false") not in ("true", "false"):
        errors = (*errors, ExperimentError("present", repr(places.pop("present"))[:60], "true or false"))
    said = [LEFT_OUT] * too_long + notices(errors)
    state.start(experiment, said, places | asked, by_link=bool(values))
    for error in beside.adopt(beside_it)[:NAMED]:
        state.note(f"The scenario beside it was not taken whole: {error!s:.300}.")
    state.kept("told link", {}).clear()
    widgets.forget()


def _went_back() -> bool:
    """Whether this run was asked for by the browser's back or forward button."""
    return state.kept_in_run(BACK, False)


def leads_on() -> bool:
    """Whether a link to no page has brought a scenario; on the way back it leads no further."""
    return state.came_by_link() and not _went_back()


def settle(page: str) -> None:
    """Give the reader's own scenario back on every page but the tour's, whose steps show theirs."""
    if page != TOUR:
        state.leave(presets.first(page))


def publish(page: str) -> None:
    """Write the scenario to the URL, and where the reader is on the page of that name.

    The browser asks for a run with the URL that it has, and may get another from the run before meanwhile: it
    is told too where it asked with the right one, but was last told another.
    """
    wanted, told = link_values(page), state.kept("told link", {})
    if st.query_params.to_dict() != wanted or told.get(page, wanted) != wanted:
        st.query_params.from_dict(wanted)
    told.clear()
    told[page] = wanted


def link_values(page: str) -> dict[str, str]:
    """The values of a link to what is shown now: the mode, the scenario, the step or what the page asks."""
    names = PLACES if page == TOUR else ("present",)
    places = {name: state.place(name) for name in names if state.place(name) not in ("", "false")}
    if page == HOME:
        return places
    return places | url_values(state.current()) | page_values.own_values(page) | beside.link_value()


def turn_to(name: str) -> None:
    """Open another page, with the scenario and the mode of this one; the frame keeps the pages."""
    st.switch_page(state.kept_in_run("pages", {})[name], query_params=link_values(name))


def short_values(page: str) -> dict[str, str]:
    """The fewest values of a link that others open: the scenario's own, and a step of the tour."""
    plain = {name: widgets.text(parameter.default) for name, parameter in PARAMETERS.items()}
    values = link_values(page)
    values.pop("present", None)
    short = {name: value for name, value in values.items() if value != plain.get(name)}
    bare = page in presets.FIRST and state.current() != presets.first(page)  # no value is another
    return short or ({"algorithm": values["algorithm"]} if bare else {})


def url_values(experiment: Experiment) -> dict[str, str]:
    """The values of a link that restores the experiment exactly; the first few are always there."""
    names = {*ALWAYS, *experiment.unusual()}
    return {name: widgets.text(value) for name, value in experiment.flat().items() if name in names}


def notices(errors: Sequence[ExperimentError]) -> list[str]:
    """One sentence on each value of a link that was replaced, and one on all names that are not known.

    They quote the link, so show them as text.
    """
    known = {*PARAMETERS, *page_values.OWN, "present"}
    unknown = [error.field for error in errors if error.field not in known]
    found = [_notice(error) for error in errors if error.field in known]
    if len(unknown) == 1:
        found.append(
            f"The link has a value named {unknown[0]!r:.60}, which is not known here; it was left out."
        )
    elif unknown:
        named = ", ".join(f"{name!r:.60}" for name in unknown[:NAMED])
        more = f" and {len(unknown) - NAMED:,} more" if len(unknown) > NAMED else ""
        found.append(f"The link has values that are not known here; they were left out: {named}{more}.")
    return found


def _notice(error: ExperimentError) -> str:
    if error.field == "present":
        return f"The link's {error}. Shown instead: false."
    if error.field in page_values.OWN:
        return f"The link's {error}. Shown instead: {page_values.OWN[error.field].usual}."
    shown = FOLLOWING.get(error.field, PARAMETERS[error.field].default)
    return f"The link's {error}. Shown instead: {'off' if shown is None else widgets.text(shown)}."
