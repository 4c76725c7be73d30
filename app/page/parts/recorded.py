"""What a page shows of a recording: curves over the length, beside the model."""

from collections.abc import Sequence

from app.elements import plot
from app.figures import speed as figures
from app.figures.algorithms import kernel
from app.figures.base import Figure
from app.figures.colours import Palette
from app.figures.units import short
from engine.algorithms import BACKWARD, FORWARD
from engine.experiment import Experiment
from engine.problem.cache import kept_with
from engine.problem.hardware import gpu_named
from engine.recordings import rows as timed
from engine.recordings.recording import Recording
from engine.recordings.timing import Timing

LAST_TILES = (
    "Without a mask the kernel of FlashAttention-3 shares out its last tiles among all SMs from d = 128 on. "
    "The model does not, so a last round in which few SMs work takes it longer."
)


def curves(
    recording: Recording, experiment: Experiment, metric: str, colours: Palette, direction: str = FORWARD
) -> None:
    """Everyone that was timed over the length, at the recorded shape nearest to the scenario."""
    shape = timed.nearest_shape(recording, experiment)
    if shape is not None and (found := _curves(recording, shape, metric, colours, direction)):
        after, figure, caption = found
        told = {"alt": "Recorded speed over N", "key": "recorded curves"}
        plot(recording.heading, figure, caption, after=f": {after}", **told)


@kept_with(16)
def _curves(
    recording: Recording, shape: tuple[int, bool], metric: str, colours: Palette, direction: str
) -> tuple[str, Figure, str] | None:
    """What was timed, chart and caption of the curves, which no slider changes but by another shape."""
    timings = timed.timings_of(recording, *shape, direction)
    rows, gpu = timed.recorded_rows(timings), gpu_named(recording.device.gpu)
    if not rows:
        return None
    modelled = timed.modelled_timings if direction == FORWARD else timed.modelled_backward
    model = modelled(timings, gpu.key) if gpu else ()
    groups = ((figures.MODELLED, model), (recording.origin, rows))
    figure, told = figures.speed_by_length(groups, metric, colours), ""
    if metric == "speedup" and timed.baseline(timings) != timed.BASELINE:
        told = "Speed-ups are over PyTorch's flash backend: unfused attention was not recorded here. "
    if model and direction == BACKWARD:
        told = f"The dotted line is the model of {kernel(timed.BACKWARD_PROVIDER)}."
    elif model:
        blocks = "blocks of {} × {}".format(*timed.MODEL_BLOCKS)
        told += (
            "Dotted lines are modelled for this shape: Flash 2 and Flash 3 in the blocks that their kernels "
            f"take by themselves, the others with {blocks}. {LAST_TILES}"
        )
    return shape_text(timings, direction), figure, told


def shape_text(timings: Sequence[Timing], direction: str) -> str:
    """What was timed: everything but the length, and how much work there is at each, at least."""
    problem, tokens = timings[0].problem, min(row.problem.batch * row.problem.seq_q for row in timings)
    return (
        f"{direction}, d = {problem.head_dim}, {problem.mask.text}, {problem.dtype}; "
        f"{short(tokens)} tokens in all, hidden size {problem.hidden_size:,}"
    )
