"""The online softmax: one row of scores and its output, block by block."""

from functools import partial

import numpy as np
import streamlit as st

from app import scenario
from app.elements import fold, plot
from app.figures.curves import curves, each
from app.figures.units import counted, digits
from app.gallery.picture import Drawn, Picture, SiteFile
from app.markup import mathml
from app.page.parts import rescales
from app.rescale import RESCALE, payload, row_of_head
from app.scenario import theme
from app.sidebar.unused import unused
from engine.experiment import Experiment
from engine.problem.heads import text_of
from engine.problem.inputs import fits, tokens_of, written
from engine.studies.drawable import drawable
from engine.studies.masks import CAPS, capped, score_terms
from engine.studies.rescales import raised_at, row_of
from engine.trace.rows import HeadRow
from engine.trace.softmax import PRESETS

MOST_NAMED = 6  # tokens that raised the maximum
DASHES = ("solid", "dash", "dot")
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
    unused("A row of scores is the same for every algorithm and GPU.", "algorithm", "hardware", "block_q")
    unused("This is a row of the first head.", "batch", "heads", "kv_heads")
    found, _, packed = row_of_head(experiment)
    st.caption(_whose(found, experiment, drawable(experiment)))
    RESCALE.show(packed, key="softmax row", title="Online softmax")
    fold("rescales", partial(rescales.show, experiment), "How often do these heads rescale?")
    fold("terms", partial(_terms, experiment), "What do a sink and a cap change?")
    fold("softmax", _counted)


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
        f"{whose}"
    )


def _terms(experiment: Experiment) -> None:
    """Rows that sum below one, and the curve of the cap, as far as the scenario's scores reach."""
    found, colours, look = score_terms(experiment), theme.colours(), {"linear": True, "even": True}
    sinks, caps = st.columns(2, gap="large")
    sums = {f"sink {sink:g}": each for sink, each in found.sums.items()}
    ways = {name: (each, "s", dash) for (name, each), dash in zip(sums.items(), DASHES, strict=True)}
    lines = each({"no sink": (np.ones(len(found.rows)), "muted"), **ways}, partial(_over, found.rows))
    plot(
        "A sink takes a share of the softmax and gives nothing for it",
        curves(lines, colours, x="query row", y="sum of the row's weights", told=digits, **look),
        "A sink is a learned logit per head: it stands in the sum l like one more score, but has no "
        "value. A head that has found nothing may so attend to nothing. Rows with few keys lose most.",
        where=sinks,
    )
    scores = np.linspace(0, found.most, 61)
    ways = {f"c = {cap:g}": (capped(scores, cap), "o", dash) for cap, dash in zip(CAPS, DASHES, strict=True)}
    lines = each(ways, partial(_over, scores))
    plot(
        "A cap bends large scores towards it",
        curves(lines, colours, x="score s, up to the largest here", y="capped score", told=digits, **look),
        "A cap c makes c · tanh(s / c) of a score s, so none passes c and small ones hardly move. Gemma 2 "
        "caps at 50 (arXiv 2408.00118).",
        where=caps,
    )
    st.caption(
        "Computed here in float64 from the scores of up to 256 rows of the first head, on "
        f"{counted(found.keys, 'key')}, under the scenario's mask."
    )


def _over(places: np.ndarray, values: np.ndarray) -> dict[float, float]:
    return dict(zip(places.tolist(), values.tolist(), strict=True))


def _counted() -> None:
    """The formulas, and in which numbers they are computed."""
    st.latex(r"\begin{aligned}" + r" \\ ".join(FORMULAS) + r"\end{aligned}")
    st.caption("The picture's numbers are computed in float64, in your browser, from the scenario's scores.")


def _example(name: str) -> Drawn:
    """A row of the examples, with the formulas above it."""
    formulas = "".join(mathml(formula.replace("&", "")) for formula in FORMULAS)
    row = row_of(np.array(PRESETS[name].scores), EXAMPLE_BLOCK, "float16")
    return Drawn(formulas, RESCALE, payload(row), says=PRESETS[name].what)


def _files() -> list[SiteFile]:
    """The first example, by which the page is found, and the others."""
    return [
        SiteFile(f"softmax{f'-{name}' * bool(at)}.html", preset.name, ABOUT, partial(_example, name))
        for at, (name, preset) in enumerate(PRESETS.items())
    ]


ABOUT = "Rows of scores, some at a time: the running maximum and sum, and what is rescaled."
PICTURE = Picture(lambda one: Drawn(moving=RESCALE, data=row_of_head(one)[2]), several=_files)
