"""A layer's time over the length of a prompt: attention's slice of it, standard and as kernels run it."""

from dataclasses import dataclass
from functools import lru_cache

from engine.experiment import Experiment
from engine.layers.config import shipped
from engine.layers.model import Model
from engine.layers.phase import AUTO, PREFILL, Part, Phase
from engine.model.device_memory import memory_bytes

TAUGHT = "llama-3-8b"
LENGTHS = tuple(2**power for power in range(7, 18))


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
    slow, fast = (_part(model, Phase(PREFILL, tokens, 1, 1, hardware, name)) for name in ("standard", AUTO))
    fits = memory_bytes(slow.experiment) <= slow.experiment.gpu.memory_bytes
    times = slow.attention_seconds, fast.attention_seconds
    return LayerTime(tokens, slow.other_seconds, *times, fits, fast.experiment.record.label)


def taught(experiment: Experiment) -> LayerTime:
    """That of the lecture's model, in a prompt as long as the scenario's keys, on its GPU."""
    return layer_time(shipped(TAUGHT), experiment.problem.seq_kv, experiment.hardware)


def _part(model: Model, phase: Phase) -> Part:
    return max((each for each in phase.of(model).parts if each.experiment), key=lambda each: each.count)
