"""From so many times fewer bytes to so many times less time: one reason after the other takes its slice."""

from pathlib import Path

from app.canvas.moving import Played
from app.canvas.pack import pack
from app.figures.units import digits, scaled, seconds_text
from engine.experiment import Experiment
from engine.studies.gains import bytes_less, places, reasons

BRIDGE = Played("from_bytes_to_time", Path(__file__).with_name("bridge.js"), "From fewer bytes to less time")
TOLD = (
    "Standard attention takes {end}: it waits for memory, far below the roof of the tensor cores.",
    "{name} moves {fewer} times fewer bytes. At HBM's peak rate they take {end}, if nothing else took time.",
    "The products are as many as before. They take {end}, so memory is no longer what it waits for.",
    "The tensor cores wait for the part of the softmax that does not run beside them: {end} so far.",
    "With its loads, waits, launch and tail it takes {end}, {gain} times less than standard attention.",
)
COLOURS = ("muted", "Q", "S", "statistics", "K")


def payload(experiment: Experiment) -> bytes:
    """The payload of a scenario in the blocks that its kernel takes by itself, a frame for each reason."""
    experiment = experiment.in_own_tiling()
    gpu, dtype = experiment.gpu, experiment.problem.dtype
    steps, fewer = reasons(experiment), bytes_less(experiment)
    said = {
        "name": experiment.record.label,
        "fewer": digits(fewer),
        "gain": digits(steps[0][2] / steps[-1][2]),
    }
    frames = [
        {
            "sentence": TOLD[n].format(end=seconds_text(end), **said),
            "facts": [
                ["time so far" if n else "time", seconds_text(end), "ink"],
                ["times less than standard", digits(steps[0][2] / end), "O"],
                ["FLOPs per byte across HBM", digits(intensity), "Q"],
                ["FLOPs per second", scaled(rate, "FLOP/s"), "S"],
            ],
            **{"name": name, "start": start, "end": end, "color": COLOURS[n]},
            **{"words": seconds_text(end), "intensity": intensity, "rate": rate},
        }
        for n, ((name, start, end), (intensity, rate)) in enumerate(
            zip(steps, places(experiment), strict=True)
        )
    ]
    header = {
        "frames": frames,
        "note": ["modelled", gpu.name, "own blocks"],
        "peak": gpu.products_per_second(dtype),
        "memory": gpu.memory_bytes_per_second,
    }
    return pack(header, {})
