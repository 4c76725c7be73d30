"""The page On the GPU: which block ran on which SM and when, as modelled and as a GPU recorded it."""

from functools import partial

import streamlit as st

from app import hbm, scenario
from app.elements import fold, one_of
from app.figures.algorithms import caveats, name
from app.figures.units import seconds_text
from app.gallery.picture import EXAMPLE, Drawn, Picture
from app.gpu import REPLAY
from app.gpu.payload import ORDER_NAMES, build
from app.page.parts import live
from app.page.parts.recorded import LAST_TILES
from app.scenario.offers import TRACE, offer, set_subject
from app.scenario.presentation import presenting
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.measuring.live import Live
from engine.model.launch import HEAVY_FIRST, NATURAL, launch
from engine.model.simulated_timeline import simulate_timeline
from engine.model.simulation import simulate
from engine.model.timeline import Timeline
from engine.problem.cache import kept_with
from engine.problem.problem import Problem
from engine.recordings import timelines
from engine.recordings.file import recording_of
from engine.recordings.recording import Recording, TracedCall
from engine.studies.drawable import watchable
from engine.studies.survey import HERE
from engine.studies.timeline_files import chrome_trace

MODELLED, BESIDE = "modelled", "beside"
SOURCES = {HERE: HERE, BESIDE: "side by side", MODELLED: "this scenario"}
BOTH = "both"
ORDERS = {BOTH: "both orders", **ORDER_NAMES}
OPENING = (
    "Each row is an SM, one of the chip's processors, and each bar is a thread block that runs on it: the "
    "later its query block, the stronger its colour. Pale bars are still to come. On the right is the tail: "
    "SMs that have run out of work while others finish."
)


def show() -> None:
    """Draw the page."""
    experiment, recording, opening = scenario.current(), chosen_recording(), st.container()
    rows, drawn = timelines.traced_calls(recording) if recording else [], watchable(experiment)
    found = live.show(live.named(drawn), [launch(drawn).order] * drawn.record.traced, page="gpu")
    here = _here(experiment, found)
    near = bool(rows) and timelines.tells_of(recording, _nearest(rows, experiment), experiment)
    beside = [BESIDE] * bool(rows)
    sources = [*[HERE] * bool(here), *([*beside, MODELLED] if near else [MODELLED, *beside])]
    with st.container(horizontal=True, vertical_alignment="center", key="gpu_controls"):
        source = MODELLED
        if sources != [MODELLED]:
            offered = {key: SOURCES[key] for key in sources}
            source = one_of("Timeline", offered, f"gpu_source {len(here)} {near}")
        call = _nearest(rows, experiment) if source == BESIDE else None
        if call is not None:
            lanes = _recorded(recording, call)
        else:
            lanes = here if source == HERE else _modelled(drawn)
    told = [] if presenting() else [OPENING]
    if call is not None:
        unused(
            "This shows a recorded call as it ran. Choose 'this scenario' to change it.",
            *("block_q", "block_kv", "kv_heads", "dtype", "documents"),
        )
        if (call.provider, call.problem) != (experiment.algorithm, experiment.problem):
            told.append(
                f"**The numbers are of a recorded call, {_named(call)}**, the nearest to your scenario, "
                f"{experiment.record.label} with {_shape(experiment.problem)}."
            )
    set_subject(lanes[0].experiment)  # a recorded call has a length of its own
    opening.markdown(" ".join(told))
    REPLAY.show(build(lanes), key="gpu")
    if source == HERE:
        hbm.show(experiment, measured=live.sampled(found, experiment))
    for timeline in lanes:
        one, order = timeline.experiment, ORDER_NAMES[timeline.order]
        title = f"{one.record.label}, N {one.problem.seq_kv}, {order}, {timeline.origin}"
        offer(title, partial(chrome_trace, timeline), TRACE)
    if notes := _notes(experiment, recording, call, lanes[0].experiment):
        st.caption(notes)
    fold("gpu hbm", partial(hbm.show, lanes[0].experiment), "What crosses HBM, while it happens")


def _here(experiment: Experiment, found: Live | None) -> tuple[Timeline, ...]:
    """The scenario's blocks on this machine's GPU, where they were measured, beside the model of them."""
    rows = [row for row in found.traced if row.kernels] if found else []
    return tuple(
        lane
        for row in rows
        for timeline in [timelines.timeline_of(row, found.origin, live.gpu_of(found, experiment).key)]
        for lane in (timeline, simulate_timeline(timeline.experiment, row.order))
    )


def _nearest(rows: list[TracedCall], experiment: Experiment) -> TracedCall:
    """The recorded call nearest to the scenario, of those in the kernel's own order."""
    return timelines.nearest_call([row for row in rows if row.times is not None], experiment)


def _named(row: TracedCall) -> str:
    blocks = f", blocks {row.block_q} × {row.block_kv}" if row.block_q else ""
    return f"{name(row.provider)}: {_shape(row.problem)}{blocks}"


def _shape(problem: Problem) -> str:
    heads = problem.all_heads
    return f"N {problem.seq_kv:,}, {heads} head{'s' * (heads > 1)}, d {problem.head_dim}, {problem.mask.text}"


def _modelled(drawn: Experiment) -> tuple[Timeline, ...]:
    """The scenario in one order, or in both where the mask makes blocks unequal."""
    if launch(drawn).order == NATURAL:
        return (simulate_timeline(drawn, NATURAL),)
    order = one_of("Order of the blocks", ORDERS, "gpu_order")
    return tuple(simulate_timeline(drawn, each) for each in (HEAVY_FIRST, NATURAL) if order in (BOTH, each))


def _recorded(recording: Recording, call: TracedCall) -> tuple[Timeline, ...]:
    """A recorded call beside the model of it."""
    timeline = _timeline(call, recording.origin, timelines.hardware_of(recording))
    return timeline, simulate_timeline(timeline.experiment, call.order)


_timeline = kept_with(1)(timelines.timeline_of)


def _notes(
    experiment: Experiment, recording: Recording | None, call: TracedCall | None, shown: Experiment
) -> str:
    """What is drawn instead of what was asked, or how long the recorded call takes otherwise."""
    if call is None:
        drawn = watchable(experiment)
        smaller = f"This shows {_shape(drawn.problem)}, as the scenario has more blocks than can be watched. "
        return smaller * (drawn != experiment) + caveats([drawn.algorithm])
    modelled = seconds_text(simulate(shown).modelled.seconds)
    return (
        f"{_named(call)}: a whole call takes {seconds_text(call.times.p50)} without its timestamps "
        f"(median), {recording.origin}, and {modelled} as modelled. "
        f"{LAST_TILES * (call.provider == flash3.ALGORITHM.key)} {caveats([call.provider])}"
    )


def _drawn(experiment: Experiment, measured: Live | None = None) -> Drawn:
    """Blocks as measured here, or as recorded of the nearest call, beside the model of the same."""
    if lanes := _here(experiment, measured):
        return Drawn(moving=REPLAY, data=build(lanes))
    recording = recording_of(experiment.hardware)
    if recording is None:
        return Drawn()
    call = _nearest(timelines.traced_calls(recording), experiment)
    if not timelines.tells_of(recording, call, experiment):
        return Drawn(moving=REPLAY, data=build((simulate_timeline(watchable(experiment)),)))
    says = f"{name(call.provider)}, {call.problem.seq_kv:,} tokens, {call.problem.all_heads} heads."
    return Drawn(moving=REPLAY, data=build(_recorded(recording, call)), says=says)


PICTURE = Picture(_drawn, "Which block ran on which SM and when, as recorded and as modelled.", EXAMPLE)
