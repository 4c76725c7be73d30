"""What the page of a model asks: attention's share over the length, and the same by standard attention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType

from engine.algorithms import flash2, standard
from engine.experiment import Experiment
from engine.layers.config import names, shipped
from engine.layers.model import Model
from engine.layers.phase import AUTO, PARALLEL, PHASES, PREFILL, Evaluated, Part, Phase
from engine.model.device_memory import memory_bytes
from engine.problem.hardware import gpu_named
from engine.recordings.file import SHELF, is_of, recordings
from engine.recordings.recording import Recording
from engine.recordings.timing import LayerTiming

OWN = "own"  # a model whose config.json was pasted
LENGTHS = tuple(2**power for power in range(7, 21))
DRAWN = (*LENGTHS[::2], LENGTHS[-1])  # of the curves beside what runs, which are smooth
COMPARED = MappingProxyType({standard.ALGORITHM.key: "standard", flash2.ALGORITHM.key: "FlashAttention-2"})
LITTLE = 0.05  # of the time: below it nobody notices which attention runs
CHOICES = {
    "model": ((*names(), OWN), "llama-3-8b"),
    "phase": (PHASES, PREFILL),
    "context": (LENGTHS, 8192),
    "together": (tuple(2**power for power in range(9)), 1),
    "parallel": (PARALLEL, 1),
}


Shares = dict[int, float]  # attention's part of a phase's time, by tokens


def shares(model: Model, phase: Phase, lengths: tuple[int, ...] = LENGTHS) -> Shares:
    """Attention's share at every length that a phase can have, or at some, whatever its own."""
    return {tokens: replace(phase, tokens=tokens).of(model).attention_share for tokens in lengths}


def by_algorithm(model: Model, phase: Phase) -> dict[str, Shares]:
    """The same by standard attention, by FlashAttention-2, and by what the kernels take by themselves."""
    given = {name: shares(model, replace(phase, algorithm=key), DRAWN) for key, name in COMPARED.items()}
    return {**given, "auto": shares(model, replace(phase, algorithm=AUTO))}


def by_standard(model: Model, phase: Phase) -> Evaluated:
    return replace(phase, algorithm=standard.ALGORITHM.key).of(model)


def unnoticed(found: Shares) -> tuple[int, int] | None:
    """The lengths from which and up to which attention takes little, all between included; None: nowhere."""
    tokens, little = list(found), [share < LITTLE for share in found.values()]
    if True not in little:
        return None
    first = little.index(True)
    last = little.index(False, first) - 1 if False in little[first:] else len(found) - 1
    return tokens[first], tokens[last]


TAUGHT = "llama-3-8b"
PROMPTS = LENGTHS[:11]  # of which a layer is drawn


@dataclass(frozen=True)
class LayerTime:
    """One layer of so many tokens in seconds, modelled: what is not attention, and attention twice."""

    tokens: int
    rest: float  # everything else
    # standard, fast: attention's own, as standard attention and as the kernel that is chosen by itself
    standard: float
    fast: float
    fits: bool  # whether what standard attention stores fits the GPU's memory
    label: str  # the chosen kernel's name

    @property
    def shares(self) -> tuple[float, float]:
        """Attention's share of the layer, with standard attention and with the chosen kernel."""
        return tuple(each / (self.rest + each) for each in (self.standard, self.fast))

    @property
    def attention_gain(self) -> float:
        return self.standard / self.fast

    @property
    def gain(self) -> float:
        return (self.rest + self.standard) / (self.rest + self.fast)


@lru_cache(maxsize=256)
def layer_time(model: Model, tokens: int, hardware: str) -> LayerTime:
    """The model's most frequent layer that has attention, in a prompt of so many tokens."""
    ways = (Phase(PREFILL, tokens, 1, 1, hardware, name).of(model).parts for name in ("standard", AUTO))
    slow, fast = (max(filter(attrgetter("experiment"), parts), key=attrgetter("count")) for parts in ways)
    fits = memory_bytes(slow.experiment) <= slow.experiment.gpu.memory_bytes
    times = slow.attention_seconds, fast.attention_seconds
    return LayerTime(tokens, slow.other_seconds, *times, fits, fast.experiment.record.label)


def taught(experiment: Experiment) -> LayerTime:
    """That of the lecture's model, in a prompt as long as the scenario's keys, on its GPU."""
    return layer_time(shipped(TAUGHT), experiment.problem.seq_kv, experiment.hardware)


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
def recorded_layers(recording: Recording) -> tuple[RecordedLayer, ...]:
    """All layers of a recording that ran."""
    gpu, found = gpu_named(recording.device.gpu), []
    for row in recording.layers if gpu else ():
        if row.times and row.rest and row.model in names():
            plain = replace(shipped(row.model), quantized="")
            parts = Phase(row.phase, row.tokens, row.batch, hardware=gpu.key).of(plain).parts
            found += [RecordedLayer(row, part) for part in parts if part.layer.kind == row.kind]
    return tuple(found)
