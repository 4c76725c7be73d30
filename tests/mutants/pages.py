"""Mutants of the pages' tables and sentences: numbers that stand below another's name, or upside down."""

from tests.mutants.mutant import Mutant, planting

T = "tests/app/page/test_"


def _of(file: str, page: str):
    """Mutants of a file here, seen by a page's tests."""
    return planting("pages", f"app/page/{file}.py", f"{T}{page}.py")


recorded = _of("parts/recorded", "recorded_pages")
chip = _of("parts/chip", "recorded_pages")
clusters = _of("parts/clusters", "across_page")
scaling = _of("parts/scaling", "across_page")
bottleneck = _of("parts/bottleneck", "speed_page")
gpu = _of("gpu", "gpu_page")
flash3 = _of("flash3", "flash3_page")
masks = _of("masks", "masks_page")
backward = _of("backward", "backward_page")
across = _of("across", "across_page")
speed = _of("speed", "speed_page")
traffic = _of("traffic", "traffic_page")
decoding = _of("decoding", "decoding_page")
scaled = planting("pages", "app/figures/across.py", f"{T}across_page.py")
sent = planting("pages", "app/across/payload.py", f"{T}across_page.py")
told = planting("pages", "engine/__main__.py", "tests/engine/test_command_line.py")
summary = planting("pages", "engine/model/simulation.py", "tests/engine/test_command_line.py")

MUTANTS: tuple[Mutant, ...] = (
    recorded(
        "percentiles",
        "(row.times.p20, row.times.p50, row.times.p80)",
        "(row.times.p80, row.times.p50, row.times.p20)",
        "the slowest launches are called the fastest",
    ),
    recorded(
        "errors",
        "for value in (row.error, row.allowed)",
        "for value in (row.allowed, row.error)",
        "an error is called what is allowed",
    ),
    gpu(
        "gpu-ratio",
        "ratio_text(seconds, row.times.p50)",
        "ratio_text(row.times.p50, seconds)",
        "a model that is too slow is called too fast",
    ),
    gpu(
        "gpu-worst",
        "for key, (median, most, calls) in far",
        "for key, (most, median, calls) in far",
        "the worst error is called the median one",
    ),
    flash3(
        "flash3-busy",
        "busy for {share_text(block.tensor_busy)} and",
        "busy for {share_text(block.softmax_busy)} and",
        "tensor cores are as busy as the softmax units",
    ),
    flash3(
        "flash3-worth",
        "(left.traffic.requested.total, left.traffic.dram.total)",
        "(left.traffic.dram.total, left.traffic.requested.total)",
        "what is asked of L2 is said to cross HBM",
    ),
    flash3(
        "flash3-kernels",
        "ratio_text(row.modelled_seconds, row.seconds)",
        "ratio_text(row.seconds, row.modelled_seconds)",
        "recorded over modelled time is called the opposite",
    ),
    masks(
        "masks-seen",
        "(one.visited, one.seen, one.wasted)",
        "(one.seen, one.visited, one.wasted)",
        "pairs that are seen are called tiles that are visited",
    ),
    backward(
        "backward-flops",
        'scaled(costs.flops[way], "FLOP")',
        'scaled(1.01 * costs.flops[way], "FLOP")',
        "FLOPs of a backward pass are a per cent too many",
    ),
    backward(
        "backward-counters",
        "bytes_text(one.modelled_written), bytes_text(one.counters.tile_written)",
        "bytes_text(one.counters.tile_written), bytes_text(one.modelled_written)",
        "recorded writes are called counted",
    ),
    backward(
        "backward-ratio",
        "{digits(both.ratio)} times as long",
        "{digits(1 / both.ratio)} times as long",
        "the backward pass is said to be faster than the forward pass",
    ),
    across(
        "across-headline",
        "seconds_text(time.one_gpu)}; {spread",
        "seconds_text(time.seconds)}; {spread",
        "one GPU is as fast as all together",
    ),
    across(
        "across-fetched",
        "for each in parts.links)\n    st.caption",
        "for each in parts.links[::-1])\n    st.caption",
        "GPUs are said to fetch what others did",
    ),
    clusters(
        "clusters-efficiency",
        "share_text(one.efficiency) if shared",
        "share_text(1 / one.efficiency) if shared",
        "an efficiency is upside down",
    ),
    scaling(
        "scaling-memory",
        "bytes_text(room.bytes),\n            bytes_text(room.others)",
        "bytes_text(room.others),\n            bytes_text(room.bytes)",
        "buffers are called all that a GPU holds",
    ),
    scaling(
        "scaling-needed",
        "needs {found.needed:,.0f}",
        "needs {2 * found.needed:,.0f}",
        "twice as many tokens are said to be needed",
    ),
    chip(
        "chip-left",
        'f"{bytes_in_mb(typical)} per kernel in the median, {bytes_in_mb(most)} at worst',
        'f"{bytes_in_mb(most)} per kernel in the median, {bytes_in_mb(typical)} at worst',
        "what is left in L2 at worst is called the median",
    ),
    chip(
        "chip-written",
        "(row.modelled_dram_written, row.dram_written, row.left_in_cache)",
        "(row.dram_written, row.modelled_dram_written, row.left_in_cache)",
        "recorded writes are called modelled",
    ),
    bottleneck(
        "bottleneck-recorded",
        'columns.append(("recorded", one.utilisation))',
        'columns.append(("recorded", shares))',
        "modelled shares are called recorded",
    ),
    speed(
        "speed-gigaflops",
        'scaled(row["tflops"] * 1e12, "FLOP/s")',
        'scaled(row["tflops"] * 1e9, "FLOP/s")',
        "measured TFLOP/s are off by 1000",
    ),
    traffic(
        "traffic-intensity",
        'one.traffic.intensity("dram")',
        'one.traffic.intensity("requested")',
        "FLOP per byte of HBM are of requested bytes",
    ),
    traffic(
        "traffic-memory",
        "map(bytes_text, memory_taken(experiment).values())",
        "map(bytes_text, reversed(memory_taken(experiment).values()))",
        "unfused attention is said to need what version 2 does",
    ),
    decoding(
        "decoding-percentiles",
        "(row.times.p20, row.times.p50, row.times.p80)",
        "(row.times.p80, row.times.p50, row.times.p20)",
        "the slowest launches are called the fastest",
    ),
    decoding(
        "decoding-copy",
        "percent_text(row.bytes_per_second, copy) if copy",
        "percent_text(copy, row.bytes_per_second) if copy",
        "a share of a copy's speed is upside down",
    ),
    decoding(
        "decoding-one-sm",
        "scaled(rate_of_sm(simulation), 'B/s')",
        "scaled(2 * rate_of_sm(simulation), 'B/s')",
        "one SM is said to read twice as fast",
    ),
    scaled(
        "chart-efficiency",
        '"y": [one.efficiency for one in found.values()]',
        '"y": [1 / one.efficiency for one in found.values()]',
        "modelled efficiencies are upside down",
    ),
    scaled(
        "chart-recorded-efficiency",
        '        "y": [one.efficiency],',
        '        "y": [one.row.gpus * one.efficiency],',
        "recorded efficiencies are speed-ups",
    ),
    scaled(
        "chart-rounds",
        '("computing", [one.computing for one in found], colours.s)',
        '("computing", [one.transfer for one in found], colours.s)',
        "a round computes as long as it transfers",
    ),
    scaled(
        "chart-rounds-milliseconds",
        '"y": [value * 1e6 for value in each]',
        '"y": [value * 1e3 for value in each]',
        "ms are drawn as µs",
    ),
    sent(
        "across-one-gpu",
        '"oneGpu": one_gpu * MICRO',
        '"oneGpu": one_gpu * 1e3',
        "one GPU is said to take a thousandth",
    ),
    sent(
        "across-efficiency",
        "one_gpu / (spread.gpus * run.seconds)",
        "one_gpu / run.seconds",
        "a speed-up is called an efficiency",
    ),
    told(
        "table-compulsory",
        "moved.compulsory.total_read, moved.compulsory.total_written",
        "moved.compulsory.total_written, moved.compulsory.total_read",
        "compulsory reads are called writes",
    ),
    told(
        "table-dram",
        '("DRAM", moved.dram.total_read,',
        '("DRAM", moved.requested.total_read,',
        "requested bytes are said to come from DRAM",
    ),
    told(
        "table-nanoseconds",
        "simulation.modelled.seconds * 1e6:,.1f",
        "simulation.modelled.seconds * 1e9:,.1f",
        "ns are called µs",
    ),
    summary(
        "json-written",
        '"tile_write_bytes": bytes_.requested.total_written',
        '"tile_write_bytes": bytes_.requested.total_read',
        "what tiles read is called written",
    ),
    summary(
        "json-partial",
        '"tiles_partial": bytes_.tiles_partial',
        '"tiles_partial": bytes_.tiles_full',
        "full tiles are called partial",
    ),
)
