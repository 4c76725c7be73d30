"""Layers of models that were recorded, beside the model of the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2

from engine.layers.config import names, shipped
from engine.layers.model import Layer
from engine.layers.phase import Part, Phase
from engine.problem.hardware import gpu_named
from engine.recordings.file import SHELF, is_of, recordings
from engine.recordings.recording import Recording
from engine.recordings.timing import LayerTiming

LAYERS = SHELF / "layers"


@dataclass(frozen=True)
class RecordedLayer:
    """One layer as it was recorded, and as it is modelled with weights of 16 bits, as those were."""

    row: LayerTiming
    modelled: Part

    @property
    def modelled_share(self) -> float:
        return self.modelled.attention_seconds / self.modelled.seconds


def layers_on(hardware: str) -> Recording | None:
    """The recording of layers on a GPU, by its key; None where there is none."""
    return next((one for one in recordings(LAYERS) if is_of(one, hardware)), None)


@lru_cache(maxsize=4)
def recorded_layers(recording: Recording, model: str | None = None) -> tuple[RecordedLayer, ...]:
    """All layers of a recording that ran, or those of one model."""
    gpu, found = gpu_named(recording.device.gpu), []
    for row in recording.layers if gpu else ():
        if row.times and row.rest and row.model in names() and model in (None, row.model):
            plain = replace(shipped(row.model), quantized="")
            parts = Phase(row.phase, row.tokens, row.batch, hardware=gpu.key).of(plain).parts
            found += [RecordedLayer(row, part) for part in parts if part.layer.kind == row.kind]
    return tuple(found)


def nearest_layer(model: str, layer: Layer, phase: Phase) -> RecordedLayer | None:
    """The recorded layer of this kind in the same phase, on the same GPU, of the nearest length."""
    recording = layers_on(phase.hardware) if phase.parallel == 1 else None
    found = [
        one
        for one in (recorded_layers(recording, model) if recording else ())
        if (one.row.kind, one.row.phase) == (layer.kind, phase.name)
    ]
    return min(found, key=lambda one: abs(log2(one.row.tokens / phase.tokens)), default=None)
