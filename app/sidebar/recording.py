"""The recording that the pages show: one that lies in assets/recordings, or a file of the reader's own."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from app import scenario, serving
from app.figures.units import plain
from app.scenario import widgets
from engine.recordings.file import LARGEST_FILE, RecordingError, loads, recordings, refused
from engine.recordings.recording import Recording

UPLOAD_HELP = (
    "A file that `python -m engine record --out my-gpu.json` wrote on your GPU. It stays in your session and"
    " is never stored; the pages show its numbers as recorded on the GPU that it names."
)


def chosen_recording() -> Recording | None:
    """What all pages show as recorded; None if there is nothing."""
    every = _all()
    return every.get(widgets.value_beside("recording"), next(iter(every.values()), None))


class Asked(NamedTuple):
    """What there is to choose from, and what is said of files."""

    names: tuple[str, ...]
    brings: str
    warnings: tuple[str, ...]
    may_upload: bool


def asked() -> Asked:
    """All that the choice is drawn from."""
    own, sentence = _own()
    warnings = tuple(plain(words) for words in (sentence, *refused()) if words)
    return Asked(tuple(_all()), _brings(own) if own else "", warnings, serving.may_run())


def show(there: Asked) -> None:
    """The choice and the upload, with a sentence on each file: what it brings, or why it cannot be shown."""
    first = 0 if there.names else None
    st.selectbox("Recording", there.names, index=first, key=widgets.key_beside("recording"))
    if there.brings:
        st.success(there.brings)
    for words in there.warnings:
        st.warning(words)
    if not there.may_upload:
        st.caption(serving.REFUSED)
        return
    st.file_uploader(
        "Your GPU's recording",
        type=["json", "gz"],
        max_upload_size=LARGEST_FILE // 2**20,
        help=UPLOAD_HELP,
        key=widgets.key_beside("recording file"),
        on_change=_arrived,
    )


def _arrived() -> None:
    """A file came or went: the newest is shown, and what it is said where nobody has to scroll for it."""
    widgets.clear_beside("recording")
    own, sentence = _own()
    if own or sentence:
        st.toast(plain(sentence) or _brings(own), duration="long")


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


def _all() -> dict[str, Recording]:
    """Every recording by the name it is offered under, the reader's own first."""
    own, _ = _own()
    named = {_label(one): one for one in recordings()}
    return ({f"yours: {_label(own)}": own} if own else {}) | named


def _label(recording: Recording) -> str:
    """A GPU and a day, as short as the sidebar is narrow."""
    return f"{recording.device.gpu.removeprefix('NVIDIA ')}, {recording.device.date[:10]}"


def _own() -> tuple[Recording | None, str]:
    """The uploaded recording, or the sentence on why there is none of that file."""
    file = widgets.value_beside("recording file")
    if file is None:
        return None, ""
    read = scenario.kept("recording read", {})  # in the session, to go with it
    if file.file_id not in read:
        read.clear()
        read[file.file_id] = _read(file.getvalue(), file.name)
    return read[file.file_id]


def _read(data: bytes, name: str) -> tuple[Recording | None, str]:
    try:
        return loads(data, name), ""
    except RecordingError as error:
        return None, str(error)
