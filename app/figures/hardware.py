"""A GPU's figures in words, each group with its source; and what was measured of them, drawn."""

from itertools import cycle

from app.figures.base import Figure
from app.figures.colours import Palette
from app.figures.curves import Curve, curves
from app.figures.units import bytes_text, digits, scaled, seconds_text
from engine.problem.calibration import BENCHMARKS, FROM_DRAM, ORDER, Calibration
from engine.problem.hardware import KIB, MIB, REACHES, Gpu
from engine.recordings.file import is_of, recordings

CHART, FEW = 340, 5  # pixels, and places of a benchmark that are all named
TONES = ("violet", "lime", "rose", "good", "muted")
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
    one, lines = BENCHMARKS[key], {}
    series = {name: dict(points) for name, points in found.series[key].items() if name != FROM_DRAM}
    places = sorted({place for points in series.values() for place in points})
    for (name, points), tone in zip(series.items(), cycle(TONES), strict=False):
        lines[name] = Curve(points, tone, points=True)
        if vendor := one.expected(gpu).get(name):
            ends = dict.fromkeys((places[0], places[-1]), vendor)
            lines[f"{name}, the vendor's"] = Curve(ends, tone, "dot", listed=False)
    axes = {"x": one.over, "y": "" if one.unit else ORDER, "linear": True, "even": key not in APART}
    axes["told"] = seconds_text if one.unit == "s" else lambda value: scaled(value, one.unit)
    axes["ticks"] = places if len(places) <= FEW else [10.0**power for power in range(4, 10)]
    return curves(lines, colours, **axes, words=lambda place: scaled(place, "").strip(), height=CHART)
