"""The sidebar: the controls of the scenario, and whether its blocks fit the GPU."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import streamlit as st

from app import scenario, serving
from app.elements import fold
from app.figures.hardware import figures_lines
from app.scenario.offers import subject
from app.sidebar import inputs, recording
from app.sidebar.unused import look
from engine import simulate
from engine.algorithms import ALGORITHMS, offered
from engine.experiment import PARAMETERS, described
from engine.parameter import LARGEST_SEQUENCE
from engine.problem.dtype import DTYPES
from engine.problem.hardware import GPUS
from engine.schedule.traits import traits

SEQUENCES = tuple(2**power for power in range(6, 21))
HEAD_DIMS = (16, 32, 64, 96, 128, 192, 256)
BLOCKS = (16, 32, 64, 128, 256)
MASKS = {False: "none", True: "causal"}
PARAMETER = {"before": "window", "after": "window", "lengths": "documents"}  # where a field is a part of one
BEFORE_HELP = (
    "A window: a query sees its own key, this many before it, and as many after it as More says. Leave it "
    "empty for no window."
)
AFTER_HELP = "A query sees this many keys after its own. Under a causal mask it sees none."
DOCUMENTS_HELP = (
    "The keys are several documents, of which a query sees only its own. Type how many of equal length, or "
    "the length of each, such as 100, 900, 24, which add up to the keys. 1 means no such mask."
)
KEYS_HELP = (
    "The number of keys and values; the last query is aligned with the last key. Leave it empty for as "
    "many as queries."
)
BESIDE_HELP = (
    "Keep this scenario as B and show it beside A, which the sidebar goes on changing: two algorithms, two "
    "GPUs, two sizes of blocks."
)
BEGIN_ELSEWHERE = (
    " Under this window its key blocks begin where each query block stands, and their bytes are counted so; "
    "tiles are drawn and counted as if they began at the first key."
)
Field = tuple[str, str, dict[str, Any]]  # a widget of Streamlit's, its label, and what else it is given


def show() -> None:
    """Draw every control; each changes one value of the scenario."""
    with st.sidebar:
        algorithms = tuple(dict.fromkeys((*offered(), scenario.current().algorithm)))  # maybe a link's
        heads, gpus = tuple(scenario.divisors(scenario.current().problem.heads)), inputs.gpus()
        looks = {"label_visibility": "collapsed", "required": True}
        fields = (
            _select("Scenario", "preset", tuple(scenario.PRESETS), placeholder="presets"),
            inputs.choice(),
            _select("Algorithm", "algorithm", algorithms, format_func=lambda key: ALGORITHMS[key].label),
            _slider("Sequence length", "seq", SEQUENCES),
            _number("Sequence length, typed", "seq typed", 1, LARGEST_SEQUENCE, **looks),
            _slider("Head dimension", "head_dim", HEAD_DIMS),
            _block("Query block", "block_q"),
            _block("Key block", "block_kv"),
            _number("Heads", "heads", 1, 1024, required=True),
            _select("KV heads", "kv_heads", heads),
            _select("Mask", "causal", tuple(MASKS), format_func=MASKS.get),
            _keys("before", "all", BEFORE_HELP),
            _select("Data type", "dtype", tuple(DTYPES)),
            _select("GPU", "hardware", tuple(gpus), format_func=gpus.get),
        )
        _draw(fields)
        _more()
        with st.container(border=True, key="footprint"):
            st.markdown(_fit())
        _beside()
        hardware = scenario.current().hardware
        title = f"Figures of the {GPUS[hardware].name}, and their sources"
        fold("gpu figures", partial(_figures, hardware), title)


def _field(kind: str, label: str, name: str, help: str | None = None, **given: Any) -> Field:
    """A widget that shows and changes one value of the scenario, greyed where that has no effect."""
    tied = scenario.control(name, given["options"] if kind == "selectbox" else None)
    return kind, label, {**look(PARAMETER.get(name, name), help), **given, **tied}


def _slider(label: str, name: str, usual: tuple[int, ...]) -> Field:
    return _field("select_slider", label, name, options=tuple(scenario.options(name, usual)))


def _select(label: str, name: str, options: tuple, **more: Any) -> Field:
    return _field("selectbox", label, name, options=options, **more)


def _number(label: str, name: str, least: int, most: int, **more: Any) -> Field:
    return _field("number_input", label, name, min_value=least, max_value=most, **more)


def _draw(fields: Iterable[Field]) -> None:
    """Fields in turn. The style puts two in a row: a container would be one more message of every run."""
    for kind, label, given in fields:
        getattr(st, kind)(label, **given)


def _block(label: str, name: str) -> Field:
    """A slider; where the algorithm has blocks of its own, they are shown and cannot be moved."""
    experiment = scenario.current()
    if not experiment.record.chooses_tiling:
        return _slider(label, name, BLOCKS)
    own = getattr(experiment.tiling, name)
    why = f"{experiment.record.label} chooses its own blocks by head dimension."
    if name == "block_kv" and traits(simulate(experiment).schedule).copies_elsewhere:
        why += BEGIN_ELSEWHERE
    given = {"options": tuple(sorted({*BLOCKS, own})), "value": own, "key": f"own {name} {own}"}
    return "select_slider", label, {**given, "disabled": True, "help": why}


def _keys(side: str, empty: str, why: str, **more: Any) -> Field:
    """One side of a window; `empty` is shown where there is none."""
    bounds = 0, LARGEST_SEQUENCE - 1
    return _number(f"Keys {side}", side, *bounds, help=why, placeholder=empty, **more)


def _further() -> tuple[Field, ...]:
    """What is seldom moved."""
    batch = _number("Batch", "batch", 1, 4096, required=True)
    keys = _number("Keys", "seq_kv", 1, LARGEST_SEQUENCE, help=KEYS_HELP, placeholder="equal")
    causal = scenario.current().problem.mask.causal
    after = _keys("after", "none" if causal else "all", AFTER_HELP, **{"disabled": True} if causal else {})
    documents = _field("text_input", "Documents", "lengths", DOCUMENTS_HELP)
    others = [one for one in PARAMETERS.values() if one.label]  # what is laid out by hand has none
    kinds = ("text_input", "checkbox")
    more = [
        _field(kinds[one.is_switch], one.label, one.name, f"It must be {one.must}.")
        for one in sorted(others, key=lambda one: one.is_switch)
    ]
    return batch, keys, after, documents, *more


def _more() -> None:
    """Drawn from when it is first opened; then it stays, and keeps what was chosen and uploaded."""
    more, opened = st.expander("More", key="more", on_change="rerun"), scenario.kept("opened", {})
    opened["more"] = more.open or opened.get("more", False)
    if opened["more"]:
        with more:
            _draw(_further())
            if serving.may_run():
                inputs.upload()
            else:
                st.caption(serving.REFUSED)
            recording.show()


def _beside() -> None:
    """What stands beside the scenario, A, and what puts it there."""
    other = scenario.beside.other()
    if other is None:
        st.button("Beside", on_click=lambda: scenario.beside.put(scenario.current()), help=BESIDE_HELP)
        return
    with st.container(horizontal=True):
        st.button("Swap A and B", on_click=scenario.beside.swap)
        st.button("A alone", on_click=scenario.beside.put, args=(None,))
    differs = ", ".join(f"{name} {value or 'none'}" for name, value in scenario.beside.differing().items())
    st.caption(f"B, beside it: {differs or 'the same so far: change a value, which changes A'}.")


def _fit() -> str:
    """A few short lines, green or red: what a thread block of what the page shows keeps on the chip."""
    experiment, whose = subject(), ""
    if experiment != scenario.current():
        what = described(experiment).replace(experiment.algorithm, experiment.record.label, 1)
        whose = f":gray[The page shows {what}.]  \n"
    footprint, record = simulate(experiment).footprint, experiment.record
    words = " ".join(filter(None, (experiment.unserved, record.parts_words, record.caveat)))
    told = f"{footprint.consequence}{footprint.spilled}"
    colour = "green" if footprint.fits else "red"
    return f"{whose}:{colour}[**{footprint.verdict}**]  \n{told}  \n:gray[{words}]"


def _figures(hardware: str) -> None:
    """Every figure of a GPU with its source."""
    gpu = GPUS[hardware]
    lines = (f"**{group}**: {words}  \n:gray[{source}]" for group, words, source in figures_lines(gpu))
    st.markdown("\n\n".join(lines))
    if gpu.limits:
        st.caption(gpu.limits)
