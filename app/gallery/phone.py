"""What a phone sees of a page or a step, as one offline document, made in a process of its own.

The tour's pictures are drawn by their own functions with a stand-in for Streamlit, which other visitors of
the same process would meet.
"""

from __future__ import annotations

import gzip
import logging
import re
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from app import across, gpu, inside, player, start
from app.canvas.moving import Moving
from app.canvas.offline import document
from app.gallery import measured
from app.gallery.shell import styles
from app.gallery.site import masks
from app.gallery.tour import bytes_by_length, bytes_by_tensor, drawn, memory_by_length, told
from app.markup import markdown
from app.player import backward
from app.player.payload import begun, build
from app.scenario.own import OWN
from app.tour import words
from app.tour.file import TourError, load
from engine.algorithms import BACKWARD as BACKWARD_PASS
from engine.algorithms import flash3
from engine.algorithms.backward import ALGORITHM as BACKWARD
from engine.experiment import Experiment, ExperimentError
from engine.model.cluster.fabric import LINKS, Fabric
from engine.model.warp_groups import inside as lanes_of
from engine.recordings.file import recording_of
from engine.recordings.recording import Recording
from engine.studies.across import ASKED, CAUSAL, beside_of, runs_of, spread_of
from engine.studies.answers import AnswerError
from engine.studies.decoding import decoding_of
from engine.studies.recorded_clusters import cluster_recordings
from engine.worker.jobs import JobError, Update

TOUR = "attention"  # whose pictures show a page's experiment
LARGEST = 2_000_000  # bytes of a document, compressed
LINK = re.compile(r"</?a\b[^>]*>")  # a phone stays where it is: what a link says remains
STYLE = (
    "body { padding: 4px 14px 0 !important; } .prose { padding-bottom: 1rem; } "
    "@media (max-width: 480px) { .scroll :is(td, th) { padding: 5px 3px !important; font-size: 0.8rem; } }"
)
# The phone's page makes as much room as the document takes.
TALL = """<script>
const tell = () => parent.postMessage(document.documentElement.offsetHeight, "*");
new ResizeObserver(tell).observe(document.body);
</script>"""
Drawn = tuple[str, tuple[Moving, Any] | None]


def draw(payload: dict[str, Any]) -> Generator[Update, None, bytes]:
    """The document that a room wants, compressed; a job of the worker process. Raises JobError."""
    yield Update(0.0, "drawing")
    logging.disable(logging.WARNING)  # Streamlit misses a session at every call
    try:
        experiment = Experiment.of(**payload["values"])
        text = _step(payload, experiment) if "tour" in payload else _page(payload, experiment)
    except (AnswerError, ExperimentError, TourError) as error:
        raise JobError(f"This picture cannot be computed: {error}.") from None
    finally:
        logging.disable(logging.NOTSET)
    packed = gzip.compress(text.encode(), 6, mtime=0)
    if len(packed) > LARGEST:
        raise JobError(f"This picture has {len(packed):,} bytes; a phone gets at most {LARGEST:,}.")
    return packed


def _step(payload: dict[str, Any], experiment: Experiment) -> str:
    """A step of a tour: its words and its picture, or those of its answer."""
    step = replace(load(payload["tour"]).steps[payload["step"] - 1], experiment=experiment)
    if not step.question:
        above, below = (markdown.html(words.filled(text, experiment)) for text in (step.before, step.after))
        return _document(step.title, above, drawn(step.picture, experiment, payload["tour"]), below)
    says = words.filled(step.after or step.before if payload["told"] else step.before, experiment)
    above = (told(step) if payload["told"] else "") + markdown.html(says)
    picture = step.reveals if payload["told"] else step.picture
    return _document(step.title, above, drawn(picture, experiment, payload["tour"]))


def _page(payload: dict[str, Any], experiment: Experiment) -> str:
    name = payload["page"]
    return _document(name, "", MAKERS[name](experiment, **payload.get("asked", {})))


def _document(title: str, above: str, picture: Drawn, below: str = "") -> str:
    """A document for a phone, with a picture between words."""
    text, moved = picture
    above = LINK.sub("", f"<style>{styles()}{STYLE}</style><div class='prose'>{above}{text}</div>")
    below = LINK.sub("", f"<div class='prose'>{below}</div>") + TALL
    if moved:
        moving, data = moved
        return moving.offline(data, title, above, below)
    return document(title, "", f"<main>{above}{below}</main>")


def _start(_: Experiment) -> Drawn:
    work = start.shown()
    return "", work and (start.moving(), start.payload(work))


def _tiles(experiment: Experiment) -> Drawn:
    return "", (player.moving(), begun(build(experiment)))


def _backward(experiment: Experiment) -> Drawn:
    return "", (player.moving(), begun(backward.build(experiment.changed(algorithm=BACKWARD.key))))


def _flash3(experiment: Experiment) -> Drawn:
    return "", (inside.moving(), inside.payload(lanes_of(experiment, flash3.ALGORITHM.pipeline)))


def _traffic(experiment: Experiment) -> Drawn:
    parts = (bytes_by_tensor, bytes_by_length, memory_by_length)
    return "".join(part(experiment) for part in parts), None


def _speed(experiment: Experiment) -> Drawn:
    return _of_recording(measured.recorded_speed, experiment), None


def _across(experiment: Experiment, **asked: str) -> Drawn:
    """The runs that the page draws for what it asks beside the scenario."""
    of = {name: OWN[name].read(asked.get(name, "")) or usual for name, (_, usual) in ASKED.items()}
    fabric, backward = Fabric(peak=LINKS[of["link"]]), of["pass"] == BACKWARD_PASS
    spread = spread_of(experiment, of["tokens"], of["gpus"], of["mask"] == CAUSAL, fabric)
    recorded = cluster_recordings(None)
    choices = beside_of(spread, backward, recorded)
    beside = of["beside"] if of["beside"] in choices else choices[0]
    return "", (across.moving(), across.payload(runs_of(spread, beside, backward, recorded)))


def _agreement(experiment: Experiment) -> Drawn:
    return _of_recording(measured.counters, experiment), None


def _gpu(experiment: Experiment) -> Drawn:
    recording = recording_of(experiment.hardware)
    if recording is None:
        return "", None
    payload, says = measured.blocks_on_sms(recording, experiment)
    return f"<p>{says}</p>", (gpu.moving(), payload)


def _of_recording(part: Callable[[Recording, Experiment], str], experiment: Experiment) -> str:
    recording = recording_of(experiment.hardware)
    return part(recording, experiment) if recording else ""


MAKERS: dict[str, Callable[..., Drawn]] = {
    "start": _start,
    "tiles": _tiles,
    "claims": lambda _: (measured.claims(), None),
    "softmax": lambda experiment: drawn("online softmax", experiment, TOUR),
    "masks": lambda experiment: (masks(experiment), None),
    "backward": _backward,
    "decoding": lambda experiment: drawn("decoding", decoding_of(experiment), TOUR),
    "flash3": _flash3,
    "traffic": _traffic,
    "speed": _speed,
    "gpu": _gpu,
    "across": _across,
    "agreement": _agreement,
}
