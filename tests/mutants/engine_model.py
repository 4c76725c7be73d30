"""Mutants of the engine: wrong launches, wrong seconds, wrong timelines and their files."""

from tests.mutants.mutant import Mutant
from tests.mutants.mutant import of_engine as _of

flash3 = _of("algorithms/flash3.py", "instructions")
launch = _of("model/launch.py", "simulated")
occupancy = _of("model/occupancy.py", "footprint", "against_the_chip")
footprint = _of("model/footprint.py", "footprint")
placement = _of("model/placement.py", "placement")
rates = _of("model/rates.py", "modelled", "memories")
visit = _of("model/visit.py", "modelled")
sharing = _of("model/sharing.py", "modelled")
returning = _of("model/returning.py", "returning")
around = _of("model/around.py", "modelled", "instructions")
block = _of("model/block_seconds.py", "modelled", "simulated")
rows = _of("model/rows.py", "unfused_rows")
unfused = _of("model/unfused.py", "unfused_rows")
seconds = _of("model/seconds.py", "modelled")
roofline = _of("model/roofline.py", "footprint")
export = _of("model/export.py", "export")
timeline = _of("model/timeline.py", "timeline")
fabric = _of("model/cluster/fabric.py", "cluster")

MUTANTS: tuple[Mutant, ...] = (
    launch(
        "launch-lightest-first",
        "self.count - 1 - at // together",
        "at // together",
        "the heaviest blocks come last",
        "simulated",
        "mirrors",
    ),
    launch(
        "launch-splits-unnamed",
        "return head, block // self.phase.splits, block % self.phase.splits",
        "return head, block % self.phase.splits, block // self.phase.splits",
        "a block of split keys is drawn at another's place",
        "simulated",
    ),
    occupancy(
        "occupancy-reserved", "RESERVED = KIB ", "RESERVED = 0 * KIB ", "an SM holds a block more than it can"
    ),
    occupancy(
        "occupancy-registers",
        "WORKING_REGISTERS = 48",
        "WORKING_REGISTERS = 96",
        "an SM holds fewer blocks than it can",
    ),
    rows(
        "rows-without-addresses",
        "ADJACENT_REGISTERS = 3, 0.5",
        "ADJACENT_REGISTERS = 0.5, 0.5",
        "an SM holds two blocks that fetch numbers of P one by one",
    ),
    rows(
        "rows-side-by-side",
        "schedule.tiling.block_kv == columns",
        "schedule.tiling.block_kv <= columns",
        "numbers of P lie side by side that do not",
    ),
    rows(
        "rows-more-warps",
        "SOFTMAX_NUMBERS = 1024",
        "SOFTMAX_NUMBERS = 512",
        "a softmax has twice the warps",
    ),
    rows(
        "rows-never-spill",
        "padded_row(schedule) >= MOST_WARPS * WARP_NUMBERS",
        "padded_row(schedule) > MOST_WARPS * WARP_NUMBERS",
        "a row of 65,536 numbers is taken to stay in registers",
    ),
    unfused(
        "unfused-row-without-trip",
        "return ROW_TRIP + running",
        "return running",
        "a softmax waits for the bytes of its row alone",
    ),
    unfused(
        "unfused-row-by-itself",
        "running * rows / rates.memory",
        "rows / rates.memory",
        "blocks of the softmax have HBM for themselves",
    ),
    unfused(
        "unfused-fetched-at-once",
        "FETCH_TRIP = 0.8e-6",
        "FETCH_TRIP = 0.4e-6",
        "numbers of P are there before they can be",
    ),
    unfused(
        "unfused-narrow-tiles",
        "WIDE_APART = 8.4, 9.9",
        "WIDE_APART = 8.4, 8.4",
        "tiles of S of wide heads issue too little",
    ),
    unfused(
        "unfused-several-rows",
        "REST_APART = (118, 187, 210, 170, 163), (127, 236, 327, 560, 1146)",
        "REST_APART = (118, 187, 210, 170, 163), (127, 127, 127, 127, 127)",
        "a softmax of several rows issues as if it had one",
    ),
    rates(
        "rates-resting",
        "RESTING_CLOCK = 1.08",
        "RESTING_CLOCK = 1.0",
        "a softmax runs too slowly",
        "unfused_rows",
    ),
    block(
        "block-first-round-apart",
        "kernel.blocks > places * gpu.sms",
        "kernel.blocks > 0",
        "of blocks that begin together one works while the others wait",
        "against_the_chip",
    ),
    footprint(
        "footprint-context-in-bits",
        "MOST_REGISTERS = 255",
        "MOST_REGISTERS = 511",
        "threads have twice their registers",
    ),
    placement(
        "placement-drains-at-once",
        "ends = np.cumsum(steps / speeds[places - np.arange(places)][:, None], axis=0)",
        "ends = np.cumsum(steps, axis=0)",
        "blocks left alone on an SM run no faster",
    ),
    rates(
        "rates-matrix",
        "MATRIX_SHARE = 0.8 ",
        "MATRIX_SHARE = 0.9 ",
        "products run nearer their peak than any did",
    ),
    rates("rates-memory", "MEMORY_SHARE = 0.89", "MEMORY_SHARE = 1.0", "HBM delivers its peak"),
    rates("rates-waited-memory", "0.356e-6, 0.749e-6", "0.356e-6, 0.0", "DRAM answers as soon as L2"),
    returning("returning-l1", "(1 - _all_in_l1(launch, traffic)) *", "", "L1 answers no sooner than L2"),
    returning(
        "returning-nothing-spilled",
        " + WAITED_WORD * spilled_words(launch.schedule)",
        "",
        "a thread has registers for all",
        "modelled",
    ),
    returning(
        "returning-never-alone", " + WAITED_ALONE * alone", "", "an SM alone in its GPC waits no longer"
    ),
    returning("returning-few-rows", "issued=WAITED_WARPS)", "issued=0.0)", "few rows are quick"),
    returning(
        "returning-few-rows-in-step",
        "(1 + FEW_ROWS_ALONE) * few_rows_seconds",
        "few_rows_seconds",
        "a warp waits for none of its own instructions",
    ),
    returning(
        "returning-mean-line",
        "log1p(lines * lost) / log1p(lines)",
        "lost",
        "a visit waits for DRAM's lines on average, not for the last",
    ),
    returning(
        "returning-masks-for-nothing",
        "WAITED_MASK * launch.problem.mask.hides",
        "0.0",
        "a mask is applied in no time",
    ),
    rates("rates-launch", "LAUNCH = 2e-6", "LAUNCH = 3e-5", "a kernel takes 30 µs to start"),
    rates(
        "rates-waits",
        "WAITS_ALONE, WAITS_POWER = 0.8",
        "WAITS_ALONE, WAITS_POWER = 1.6",
        "warps wait twice as long",
    ),
    rates(
        "rates-full-of-few-keys",
        "FULL_REGISTERS, MOST_SUMS = 0.25, 150",
        "FULL_REGISTERS, MOST_SUMS = 0.25, 100",
        "blocks of 32 keys are said to have no registers left at d 256",
        "model_errors",
    ),
    rates("rates-power", "0.984, 0.5, 0.35", "0.984, 0.5, 0.1", "tensor cores take little power"),
    rates(
        "rates-scores", "= 5.2, 1.57, 6.2, 62", "= 6.2, 1.57, 6.2, 62", "a score takes an instruction more"
    ),
    rates(
        "rates-latency",
        "LATENCY = 0.7e-6",
        "LATENCY = 1.4e-6",
        "a round trip takes twice as long",
        "modelled",
        "split_kv_schedule",
    ),
    rates(
        "rates-float32",
        'vector=gpu.matrix_flops["float32"] / 2',
        'vector=gpu.matrix_flops["float32"]',
        "a fused multiply-add counts as two operations",
    ),
    visit(
        "visit-without-padding",
        "    one *= columns(problem.head_dim) / problem.head_dim\n",
        "",
        "head dimensions between powers of two cost too little",
    ),
    visit(
        "visit-narrow",
        "return max(1.0, (16 + keys / 4) / (keys / 2))",
        "return 1.0",
        "products of few keys wait for nothing",
    ),
    visit(
        "visit-issues-nothing",
        "return cycles / launch.gpu.clock_hz",
        "return 0.0",
        "a visit issues no instructions",
    ),
    sharing(
        "visit-shared",
        "return blocks * (alone + (pairs - 1) * longest) / pairs",
        "return alone",
        "blocks that share an SM do not slow one another",
    ),
    block(
        "block-hbm-after-l2",
        "np.hypot(beside(visit, pipeline, n), ",
        "np.add(beside(visit, pipeline, n), ",
        "blocks of flash1 wait for HBM after they have waited for L2",
    ),
    returning(
        "returning-waits-in-turn",
        "return alone + (blocks - 1) * (AT_WORK * (alone - visit.waited)) ** 2 / alone",
        "return blocks * alone",
        "blocks of flash1 that share an SM wait one after another",
    ),
    returning("returning-keys-at-once", "waited + at_keys / visits", "waited", "flash1 waits for no keys"),
    block(
        "block-no-way-of-its-own",
        " + (_own_way(launch, phase) if counted else 0.0)",
        "",
        "what a block moves around its visits is there at once",
    ),
    block(
        "block-units-of-one-head",
        "TENSOR: traffic.heads * padded * one_head.flops / rates.matrix",
        "TENSOR: padded * one_head.flops / rates.matrix",
        "the tensor cores are said to idle",
        "modelled",
        "counted",
    ),
    flash3(
        "flash3-draws-ahead",
        "return problem.mask.looks_ahead",
        "return True",
        "an SM draws the next of unequal tiles as it begins one",
    ),
    around(
        "around-trips",
        "waited = ROUND_TRIPS - (pipeline.specialised or pipeline.waiting or has_rows(phase))",
        "waited = ROUND_TRIPS",
        "a block that copies ahead waits as long as one that does not",
    ),
    around(
        "around-loops-that-are-not-entered",
        "np.diff(edges, axis=0) > 0",
        "np.diff(edges, axis=0) >= 0",
        "a block waits for loops without visits",
    ),
    around(
        "around-one-loop",
        "BLOCK_COPY * loops * ahead * copied",
        "BLOCK_COPY * ahead * copied",
        "only the first loop asks for copies ahead",
    ),
    around(
        "around-nothing-is-issued",
        "return blocks * (visit.gaps(blocks) - visit.full) * issued",
        "return 0 * issued",
        "a short window costs no more than its visits",
    ),
    block(
        "block-asks-hbm-while-none-works",
        "in_norm(lengths, asked, HBM_POWER)",
        "lengths + asked",
        "no block works while another waits for HBM",
    ),
    block(
        "block-cold-on-one-place",
        "min(kernel.blocks, kernel.resident * launch.gpu.sms)",
        "min(kernel.blocks, launch.gpu.sms)",
        "of the first blocks only one on each SM asks HBM",
        "against_the_chip",
    ),
    visit(
        "visit-straddles",
        "(max(issued, exponentials) + _straddling(launch, phase))",
        "max(issued, exponentials)",
        "rows of 80 columns pass shared memory like those of 128",
    ),
    occupancy(
        "occupancy-padded",
        "PADDED_REGISTERS * (wide and",
        "0 * (wide and",
        "padded columns take no registers",
    ),
    occupancy(
        "occupancy-causal",
        "CAUSAL_REGISTERS * (mask.causal and wide)",
        "0 * (mask.causal and wide)",
        "a causal mask takes no registers",
    ),
    rates(
        "rates-around",
        "= 8.7, 9, 87, 312, 115",
        "= 8.7, 9, 87, 412, 115",
        "a block issues a hundred instructions more",
        "instructions",
    ),
    seconds(
        "seconds-of-the-longest-kernel",
        "return Modelled(sum(parts.values()),",
        "return Modelled(max(parts.values()),",
        "three kernels take as long as one",
    ),
    seconds(
        "seconds-without-hbm",
        "parts[name] = max(seconds, delivered) + started(launch.pipeline)",
        "parts[name] = seconds + started(launch.pipeline)",
        "a kernel is faster than its bytes",
    ),
    roofline(
        "roofline-ridge",
        "return self.peak_flops / self.bytes_per_second",
        "return self.bytes_per_second / self.peak_flops",
        "the ridge is upside down",
    ),
    export("export-milliseconds", "MICRO = 1e6", "MICRO = 1e3", "Perfetto shows microseconds as nanoseconds"),
    export(
        "export-end-for-length",
        "(timeline.end - timeline.start) * MICRO",
        "timeline.end * MICRO",
        "a slice lasts until its end from the beginning",
    ),
    export(
        "export-unit-of-csv",
        '"displayTimeUnit": "ns"',
        '"displayTimeUnit": "us"',
        "the format knows ms and ns",
    ),
    timeline(
        "timeline-waves",
        "wave[order] = rank // np.asarray(self.resident)[self.kernel[order]]",
        "wave[order] = rank",
        "every block of an SM is a wave",
    ),
    timeline(
        "timeline-busy-twice",
        "np.maximum(0, end - np.maximum(start, before))",
        "(end - start)",
        "time in which two blocks run counts twice",
    ),
    timeline(
        "timeline-tail",
        "return self.seconds - float(self.last_end.min())",
        "return self.seconds - float(self.last_end.max())",
        "there is no tail",
    ),
    fabric(
        "fabric-both-directions",
        '"NVLink 4": 450e9',
        '"NVLink 4": 900e9',
        "a link's rate counts both directions",
    ),
)
