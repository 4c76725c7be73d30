"""The recording that the pages show: one that lies in assets/recordings, or a file of the reader's own."""

import streamlit as st

from app import scenario, serving
from app.figures.units import plain
from app.sidebar import inputs
from engine.problem.hardware import gpu_named
from engine.recordings.file import LARGEST_FILE, loads, recording_of, recordings, refused
from engine.recordings.recording import Recording

CHOICE_HELP = (
    "What the pages show as recorded. Left to itself, it is the recording of the scenario's GPU if there is"
    " one, and a file of your own once you have uploaded it."
)
UPLOAD_HELP = (
    "A file that `python -m engine record --out my-gpu.json` wrote on your GPU. It stays in your session and"
    " is never stored; the pages show its numbers as recorded on the GPU that it names."
)
AUTO = ""  # the choice where nobody chose


def chosen_recording() -> Recording | None:
    """What all pages show as recorded: what was chosen, else by `_auto`; None if there is nothing."""
    return _all().get(scenario.place("recording")) or _auto()


def show() -> None:
    """The choice and the upload, with a sentence on each file: what it brings, or why it cannot be shown."""
    own, auto, names = _own(), unchosen(), (AUTO, *_all())
    chosen = scenario.place("recording")
    st.selectbox(
        "Recording",
        names,
        format_func=lambda name: name or auto,
        help=CHOICE_HELP,
        **scenario.tie("recording", chosen if chosen in names else AUTO),
    )
    if own:
        st.success(_brings(own))
    for words in refused():
        st.warning(plain(words))
    if serving.may_run():
        most = LARGEST_FILE // 2**20
        inputs.taken("Your GPU's recording", ["json"], most, UPLOAD_HELP, _arrived, _left)


def unchosen() -> str:
    """What stands in the choice where nobody chose."""
    found = _auto()
    return f"auto: {_gpu(found)}" if found else "auto: none"


def _arrived(data: bytes, name: str) -> None:
    """The newest file is shown."""
    _left()
    own = scenario.kept("recording brought", {})["found"] = loads(data, name)
    st.toast(_brings(own), duration="long")


def _left() -> None:
    scenario.kept("recording brought", {}).clear()
    scenario.go(recording=AUTO)


def _brings(own: Recording) -> str:
    """What an uploaded recording adds to the pages."""
    kinds = {
        "times": own.timings,
        "block sizes": own.sweep,
        "decoding times": own.decoding,
        "hardware counters": own.counters,
        "timelines": own.timelines,
        "times on several GPUs": own.cluster,
        "timelines of several GPUs": own.cluster_timelines,
    }
    there = ", ".join(f"{len(rows):,} {name}" for name, rows in kinds.items() if rows)
    return f"All pages now show your recording of {_label(own)}: {there or 'it holds no rows'}."


def _auto() -> Recording | None:
    """The reader's own recording, else that of the scenario's GPU, else what stands first."""
    return _own() or recording_of(scenario.current().hardware, recordings())


def _all() -> dict[str, Recording]:
    """Every recording by the name it is offered under, the reader's own first."""
    own = _own()
    named = {_label(one): one for one in recordings()}
    return ({f"yours: {_label(own)}": own} if own else {}) | named


def _label(recording: Recording) -> str:
    """A GPU and a day, as short as the sidebar is narrow."""
    return f"{_gpu(recording)}, {recording.device.date[:10]}"


def _gpu(recording: Recording) -> str:
    gpu = gpu_named(recording.device.gpu)
    return gpu.name.removesuffix(" SXM") if gpu else recording.device.gpu.removeprefix("NVIDIA ")


def _own() -> Recording | None:
    """The recording that was uploaded; in the session, to go with it."""
    return scenario.kept("recording brought", {}).get("found")
