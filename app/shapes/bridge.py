"""From so many times fewer bytes to so many times less time: one reason after the other takes its slice."""

from math import log10

from app.canvas.moving import Played
from app.figures.units import digits, scaled, seconds_text
from app.shapes import SCRIPT, Frame
from app.shapes import payload as shapes
from engine.experiment import Experiment
from engine.studies.gains import bytes_less, places, reasons

BRIDGE = Played("from_bytes_to_time", SCRIPT, "From fewer bytes to less time")
LEFT, TOP, WIDE, HIGH = 0.02, 0.6, 0.96, 0.34  # of the picture: where the roofline is, with powers of ten
PITCH = 0.105  # from one reason to the next
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
    at = [(log10(intensity), log10(rate)) for intensity, rate in places(experiment)]
    roof = log10(gpu.products_per_second(dtype))
    memory = log10(gpu.memory_bytes_per_second)
    ridge = (roof - memory, roof)
    xs, ys = ([*each] for each in zip(*at, ridge, strict=True))
    low, high = (min(xs) - 0.3, min(ys) - 0.3), (max(xs) + 0.3, max(ys) + 0.2)

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + WIDE * (x - low[0]) / (high[0] - low[0]), TOP + HIGH * (high[1] - y) / (
            high[1] - low[1]
        )

    start = max(low[0], low[1] - memory)
    slope, turn, peak = place(start, start + memory), place(*ridge), place(high[0], roof)
    fixed = [
        ("FLOPs per second", 0, TOP - 0.03, "ink"),
        ("FLOPs per byte across HBM", 0.99, 0.97, "muted", "right"),
        ("peak of the tensor cores", 0.97, peak[1] - 0.02, "muted", "right"),
        (
            "peak of HBM",
            max(0.17, (slope[0] + turn[0]) / 2),
            (slope[1] + turn[1]) / 2 - 0.03,
            "muted",
            "right",
        ),
    ]
    frames, longest = [], steps[0][2]
    for n, ((_, _, end), (intensity, rate)) in enumerate(zip(steps, places(experiment), strict=True)):
        facts = [
            ("time so far" if n else "time", seconds_text(end), "ink"),
            ("times less than standard", digits(longest / end), "O"),
            ("FLOPs per byte across HBM", digits(intensity), "Q"),
            ("FLOPs per second", scaled(rate, "FLOP/s"), "S"),
        ]
        boxes, words = [], list(fixed)
        for k, (name, begin, until) in enumerate(steps):
            top, wide = k * PITCH + 0.055, max(0.006, (until - begin) / longest)
            boxes += [(0, top, 1, 0.05, k <= n), (begin / longest, top, wide * (k <= n), 0.05, 1)]
            if k <= n:
                words.append((f"{'+ ' * (k > 1)}{name}: {seconds_text(until)}", 0, top - 0.015, "ink"))
        dots = [(*place(*each), 0.006, 0.5 * (k <= n)) for k, each in enumerate(at)]
        boxes += [
            (x - size, y - 1.4 * size, 2 * size, 2.8 * size, strong)
            for x, y, size, strong in (*dots, (*place(*at[n]), 0.011, 1))
        ]
        frames.append(Frame(boxes, TOLD[n].format(end=seconds_text(end), **said), facts, words))
    tones = [tone for colour in COLOURS for tone in ("panel", colour)] + ["O"] * (len(at) + 1)
    lines = [("muted", [slope, turn, peak])]
    note = ["modelled", gpu.name, "own blocks"]
    return shapes(BRIDGE.title, note, tones, frames, wide=True, opaque=True, lines=lines)
