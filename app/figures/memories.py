"""A GPU's memories in HTML: areas are sizes, ways as thick as they are fast; what N × N matrices fill."""

from math import sqrt

from app.figures.colours import Palette
from app.figures.units import bytes_text, chip_bytes_text, counted, digits, scaled, share_text, times_text
from engine.experiment import Experiment
from engine.problem.hardware import Gpu
from engine.studies.calibrated import Memory
from engine.studies.calibrated import memories as memories_of
from engine.studies.survey import growth as growth_of

SIDE, THICK = 8.0, 4.0  # rem: HBM's square, and the fastest way


def memories(gpu: Gpu, colours: Palette) -> str:
    """From HBM to the registers; bytes pass at one speed, so each way is as thick as it is fast."""
    *on_chip, hbm = memories_of(gpu)
    enlarged = hbm.bytes / max(memory.bytes for memory in on_chip)
    fastest = max(memory.bytes_per_second or 0 for memory in on_chip)
    dot = _box("dot", SIDE * sqrt(on_chip[-1].bytes / hbm.bytes), colours.s)
    parts = [_square(hbm, SIDE, colours.muted, dot)]
    for outer, memory in zip((hbm, *on_chip[:0:-1]), on_chip[::-1], strict=True):
        thick = THICK * outer.bytes_per_second / fastest
        rate = scaled(outer.bytes_per_second, "B/s")
        parts.append(f"<p style='--thick: {thick:.2f}rem; --byte: {colours.s}'>{rate}<i></i></p>")
        parts.append(_square(memory, SIDE * sqrt(memory.bytes * enlarged / hbm.bytes), colours.s))
    faster = digits(on_chip[-1].bytes_per_second / hbm.bytes_per_second)
    about = (
        f"HBM is {enlarged:,.0f} times as large as L2; the dot in it shows L2 at HBM's scale, and the areas "
        "on the chip are to one scale of their own. Bytes pass at one speed, so the way from L2, "
        f"{faster} times as thick as that from HBM, brings as many times the bytes per second. What one SM "
        "has is in KiB of 1,024 bytes. Rates are peaks; no data sheet states L2's."
    )
    return f"<div class='memories'>{''.join(parts)}</div><div class='note'>{about}</div>"


def _square(memory: Memory, side: float, colour: str, inside: str = "") -> str:
    each = f"<br>{memory.parts:,} × {chip_bytes_text(memory.each)}" if memory.parts > 1 else ""
    told = f"<figcaption><b>{memory.name}</b><br>{bytes_text(memory.bytes)}{each}</figcaption>"
    return f"<figure>{told}{_box('square', side, colour, inside)}</figure>"


def _box(kind: str, side: float, colour: str, inside: str = "") -> str:
    return f"<i class='{kind}' style='--side: {side:.3f}rem; --byte: {colour}'>{inside}</i>"


def growth(experiment: Experiment, colours: Palette) -> str:
    """What unfused attention keeps beside all that fused attention does, as areas of the GPU's memory."""
    need, problem = growth_of(experiment), experiment.problem
    share, fits = need.unfused / need.capacity, need.unfused <= need.capacity
    over = times_text(share).replace("×", " times") if share >= 1.05 else "a little more than"
    verdict = (
        f"Standard attention takes {share_text(share, 1)} of the memory."
        if fits
        else f"Standard attention does not fit: it takes {over} the memory."
    )
    colour = colours.s if fits else colours.bad
    matrices = _area(need.matrices / need.capacity, problem.seq_q, problem.seq_kv, colour, "left")
    tensors = _area(need.tensors / need.capacity, 1, 1, colours.q, "right")
    told = f"S and P, {problem.seq_q:,} × {problem.seq_kv:,} for {counted(problem.all_heads, 'head')}"
    return (
        f"<div class='growth'><figure><figcaption>{experiment.gpu.name}: {bytes_text(need.capacity)} of "
        f"memory</figcaption><i class='whole' style='background: {colours.panel}; outline-color: "
        f"{colours.muted}'>{matrices}{tensors}</i></figure><div>"
        f"<p><b style='color: {colour}'>{bytes_text(need.matrices)}</b>{told}</p>"
        f"<p><b style='color: {colours.q}'>{bytes_text(need.tensors)}</b>"
        "Q, K, V and O, all that fused attention stores</p>"
        f"<p class='verdict' style='color: {'inherit' if fits else colour}'>{verdict}</p></div></div>"
    )


def _area(share: float, rows: int, columns: int, colour: str, side: str) -> str:
    """A matrix of so many rows and columns with that share of the memory's area; what fits lies within it."""
    most = 1 / sqrt(share) if 0 < share <= 1 else sqrt(columns / rows)
    shape = min(max(sqrt(columns / rows), 1 / most), most)
    width, height = (100 * sqrt(share) * by for by in (shape, 1 / shape))
    return f"<s style='{side}: 0; width: {width:.2f}%; height: {height:.2f}%; background: {colour}'></s>"
