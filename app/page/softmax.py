"""The online softmax: one row of scores, score by score or block by block."""

from functools import partial

import numpy as np
import streamlit as st

from app import scenario
from app.elements import fold, numbers, plot
from app.figures import softmax as figures
from app.figures.units import counted, number_text
from app.gallery.picture import Drawn, Picture, SiteFile
from app.markup import mathml
from app.page.parts import rescales
from app.rescale import RESCALE, payload, row_of_head
from app.scenario import theme
from app.sidebar.unused import CONTROLS, unused
from engine.experiment import Experiment
from engine.problem.heads import text_of
from engine.problem.inputs import fits, tokens_of, written
from engine.studies.drawable import drawable
from engine.studies.rescales import Rescaling, raised_at, row_of
from engine.studies.terms import CAPS, SINKS, ScoreTerms, capped, score_terms
from engine.trace import softmax as online
from engine.trace.rows import HeadRow

BLOCKS = (1, 2, 4, 8, 16)
OWN = "The scenario's"  # row
CHOSEN = "softmax row"
MOST_NAMED = 6  # tokens that raised the maximum
EXAMPLE_BLOCK = 4  # scores per step of the rows in the static site
FORMULAS = (
    r"m' &= \max(m,\ \max_j s_j)",
    r"\alpha &= e^{\,m - m'}",
    r"l' &= \alpha\, l + \textstyle\sum_j e^{\,s_j - m'}",
    r"O' &= \alpha\, O + \textstyle\sum_j e^{\,s_j - m'}\, V_j",
)


def show() -> None:
    """Draw the page."""
    experiment = scenario.current()
    if scenario.kept(CHOSEN, {"row": OWN})["row"] == OWN:
        unused("A row of scores is the same for every algorithm and GPU.", "algorithm", "hardware", "block_q")
        unused("This is a row of the first head.", "batch", "heads", "kv_heads")
    else:
        others = [name for name in CONTROLS if name != "dtype"]
        unused(f"These scores are an example. Choose '{OWN}' to follow the scenario.", *others)
    _row(experiment)
    fold("terms", partial(_terms, experiment), "What do a sink and a cap change?")


@st.fragment
def _row(experiment: Experiment) -> None:
    """Everything about one row; its own controls redraw only this."""
    with st.container(key="softmax_sliders"):
        chosen, typed, size = st.columns([1.1, 3, 1], gap="medium", vertical_alignment="bottom")
    name = chosen.selectbox(
        "Row of scores",
        [OWN, *online.PRESETS],
        format_func=lambda key: online.PRESETS[key].name if key in online.PRESETS else key,
    )
    if name != scenario.kept(CHOSEN, {"row": OWN})["row"]:
        scenario.kept(CHOSEN, {})["row"] = name
        st.rerun()  # with the sidebar, whose controls follow
    try:
        row, what, packed = _chosen(experiment, name, typed, size)
    except ValueError as error:
        st.text(f"{error}.")
        return
    (typed if name == OWN else st).caption(what)
    RESCALE.show(packed, key=f"softmax {name}", title=f"Online softmax, {name}")
    fold("softmax", partial(_comparison, row), "Why subtract the maximum? How is this counted?")
    if name == OWN:
        fold("rescales", partial(rescales.show, experiment), "How often do these heads rescale?")


def _chosen(experiment: Experiment, name: str, typed, size) -> tuple[Rescaling, str, bytes]:
    """The row, what it is, and its payload; ValueError of what was typed."""
    if name == OWN:
        found, row, packed = row_of_head(experiment)
        return row, _whose(found, experiment, drawable(experiment)), packed
    preset = online.PRESETS[name]
    text = typed.text_input(
        "Scores (edit them); -inf masks a key",
        " ".join(f"{score:g}" for score in preset.scores),
        key=f"softmax scores {name}",
    )
    block = size.select_slider("Scores per step", BLOCKS, EXAMPLE_BLOCK)
    scores = online.parse(text)
    mine = list(preset.scores) != scores.tolist()
    row = row_of(scores, block, experiment.problem.dtype)
    return row, "These are your own scores; the values are drawn." if mine else preset.what, payload(row)


def _whose(found: HeadRow, asked: Experiment, drawn: Experiment) -> str:
    """Which of the scenario's scores are shown, and whose numbers they are."""
    shown, block = int(np.isfinite(found.scores).sum()), drawn.tiling.block_kv
    keys = counted(found.seen, "key")
    part = f"its {keys}" if shown == found.seen else f"{shown:,} of the {keys} it sees"
    if not found.seen:
        part = "no keys, as it stands before the first one"
    scaled = f", scaled down to {counted(drawn.problem.seq_kv, 'key')}," * (drawn is not asked)
    named = text_of(asked.problem.inputs)
    head = f"head {named[1]} of layer {named[0]}" if named else "the scenario's first head"
    steps = f"one key block of {block:,} per step"
    if found.step < block:
        steps = f"all in one step, as a key block has {block:,}"
    first, whose = f"; score 0 is of key {found.first:,}" * (found.first > 0), rescales.NUMBERS
    if fits(drawn.problem):  # where tokens are known, which of them raised the maximum
        rises, tokens = raised_at(found.scores) + found.first, written(tokens_of(drawn.problem))
        row = f" in the row of {tokens[found.row]!r}" if len(tokens) > found.row else ""
        last = [repr(tokens[key]) for key in rises[-MOST_NAMED:]] if tokens else []
        raised = f", last at {', '.join(last)}" if last else ""
        whose = (
            f"The numbers are a real head's:{row} the maximum rises {counted(len(rises), 'time')}{raised}."
        )
    return (
        "Read in pieces, a softmax must correct what it has whenever a larger score comes. "
        f"This is query row {found.row:,} of {head}{scaled} with {part}, {steps}{first}. "
        f"{whose} Choose another row to type scores of your own."
    )


def _terms(experiment: Experiment) -> None:
    """Rows that sum below one, and the curve of the cap, on the scenario's scores."""
    found, colours = score_terms(experiment), theme.colours()
    sinks, caps = st.columns(2, gap="large")
    plot(
        _beside_a_sink(found),
        figures.sums(found, colours),
        "A sink is a learned logit per head: it stands in the sum l like one more score, but has no "
        "value. A head that has found nothing may so attend to nothing. Rows with few keys lose most.",
        **{"alt": "Sum of every row's weights beside a sink", "where": sinks},
    )
    plot(
        _under_a_cap(found),
        figures.caps(found, colours),
        "A cap c makes c · tanh(s / c) of a score s, so none passes c and small ones hardly move; the "
        "bars are how the scores are spread. Gemma 2 caps at 50 (arXiv 2408.00118).",
        **{"alt": "The curve of the cap over the scenario's scores", "where": caps},
    )
    st.caption(
        "Computed here in float64 from the scores of up to 256 rows of the first head, on "
        f"{counted(found.keys, 'key')}, under the scenario's mask."
    )


def _beside_a_sink(found: ScoreTerms) -> str:
    sink, sums = SINKS[1], found.sums[SINKS[1]]
    seeing = np.flatnonzero(sums)
    middle = seeing[len(seeing) // 2]
    return (
        f"A sink takes a share of the softmax and gives nothing for it: beside one of {sink:g}, the weights "
        f"of row {found.rows[middle]:,} sum to {number_text(sums[middle])}, not to 1."
    )


def _under_a_cap(found: ScoreTerms) -> str:
    largest = float(found.scores.max())
    low, *_, high = (number_text(float(capped(np.array(largest), cap)), 4) for cap in CAPS)
    return (
        f"A cap bends large scores towards it: under {CAPS[0]:g} the largest score here, "
        f"{number_text(largest, 4)}, becomes {low}, and under {CAPS[-1]:g} it becomes {high}."
    )


def _comparison(row: Rescaling) -> None:
    """The formulas, and the largest error of each softmax in the row's dtype."""
    st.latex(r"\begin{aligned}" + r" \\ ".join(FORMULAS) + r"\end{aligned}")
    rows = []
    for name, off in online.errors(row.scores, row.block, row.dtype).items():
        told = f"{off:.1e}" if off else "0"
        rows.append(
            {row.dtype: f"{name} softmax", "largest error": told if np.isfinite(off) else "inf / inf"}
        )
    numbers(rows, "Errors of the weights")
    st.caption(
        "The picture's numbers are computed in float64, in your browser. The table has the largest error of "
        "any weight against float64, computed here: m, l and sums are in float32, as in kernels; weights, "
        f"and the exponentials that naive and safe store, are in {row.dtype}. Naive takes exp(s) as it is; "
        "safe finds the maximum first; online needs no pass for it."
    )


def _own(experiment: Experiment) -> Drawn:
    """The scenario's row."""
    return Drawn(moving=RESCALE, data=row_of_head(experiment)[2])


def _example(name: str) -> Drawn:
    """A row of the examples, with the formulas above it."""
    formulas = "".join(mathml(formula.replace("&", "")) for formula in FORMULAS)
    row = row_of(np.array(online.PRESETS[name].scores), EXAMPLE_BLOCK, "float16")
    return Drawn(formulas, RESCALE, payload(row), says=online.PRESETS[name].what)


def _files() -> list[SiteFile]:
    """The first example, by which the page is found, and the others."""
    return [
        SiteFile(f"softmax{f'-{name}' * bool(at)}.html", preset.name, ABOUT, partial(_example, name))
        for at, (name, preset) in enumerate(online.PRESETS.items())
    ]


ABOUT = "Rows of scores, some at a time: the running maximum and sum, and what is rescaled."
PICTURE = Picture(_own, _files)
