"""The page Your model: what attention takes of a model's time and memory, from its config.json."""

from dataclasses import replace
from functools import partial

import streamlit as st

from app import scenario, serving
from app.elements import chart, fold, numbers, one_of, own_one_of, own_slider, placed
from app.figures import model as figures
from app.figures.colours import Palette
from app.figures.units import counted, seconds_text, share_text, short, times_text
from app.gallery.picture import Drawn, Picture
from app.gallery.without_streamlit import in_both_themes
from app.scenario import page_values, theme
from app.scenario.presentation import presenting
from app.sidebar.unused import CONTROLS, unused
from engine.algorithms import ALGORITHMS
from engine.experiment import Experiment, ExperimentError
from engine.layers.config import MOST_BYTES, ConfigError, names, read, shipped
from engine.layers.model import Model
from engine.layers.phase import DECODE, PREFILL, TRAIN, Evaluated, Phase
from engine.problem.hardware import GPUS
from engine.recordings.recording import Recording
from engine.studies import your_model as studies
from engine.studies.your_model import layers_on, recorded_layers

PHASES = {PREFILL: "Prefill", DECODE: "Decoding", TRAIN: "Training step"}
WHAT = {PREFILL: "a prefill of", DECODE: "a decoding step at", TRAIN: "a training step on"}
OPENED = {
    "tiles": "Tiles",
    "traffic": "Traffic",
    "masks": "Masks",
    "gpu": "On the GPU",
    "decoding": "Decoding",
}
PASTE_HELP = (
    "The numbers of any model: the config.json that its publisher gives with the weights. It is read field "
    "by field, stays in this window, and goes when the window does."
)


def show() -> None:
    """Draw the page."""
    head, others = st.container(key="model_head"), [name for name in CONTROLS if name != "hardware"]
    unused("The model says this; its page has a phase, tokens and a batch of its own.", *others)
    above = placed(presenting())  # in a room the picture has the first screen
    model, phase = _asked()
    try:
        found = phase.of(model)
    except ExperimentError as error:
        st.warning(f"{error}.")
        return
    with head:
        st.header(_headline(found), anchor=False)
        st.markdown(_beside(found))
    with above:
        _picture(found, theme.colours())
    _open(found)
    fold("model said", partial(_said, found), "What is taken, and what is left out?")
    if recording := layers_on(found.phase.hardware):
        fold("model recorded", partial(_recorded, recording), "Which layers were recorded?")


def _asked() -> tuple[Model, Phase]:
    """The controls' model and phase."""
    with st.container(horizontal=True, vertical_alignment="center", key="model_row"):
        name, model = own_one_of("Phase", "phase", PHASES), _model()
    with st.container(key="model_sliders"):
        columns = st.columns(3, gap="medium")
    tokens = own_slider("Tokens of a sequence", "context", short, columns[0])
    batch = own_slider("Sequences", "together", where=columns[1])
    gpus = own_slider("GPUs", "parallel", where=columns[2])
    return model, Phase(name, tokens, batch, gpus, scenario.current().hardware)


def _model() -> Model:
    """The shipped model that is chosen, or the one whose config was pasted."""
    pasted = scenario.kept("model config", {})
    options = [*names(), *[studies.OWN] * ("model" in pasted)]
    value = scenario.own("model") if scenario.own("model") in options else options[0]
    titles = {name: shipped(name).title for name in names()} | {studies.OWN: "Your config.json"}
    name = st.selectbox(
        "Model", options, options.index(value), format_func=titles.get, label_visibility="collapsed",
        width=240, **scenario.tie("model", value),
    )  # fmt: skip
    with st.popover("Your config.json", help=PASTE_HELP):
        _paste(pasted)
    return pasted["model"] if name == studies.OWN else shipped(name)


def _paste(pasted: dict) -> None:
    """Where a config.json is pasted or chosen; each field that is wrong has its sentence."""
    text = st.text_area("Paste it here", height=200, max_chars=MOST_BYTES, key="model config text")
    if serving.may_run() and (file := st.file_uploader("or choose the file", type="json", max_upload_size=1)):
        text = file.getvalue()
    if text and pasted.get("text") != text:
        pasted.update(text=text, faults=())
        try:
            pasted["model"] = replace(read(text), title="your model")
        except ConfigError as error:  # the last that was read stays
            pasted["faults"] = error.faults
        else:
            scenario.go(model=studies.OWN)
            st.rerun()
    for fault in pasted.get("faults", ()):
        st.text(fault)


def _headline(found: Evaluated) -> str:
    phase = found.phase
    what, many = f"{WHAT[phase.name]} {counted(phase.tokens, 'token')}", ""
    if phase.batch > 1:
        many = f", {phase.batch:,} sequences"
    return f"In {found.model.title}, attention takes {share_text(found.attention_share)} of {what}{many}."


def _beside(found: Evaluated) -> str:
    """The same by standard attention, and where none of it matters."""
    plain = studies.by_standard(found.model, found.phase)
    gpu, many = GPUS[found.phase.hardware].name, found.phase.parallel
    gpus = f"{many} GPUs, {gpu}" if many > 1 else gpu
    words = (
        f"With standard attention it would take {share_text(plain.attention_share)}, and the model "
        f"{times_text(plain.seconds, found.seconds)} as long (modelled, {gpus})."
    )
    lengths = studies.unnoticed(studies.shares(found.model, found.phase))
    if lengths is None:
        return words
    first, last = lengths
    reach = f"Up to {last:,}" if first == studies.LENGTHS[0] else f"From {first:,} to {last:,}"
    little = share_text(studies.LITTLE)
    return f"{words} {reach} tokens none of it matters: attention takes less than {little}."


def _picture(found: Evaluated, colours: Palette) -> None:
    """Layers, one layer's time with its share over the length, and memory."""
    stack, time, memory = st.columns([1, 1.5, 0.9], gap="large")
    stack.html(figures.stack(found, colours))
    plain = studies.by_standard(found.model, found.phase)
    pairs = zip(found.parts, plain.parts, strict=True)
    part, other = max(pairs, key=lambda pair: pair[0].attention_seconds)
    runs = ALGORITHMS[part.experiment.algorithm].label if part.experiment else "no attention"
    time.html(figures.layer({f"One layer with {runs}": part, "With standard attention": other}, colours))
    curves = figures.share(studies.by_algorithm(found.model, found.phase), found.phase.tokens, colours)
    chart(curves, "Attention's share of the time over the length, modelled", "model share", time)
    memory.html(figures.memory(found, colours))
    memory.caption(figures.memory_words(found))


def _open(found: Evaluated) -> None:
    """Buttons that open a kind of layer, exactly as it is here, on another page."""
    kinds = {part.layer.kind: part.experiment for part in found.parts if part.experiment}
    if not kinds:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="model_open"):
        kind = next(iter(kinds))
        if len(kinds) > 1:
            kind = one_of("Kind of layer", list(kinds), "model kind")
        st.html("<span>open it on</span>", width="content")
        for page, title in OPENED.items():
            fits = page != "decoding" or found.phase.name == DECODE
            if fits and st.button(title, key=f"model to {page}"):
                scenario.replace(kinds[kind])
                scenario.turn_to(page)
        if len(kinds) > 1 and st.button("Two kinds side by side", key="model to both"):
            first, second, *_ = sorted(kinds.values(), key=lambda one: one != kinds[kind])
            scenario.replace(first)
            scenario.beside.put(second)
            scenario.turn_to("tiles")


def _recorded(recording: Recording) -> None:
    """Every recorded layer beside the model of it, and with PyTorch's own attention."""
    rows = [
        {
            "layer": f"{shipped(one.row.model).title}: {one.row.kind}",
            "phase, tokens × sequences": f"{PHASES[one.row.phase]}, {one.row.tokens:,} × {one.row.batch}",
            "recorded": seconds_text(one.row.times.p50),
            "modelled": seconds_text(one.modelled.seconds),
            "attention": share_text(one.row.attention_share),
            "attention, modelled": share_text(one.modelled_share),
            "by PyTorch's": seconds_text(one.row.pytorch.p50) if one.row.pytorch else "",
        }
        for one in recorded_layers(recording)
    ]
    numbers(rows, "Layers recorded and modelled", height=460)
    st.caption(
        f"{recording.heading}, with random weights of 16 bits, several layers in one CUDA graph: PyTorch's "
        "products and this project's attention, or PyTorch's own in the last column, which has no latents, "
        "no caps and no sinks. The model's rates come from products of other sizes, not from these layers."
    )


def _said(found: Evaluated) -> None:
    st.markdown(
        "Attention's time is that of the scenario which the buttons open, modelled as on Speed; in a prefill "
        "and a training step at the clock that power leaves to a GPU that goes on computing. Matrix products "
        "take as long as their FLOPs or their bytes take, whichever is longer, and their start; experts, as "
        "long as PyTorch's grouped products; what lies between, as long as its bytes take. Weights, K and V "
        "are counted."
    )
    for sentence in found.said:
        st.text(sentence)
    if found.model.source:
        st.caption(f"The config was read on {found.model.date}: {found.model.source}")


def _elsewhere(found: Evaluated, _: Experiment, colours: Palette) -> None:
    st.markdown(f"**{_headline(found)}** {_beside(found)}")
    _picture(found, colours)


def _drawn(experiment: Experiment, **link: str) -> Drawn:
    """What phones and files show."""
    of = page_values.asked("model", link)
    if of["model"] == studies.OWN:
        return Drawn(says="A config.json of one's own stays in the window where it was pasted.")
    phase = Phase(of["phase"], of["context"], of["together"], of["parallel"], experiment.hardware)
    return in_both_themes(partial(_elsewhere, phase.of(shipped(of["model"]))), experiment)


PICTURE = Picture(_drawn, "What attention takes of a model's time and memory, modelled.")
