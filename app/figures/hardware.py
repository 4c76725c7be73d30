"""A GPU's figures in words, each group with its source; and what was measured of them, drawn."""

from itertools import cycle

from app.figures.base import Figure, drawn, line
from app.figures.colours import Palette
from app.figures.units import bytes_text, digits, scaled
from engine.problem.calibration import BENCHMARKS, FROM_DRAM, ORDER, Calibration
from engine.problem.hardware import KIB, MIB, REACHES, Gpu
from engine.recordings.file import is_of, recordings

CHART, FEW = 340, 5  # pixels, and places of a benchmark that are all named
APART = ("memory", "waits", "products")  # benchmarks whose places lie by factors apart


def unchecked(gpu: Gpu, brief: bool = False) -> str:
    """That nothing modelled was ever checked on a GPU, where none was recorded; brief: no more."""
    if any(is_of(each, gpu.key) for each in recordings()):
        return ""
    if brief:
        return f"Nothing modelled was ever checked on {gpu.with_article}."
    if gpu.calibration:
        return f"Nothing modelled was ever checked on it. Its rates: {gpu.sources[REACHES]}."
    return (
        f"Nothing modelled was ever checked on {gpu.with_article}: times and DRAM bytes take what an H200 "
        f"reaches of its peaks{', or what is published of it' * (REACHES in gpu.sources)}."
    )


def figures_lines(gpu: Gpu) -> list[tuple[str, str, str]]:
    """(what they are of, the figures in words, their source) of every group of a preset's figures."""
    half, single = (scaled(gpu.matrix_flops[dtype], "FLOP/s") for dtype in ("float16", "float32"))
    words = {
        "SMs, clock, peaks, bandwidth": (
            f"{gpu.sms} SMs at {digits(gpu.clock_hz / 1e9)} GHz; {half} in float16, {single} in float32; "
            f"{scaled(gpu.memory_bytes_per_second, 'B/s')} of memory; {gpu.exponentials_per_clock} "
            "exponentials per clock and SM"
        ),
        "blocks and shared memory": (
            f"{gpu.shared_bytes_block // KIB} KiB per block, {gpu.shared_bytes_sm // KIB} KiB per SM; "
            f"{gpu.register_bytes_sm // KIB} KiB of registers and {gpu.blocks_sm} blocks per SM"
        ),
        "memory": bytes_text(gpu.memory_bytes),
        "L2 to SMs": (
            f"{scaled(gpu.cache_bytes_per_second, 'B/s')}, {gpu.l2_bytes_per_clock:,.0f} B per clock"
        ),
        "L2 for what all SMs share": f"{gpu.l2_effective_bytes // MIB} of {gpu.l2_bytes // MIB} MiB",
        REACHES: (
            f"{scaled(gpu.reached.matrix * gpu.matrix_flops['float16'], 'FLOP/s')} in float16, "
            f"{digits(gpu.running_clock / 1e9)} GHz"
        ),
    }
    return [(group, words[group], source) for group, source in gpu.sources.items()]


def benchmark(key: str, found: Calibration, gpu: Gpu, colours: Palette) -> Figure:
    """The points of one micro-benchmark, a line for each series, and the vendor's figures dotted."""
    one, series = BENCHMARKS[key], found.series[key]
    palette = cycle((colours.violet, colours.lime, colours.rose, colours.good, colours.muted))
    traces, places = [], sorted({x for points in series.values() for x, _ in points})
    for (name, points), colour in zip(series.items(), palette, strict=False):
        if name == FROM_DRAM:
            continue
        x, y = map(list, zip(*points, strict=True))
        traces.append(line(x, y, colour, f"{name}: %{{y:.3~s}}{one.unit}", name=name, mode="lines+markers"))
        if vendor := one.expected(gpu).get(name):
            ends = [places[0], places[-1]]
            traces.append(line(ends, [vendor] * 2, colour, dash="dot", width=1.5, showlegend=False))
    scale = {"type": "log", "dtick": 1} if key in APART else {}
    if len(places) <= FEW:
        scale["tickvals"] = places
    return drawn(
        traces,
        colours,
        height=CHART,
        x={"title_text": one.over, "tickformat": ".3~g" if key == "power" else ".3~s", **scale},
        y={"title_text": one.unit or ORDER, "tickformat": "~s", "rangemode": "tozero"},
    )
