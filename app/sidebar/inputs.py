"""Whose numbers and GPU the pages show: those that are offered, or of a file; or heads on a sentence."""

from collections.abc import Callable

import streamlit as st

from app import scenario
from app.elements import chart
from app.figures import heads as figures
from app.figures.units import plain
from app.scenario import theme
from app.scenario.widgets import TEXT
from engine.decoded import FileError
from engine.problem.hardware import GPUS, bring
from engine.problem.heads import HeadsError, keep, kept, read, text_of
from engine.problem.problem import DRAWN
from engine.small.model import MOST_TYPED, small
from engine.studies.rescales import of_all_layers

PAGES = ("tiles", "softmax", "masks", "backward", "decoding", "agreement", "kernel", "flash3")  # of a head
HELP = (
    "Drawn numbers are the same everywhere, and keys grow longer along the sequence, so that the running "
    "maximum of most rows keeps rising. A sentence is read by a small model that was trained with this "
    "project's kernels; its heads, as those of a file, are real: one whose weight lies on the first key "
    "hardly ever rescales, and one that looks at its nearest keys nearly always does."
)
UPLOAD_HELP = (
    "q [heads, tokens, d], k and v [kv_heads, tokens, d], and maybe tokens and scale, as `engine.capture` "
    "writes them. The file stays on this server while it runs, under a key that only its link names."
)
CALIBRATION_HELP = (
    "A file that `python -m engine calibrate --out my-gpu.json` wrote on your GPU. The scenario is then "
    "modelled on it. The file stays on this server while it runs, under a key that only its link names."
)


def choice() -> tuple[str, str, dict]:
    """The field of the sidebar that chooses."""
    own = scenario.kept("own heads", {})  # keys of files that were read, with how many heads each has
    now = scenario.current().problem.inputs
    if now != DRAWN and not text_of(now) and (found := kept(now)):
        own.setdefault(now.split(":")[0], len(found[0].q))
    options = [DRAWN, TEXT, *own]
    named = {key: f"file {key[:4]}" for key in own}
    tied = scenario.control("numbers", options) | {"format_func": lambda key: named.get(key, key)}
    return "selectbox", "Numbers", {"options": options, "help": HELP, **tied}


def upload() -> None:
    """Heads and a calibration of the reader's own, each of which the scenario then has."""

    def heads(data: bytes, _: str) -> None:
        scenario.replace(scenario.current().on(f"{keep(read(data))}:0"))

    def calibration(data: bytes, name: str) -> None:
        scenario.replace(scenario.current().changed(hardware=bring(data, name).key))

    taken("Your heads", ["npz", "safetensors"], 16, UPLOAD_HELP, heads)
    taken("Your GPU's calibration", ["json"], 1, CALIBRATION_HELP, calibration)


def taken(
    label: str,
    kinds: list[str],
    most: int,
    why: str,
    use: Callable[[bytes, str], None],
    gone: Callable[[], None] = lambda: None,
) -> None:
    """A place for files of at most so many MB: one is used when it comes, or a sentence says why not."""
    file = st.file_uploader(label, type=kinds, max_upload_size=most, help=why, key=f"{label} file")
    known, now = scenario.kept("files taken", {}), file and file.file_id
    before, said = known.get(label, (None, ""))
    if before != now:
        said = ""
        try:
            use(file.getvalue(), file.name) if file else gone()
        except (HeadsError, FileError) as error:
            said = plain(f"{error}.")
            st.toast(said, duration="long")  # where nobody has to scroll for it
        known[label] = now, said
        if not said:
            st.rerun()
    if said:
        st.warning(said)


def gpus() -> dict[str, str]:
    """The GPUs that are offered, and those of calibrations that this visitor brought, by their keys."""
    own, now = scenario.kept("gpus brought", {}), scenario.current().gpu
    if now.key not in set(GPUS):
        own[now.key] = now.name
    return {key: gpu.name for key, gpu in GPUS.items()} | own


def show(brief: bool = False) -> None:
    """The sentence, which head, and a map of all; nothing where numbers are drawn. In brief, on one line."""
    inputs = scenario.current().problem.inputs
    if inputs == DRAWN:
        return
    shape, named = small().shape, text_of(inputs)
    many = shape.heads if named else len(kept(inputs)[0].q)
    with st.container(horizontal=True, vertical_alignment="bottom", key="heads"):
        if named:
            label = f"Sentence, at most {MOST_TYPED} tokens, for a small model"
            seen = "collapsed" if brief else "visible"
            st.text_input(label, label_visibility=seen, **scenario.control("sentence"))
        if named and not brief:
            st.select_slider("Layer", range(shape.layers), width=150, **scenario.control("layer"))
        if many > 1 and not brief:
            st.select_slider("Head", range(many), width=150, **scenario.control("head"))
        every = st.popover("All heads", key="heads_map", on_change="rerun")
    if every.open:
        with every:
            _map()


def _map() -> None:
    experiment = scenario.current()
    found = of_all_layers(experiment)
    st.markdown("**What does each head look at, and how often does it rescale?** Press a head to see it.")
    figure, asked = figures.heads_map(found, theme.colours()), {"selection_mode": "points"}
    pressed = chart(figure, "All heads by layer", "heads map", on_select="rerun", **asked).selection.points
    named = text_of(experiment.problem.inputs)
    st.caption(
        "Means over the rows of each head, computed here in float64: the weight on the first key, how many "
        "keys back the weight lies, the entropy of a row's weights, and the share of key blocks after a "
        f"row's first at which its maximum rises, in blocks of {experiment.tiling.block_kv}."
        + " The model has 1.9 million numbers and has read Jane Austen's novels; what its heads do is told "
        "in assets/heads/small.md." * bool(named)
    )
    if pressed:
        layer, head = pressed[0]["customdata"]
        prefix = experiment.problem.inputs.split(":")[0]
        name = f"text:{layer}.{head}:{named[2]}" if named else f"{prefix}:{head}"
        if name != experiment.problem.inputs:
            scenario.replace(experiment.on(name) if named else experiment.changed(inputs=name))
            st.rerun()
