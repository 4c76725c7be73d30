"""The online softmax: one row of scores, score by score or block by block."""

from functools import partial
from html import escape

import numpy as np
import streamlit as st

from app import scenario
from app.elements import GREY, chart, fold
from app.figures import softmax as figures
from app.figures.base import drawn as draw
from app.figures.base import line, marks
from app.figures.colours import Palette
from app.figures.tables import table
from app.figures.units import counted, number_text, told_apart, unbroken
from app.gallery.html_page import both, sideways
from app.gallery.picture import Drawn, Picture, SiteFile
from app.gallery.svg import chart as svg
from app.gallery.without_streamlit import in_both_themes
from app.markup import mathml
from app.page.parts.stepper import played, stepper
from app.scenario import theme
from app.scenario.presentation import presenting
from app.sidebar.unused import CONTROLS, unused
from app.tour.pictures import PICTURES
from engine.experiment import Experiment
from engine.studies.drawable import drawable
from engine.studies.terms import CAPS, SINKS, ScoreTerms, capped, score_terms
from engine.trace import softmax as online
from engine.trace.rows import HeadRow, middle_row

EXAMPLE_BLOCK, EXAMPLE_DTYPE = 4, "float16"  # of the example rows in the static site
EXAMPLE_HEAD = ("scores read", "m", "α", "l", "what happens")
BLOCKS = (1, 2, 4, 8, 16)
OWN = "The scenario's"  # row
CHOSEN, STEP = "softmax row", "softmax step"
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
    played(STEP, partial(_row, experiment))
    fold("terms", partial(_terms, experiment), "What do a sink and a cap change?")


def _row(experiment: Experiment) -> None:
    """Everything about one row; its own controls redraw only this."""
    dtype = experiment.problem.dtype
    headline = st.container(key="softmax_headline")
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
        scores, block, what = _scores(experiment, name, typed, size)
    except ValueError as error:
        st.text(f"{error}.")
        return
    steps = online.online_steps(scores, block)
    step = stepper("Step", len(steps.stops), telling(steps), name=STEP, unit="step", plays=True)
    headline.header(unbroken(sentence(steps, step)), anchor=False)
    (typed if name == OWN else headline).caption(what)
    picture, numbers = st.columns([2.3, 1], gap="medium")
    with picture:
        naive, low = online.naive_sums(scores, dtype), presenting()
        figure = figures.row(scores, steps, step, naive, dtype, theme.colours(), low=low)
        chart(figure, "Scores, weights, sums and rescale factors", "softmax row")
    with numbers:
        _numbers(steps, step)
        st.latex(r"\begin{aligned}" + r" \\ ".join(FORMULAS) + r"\end{aligned}")
    comparison = partial(_comparison, scores, block, dtype)
    fold("softmax", comparison, "Why subtract the maximum? How is this counted?")


def _scores(experiment: Experiment, name: str, typed, size) -> tuple[np.ndarray, int, str]:
    """The scores, how many of them a step reads, and what they are; ValueError of what was typed."""
    if name == OWN:
        drawn = drawable(experiment)
        found = middle_row(drawn, online.MOST_SCORES)
        return found.scores, found.step, _whose(found, experiment, drawn)
    text = typed.text_input(
        "Scores (edit them); -inf masks a key",
        " ".join(f"{score:g}" for score in online.PRESETS[name].scores),
        key=f"softmax scores {name}",
    )
    block = size.select_slider("Scores per step", BLOCKS, 4)
    scores = online.parse(text)
    mine = list(online.PRESETS[name].scores) != scores.tolist()
    return scores, block, "These are your own scores." if mine else online.PRESETS[name].what


def _whose(found: HeadRow, asked: Experiment, drawn: Experiment) -> str:
    """Which of the scenario's scores are shown."""
    shown, block = int(np.isfinite(found.scores).sum()), drawn.tiling.block_kv
    keys = counted(found.seen, "key")
    part = f"its {keys}" if shown == found.seen else f"{shown:,} of the {keys} it sees"
    if not found.seen:
        part = "no keys, as it stands before the first one"
    scaled = f", scaled down to {counted(drawn.problem.seq_kv, 'key')}," * (drawn is not asked)
    steps = f"one key block of {block:,} per step"
    if found.step < block:
        steps = f"all in one step, as a key block has {block:,}"
    first = f"; score 0 is of key {found.first:,}" * (found.first > 0)
    return (
        "Read in pieces, a softmax must correct what it has whenever a larger score comes. "
        f"This is query row {found.row:,} of the scenario's first head{scaled} with {part}, {steps}{first}. "
        "Choose another row to type scores of your own."
    )


def telling(steps: online.OnlineSteps) -> int:
    """The step to begin with: the first that rescales something, else the second."""
    rescales = np.flatnonzero((steps.alpha > 0) & (steps.alpha < 1))
    return int(rescales[0]) + 1 if len(rescales) else min(2, len(steps.stops))


def sentence(steps: online.OnlineSteps, step: int) -> str:
    if step == 0:
        return "Nothing has been read yet, so m = −∞ and l = 0."
    first, last = (int(steps.stops[step - 2]) if step > 1 else 0), int(steps.stops[step - 1]) - 1
    read = f"Score {first} is read." if first == last else f"Scores {first} to {last} are read."
    m, before = steps.m[step - 1], steps.m[step - 2] if step > 1 else -np.inf
    if np.isneginf(m):
        return f"{read} Every key so far is masked, so m stays −∞, l stays 0, and nothing turns into NaN."
    if np.isneginf(before):
        return f"{read} The maximum is {number_text(m)}; there is nothing yet to rescale."
    if m == before:
        return f"{read} The maximum stays {number_text(m)}, so α = 1 and nothing accumulated so far changes."
    (low, high), (_, alpha) = told_apart(before, m), told_apart(1.0, steps.alpha[step - 1])
    return (
        f"{read} The maximum rises from {low} to {high}, so everything accumulated so far is multiplied by "
        f"α = {alpha}."
    )


def _numbers(steps: online.OnlineSteps, step: int) -> None:
    """The four numbers after the step, each with its value before."""
    series = (  # each with what it is at the start
        ("m, maximum", steps.m, -np.inf),
        ("l, sum", steps.l, 0.0),
        ("α, rescale factor", steps.alpha, None),
        ("lse = m + log l", online.log_sum_exp(steps.m, steps.l), -np.inf),
    )
    with st.container(key="in_a_row_numbers"):
        cells = [*st.columns(2), *st.columns(2)]
    for cell, (label, values, start) in zip(cells, series, strict=True):
        both = (values[at] if at >= 0 else start for at in (step - 1, step - 2))
        now, before = ("none" if value is None else number_text(value, 4) for value in both)
        cell.metric(label, now, f"was {before}", **GREY)


def _terms(experiment: Experiment) -> None:
    """Rows that sum below one, and the curve of the cap, on the scenario's scores."""
    found = score_terms(experiment)
    sinks, caps = st.columns(2, gap="large")
    with sinks:
        st.markdown(f"**{_beside_a_sink(found)}**")
        chart(figures.sums(found, theme.colours()), "Sum of every row's weights beside a sink")
        st.caption(
            "A sink is a learned logit per head: it stands in the sum l like one more score, but has no "
            "value. A head that has found nothing may so attend to nothing. Rows with few keys lose most."
        )
    with caps:
        st.markdown(f"**{_under_a_cap(found)}**")
        chart(figures.caps(found, theme.colours()), "The curve of the cap over the scenario's scores")
        st.caption(
            "A cap c makes c · tanh(s / c) of a score s, so none passes c and small ones hardly move; the "
            "bars are how the scores are spread. Gemma 2 caps at 50 (arXiv 2408.00118)."
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


def _comparison(scores: np.ndarray, block: int, dtype: str) -> None:
    st.html(_errors(scores, block, dtype, "largest error", title="Errors of the weights"))
    st.caption(
        "The numbers beside the picture are computed here in float64. The table has the largest error of "
        "any weight against float64, computed here: m, l and sums are in float32, as in kernels; weights, "
        f"and the exponentials that naive and safe store, are in {dtype}. Naive takes exp(s) as it is; safe "
        "finds the maximum first; online needs no pass for it."
    )


def _errors(scores: np.ndarray, block: int, dtype: str, what: str, title: str = "") -> str:
    """The largest error of each softmax in a dtype."""
    rows = []
    for name, off in online.errors(scores, block, dtype).items():
        told = f"{off:.1e}" if off else "0"
        rows.append([f"{name} softmax", told if np.isfinite(off) else "inf / inf"])
    return table([dtype, what], rows, title=title)


def _examples() -> Drawn:
    """Every example row with its picture, its steps and its errors."""
    formulas = "".join(mathml(formula.replace("&", "")) for formula in FORMULAS)
    return Drawn(formulas + "".join(_example(preset) for preset in online.PRESETS.values()))


def _example(preset: online.Preset) -> str:
    scores = np.array(preset.scores)
    steps = online.online_steps(scores, EXAMPLE_BLOCK)
    columns = zip(steps.stops, steps.m, steps.alpha, steps.l, strict=True)
    told = [
        [f"{stop}", *(number_text(float(value), 4) for value in values), sentence(steps, step)]
        for step, (stop, *values) in enumerate(columns, 1)
    ]
    alt = f"{preset.name}: scores (points) and the running maximum m (line), {EXAMPLE_BLOCK} scores per step"
    return (
        f"<section class='card'><h2>{escape(preset.name)}</h2><p>{escape(preset.what)}</p>"
        f"{both(lambda colours: svg(_points(scores, steps, colours), alt))}"
        f"{sideways(table(EXAMPLE_HEAD, told, words=(4,)))}"
        f"{sideways(_errors(scores, EXAMPLE_BLOCK, EXAMPLE_DTYPE, 'largest error of a weight'))}</section>"
    )


def _points(scores: np.ndarray, steps: online.OnlineSteps, colours: Palette):
    """Scores as points, and the maximum of those read so far as a staircase."""
    shown, maxima = ([float(v) if np.isfinite(v) else None for v in values] for values in (scores, steps.m))
    ends = [-0.5, *(float(stop) - 0.5 for stop in steps.stops)]
    told = ["" if score is None else f"{score:g}" for score in shown]
    points = marks(range(len(shown)), shown, colours.s, "", size=9, name="scores", customdata=told)
    corners, levels = np.repeat(ends, 2)[1:-1], [m for m in maxima for _ in range(2)]
    staircase = line(corners, levels, colours.statistics, name="m, running maximum")
    x = {"title_text": "score of the row, by key", "range": [-0.6, len(shown) - 0.4]}
    return draw([points, staircase], colours, height=230, x=x)


ABOUT = "Rows of scores, some at a time: the running maximum and sum, and what is rescaled."
PICTURE = Picture(
    lambda experiment: in_both_themes(PICTURES["rescale"], experiment, tour="attention", step="1"),
    lambda: [SiteFile("softmax.html", "Softmax", ABOUT, _examples)],
)
