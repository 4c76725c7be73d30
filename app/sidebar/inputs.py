"""Whose numbers the pages show: drawn ones, or a head of the reader's own file."""

import streamlit as st

from app import scenario, serving
from engine.experiment import Experiment
from engine.problem.heads import HeadsError, keep, kept, read
from engine.problem.problem import DRAWN

HELP = (
    "Drawn numbers are the same everywhere, and keys grow longer along the sequence, so that the running "
    "maximum of most rows keeps rising. Real heads mostly have one key with much of the weight, and rescale "
    "less."
)
UPLOAD_HELP = (
    "q [heads, tokens, d], k and v [kv_heads, tokens, d], and maybe tokens and scale, as `engine.capture` "
    "writes them. The file stays on this server while it runs, under a key that only its link names."
)


def show() -> None:
    """The choice of a head, and the upload."""
    own = scenario.kept("own heads", {})  # keys, with how many heads each has
    now = scenario.current().problem.inputs
    if now != DRAWN and (found := kept(now)):
        own.setdefault(now.split(":")[0], len(found[0].q))
    heads = [f"{key}:{head}" for key, many in own.items() for head in range(many)]
    options = [DRAWN, *heads] if now == DRAWN or now in heads else [DRAWN, now, *heads]
    st.selectbox(
        "Numbers", options, format_func=_named, help=HELP,
        **scenario.control("inputs", options),
    )  # fmt: skip
    if not serving.may_run():
        st.caption(serving.REFUSED)
        return
    file = st.file_uploader(
        "Your heads", type=["npz", "safetensors"], max_upload_size=16, help=UPLOAD_HELP, key="heads file"
    )
    taken = scenario.kept("heads taken", {})
    if file is None or taken.get("file") == file.file_id:
        return
    taken["file"] = file.file_id
    try:
        found = read(file.getvalue())
    except HeadsError as error:
        st.warning(f"{error}.")
        return
    key = keep(found)
    own[key] = len(found.q)
    flat = scenario.current().flat()
    scenario.replace(Experiment.of(**{**flat, **found.values(), "inputs": f"{key}:0"}))
    st.rerun()


def _named(inputs: str) -> str:
    key, _, head = inputs.partition(":")
    return "drawn" if key == DRAWN else f"file {key[:4]}, head {head or 0}"
