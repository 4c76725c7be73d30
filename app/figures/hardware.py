"""A GPU's figures in words, each group with its source."""

from app.figures.units import bytes_text, digits, scaled
from engine.problem.hardware import KIB, MIB, Gpu
from engine.recordings.file import is_of, recordings


def unchecked(gpu: Gpu) -> str:
    """That nothing modelled was ever checked on a GPU, where none was recorded."""
    if any(is_of(each, gpu.key) for each in recordings()):
        return ""
    return (
        f"Nothing modelled was ever checked on {gpu.with_article}: times and DRAM bytes take what an H200 "
        f"reaches of its peaks{', or what is published of it' * ('what it reaches' in gpu.sources)}."
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
        "what it reaches": (
            f"{scaled(gpu.reached.matrix * gpu.matrix_flops['float16'], 'FLOP/s')} in float16, "
            f"{digits(gpu.running_clock / 1e9)} GHz"
        ),
    }
    return [(group, words[group], source) for group, source in gpu.sources.items()]
