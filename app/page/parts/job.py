"""A job of the worker on a page: its button, how far it is, what went wrong; no page waits for it."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app import scenario, serving
from app.figures.units import about_seconds, plain
from engine.worker.client import Job, QueueFullError, shared_worker

POLL_SECONDS = 0.6


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


def job_panel(kind: str, payload: dict[str, Any], label: str, draw: Callable[[Job | None], None]) -> None:
    """The button of a job and, below it, what `draw` makes of the job; redrawn while the job is under way."""
    job = job_of(kind, payload)
    polls = job is not None and job.under_way

    def body() -> None:
        current = job_of(kind, payload)
        _controls(kind, payload, label, current)
        draw(current)
        if polls:
            serving.visitor()  # is still there, also after its network was not
        if polls and not (current is not None and current.under_way):
            st.rerun()  # without polling

    st.fragment(body, run_every=POLL_SECONDS if polls else None)()


def _controls(kind: str, payload: dict[str, Any], label: str, job: Job | None) -> None:
    """One row: start or cancel, and one line on the state."""
    button, state = st.columns([1.5, 4], vertical_alignment="center")
    if job is not None and job.under_way:
        if button.button("Cancel", key=f"{kind} cancel"):
            job.cancel()
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
        return f"Waiting for about {about_seconds(job.waits)}: {jobs} ahead in this server's queue"
    if job.state == "starting":
        return "Starting the worker process"
    return job.message


def sentence(text: str) -> str:
    """A sentence begins with a capital and ends with a stop; Markdown's signs are meant as they are."""
    return plain(text[:1].upper() + text[1:].rstrip(".") + ".")
