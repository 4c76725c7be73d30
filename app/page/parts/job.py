"""A job of the worker on a page: its button, how far it is, what went wrong; no page waits for it."""

import time
from collections.abc import Callable
from typing import Any

import streamlit as st

from app import scenario, serving
from app.figures.units import plain
from engine.worker.client import Job, QueueFullError, shared_worker

POLL_SECONDS = 0.6
LIVE_SECONDS = 0.15  # between looks where a switch keeps a job up to date
SETTLED = 0.1  # s without another scenario, after which one is run while the switch is on
RESTS = 0.25  # times as long as a job took, before a switch asks for the next


def _own_jobs() -> dict[str, tuple[dict[str, Any], Job]]:
    """This window's latest job of every kind, with its payload."""
    return scenario.kept("jobs", {})


def job_of(kind: str, payload: dict[str, Any]) -> Job | None:
    """The visitor's own job if it is this one, else anyone's result, else what was cancelled."""
    own, job = _own_jobs().get(kind, (None, None))
    if own != payload:
        job = None
    if job is not None and job.state != "cancelled":
        return job
    return shared_worker().finished(kind, payload) or (job if job is not None and job.rows else None)


def job_panel(
    kind: str, payload: dict[str, Any], label: str, draw: Callable[[Job | None], None], *, live: bool = False
) -> None:
    """The button of a job and, below it, what `draw` makes of the job; redrawn while the job is under way.

    live: beside it stands a switch that runs the job again as the payload changes.
    """
    job = job_of(kind, payload)
    follows = live and job is None and _kept()["on"]
    polls = follows or (job is not None and job.under_way)

    def body() -> None:
        waits = _follow(kind, payload) if follows and job_of(kind, payload) is None else ""
        current = job_of(kind, payload)
        _controls(kind, payload, label, current, live, waits)
        draw(current)
        if polls:
            serving.visitor()  # is still there, also after its network was not
        if polls and not waits and not (current is not None and current.under_way):
            st.rerun()  # without polling

    every = LIVE_SECONDS if live else POLL_SECONDS
    st.fragment(body, run_every=every if polls else None)()


def _kept() -> dict[str, Any]:
    """Whether the switch is on, how often cancelling put it off, and what it follows since when."""
    return scenario.kept("live", {"on": False, "turn": 0, "payload": None, "since": 0.0})


def _follow(kind: str, payload: dict[str, Any]) -> str:
    """Ask for what the switch is to run next, once it may; else what it waits for."""
    state, now = _kept(), time.monotonic()
    if state["payload"] != payload:
        state.update(payload=payload, since=now)
    _, earlier = _own_jobs().get(kind, (None, None))
    if earlier is not None and earlier.under_way and earlier.state != "queued":
        return "Waiting for the measurement before"  # which is not ended: its process would be lost with it
    if now - state["since"] < SETTLED:
        return "Waiting until the scenario stays as it is"
    rests = shared_worker().took.get(kind, 0.0) * RESTS
    if earlier is not None and earlier.finished_at and time.time() - earlier.finished_at < rests:
        return "Waiting, as one visitor has at most four fifths of the GPU's time"
    return ask(kind, payload, again=False) or ""


def _controls(
    kind: str, payload: dict[str, Any], label: str, job: Job | None, live: bool, waits: str
) -> None:
    """One row: start or cancel, the switch where there is one, and one line on the state."""
    widths = [1.5, 0.8, 4] if live else [1.5, 4]
    button, *switch, state = st.columns(widths, vertical_alignment="center")
    kept = _kept()
    if live:
        words = "Keeps measuring what the page shows as its sliders move."
        on = switch[0].toggle("Live", kept["on"], key=f"live {kept['turn']}", help=words)
        if on != kept["on"]:
            kept["on"] = on
            st.rerun()
    if job is not None and job.under_way:
        if button.button("Cancel", key=f"{kind} cancel"):
            job.cancel()
            if live:  # who cancels does not want the next one at once
                kept.update(on=False, turn=kept["turn"] + 1)
            st.rerun()
        state.progress(min(job.progress, 1.0), state_of(job))
        return
    again, allowed = job is not None and job.state == "done", serving.may_run()
    words = f"{label} again" if again else label
    look = "primary" if allowed else "secondary"
    if button.button(words, key=kind, type=look, disabled=not allowed):
        if not (refused := ask(kind, payload, again)):
            st.rerun()
        state.warning(refused)
    if waits:
        state.caption(sentence(waits))
    if not allowed:
        state.caption(serving.REFUSED)
    if job is not None and job.error:
        state.error(sentence(job.error))
    if job is not None and job.state == "cancelled":
        state.caption("The job was cancelled; what had been measured before is kept.")


def ask(kind: str, payload: dict[str, Any], again: bool) -> str | None:
    """Ask for a job in place of the visitor's earlier one; a sentence where none is taken."""
    if not serving.may_run():
        return serving.REFUSED
    _, earlier = _own_jobs().get(kind, (None, None))
    try:
        own = payload, shared_worker().submit(kind, payload, again=again, visitor=serving.visitor())
    except QueueFullError as error:
        return sentence(str(error))
    if earlier is not None:
        earlier.cancel()
    _own_jobs()[kind] = own
    return None


def state_of(job: Job) -> str:
    """What a job under way waits for or does."""
    if job.state == "queued":
        ahead = job.position
        jobs = "1 job is" if ahead == 1 else f"{ahead} jobs are"
        return f"Waiting: {jobs} ahead in this server's queue"
    if job.state == "starting":
        return "Starting the worker process"
    return job.message


def sentence(text: str) -> str:
    """A sentence begins with a capital and ends with a stop; Markdown's signs are meant as they are."""
    return plain(text[:1].upper() + text[1:].rstrip(".") + ".")
