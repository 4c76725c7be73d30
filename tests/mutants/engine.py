"""Mutants of the engine: wrong bytes, wrong seconds, wrong presets, wrong verdicts."""

from tests.mutants.mutant import Mutant

T = "tests/engine/test_"

B200 = "ghz={},\n        tflops=(2250, 2250, 75),\n        gigabytes_per_second=8000,\n        mib=183_359"


def _of(file: str, *tests: str):
    """Mutants of a file of the engine: name, before, after, why, and tests of their own if need be."""

    def mutant(name: str, before: str, after: str, why: str, *own: str) -> Mutant:
        found = tuple(f"{T}{test}.py" for test in own or tests)
        return Mutant(f"engine-{name}", f"engine/{file}", before, after, why, found)

    return mutant


bounds = _of("problem/bounds.py", "bounds")
flops = _of("problem/flops.py", "measure")
problem = _of("problem/problem.py", "traffic")
preset = _of("problem/hardware.py", "hardware")
inputs = _of("problem/inputs.py", "inputs")
step = _of("schedule/step.py", "traffic")
loops = _of("schedule/schedule.py", "schedule")
columns = _of("schedule/columns.py", "schedule")
flash1 = _of("algorithms/flash1.py", "traffic", "paper_bytes")
backward = _of("algorithms/backward.py", "backward_schedule")
traffic = _of("model/traffic.py", "traffic")
l2 = _of("model/l2.py", "l2")
crossing = _of("model/crossing.py", "crossing")
launch = _of("model/launch.py", "simulated")
occupancy = _of("model/occupancy.py", "footprint", "against_the_chip")
footprint = _of("model/footprint.py", "footprint")
placement = _of("model/placement.py", "placement")
rates = _of("model/rates.py", "modelled", "memories")
visit = _of("model/visit.py", "modelled")
work = _of("model/work.py", "modelled", "simulated")
seconds = _of("model/seconds.py", "modelled")
roofline = _of("model/roofline.py", "footprint")
export = _of("model/export.py", "export")
timeline = _of("model/timeline.py", "timeline")
memories = _of("model/memories.py", "memories")
fabric = _of("model/cluster/fabric.py", "cluster")
softmax = _of("trace/softmax.py", "softmax")
forward = _of("trace/forward.py", "execute")
gradients = _of("trace/backward.py", "backward_schedule")
parts = _of("trace/split_kv.py", "split_kv_schedule")
counters = _of("recordings/counters.py", "counted")
rows = _of("recordings/rows.py", "recorded")
heat = _of("recordings/heat_map.py", "recording")
recording = _of("recordings/recording.py", "recording", "counted")
nearest = _of("recordings/nearest.py", "nearest")
traced = _of("recordings/timelines.py", "traced")
gaps = _of("studies/counter_gaps.py", "counter_gaps")
gains = _of("studies/gains.py", "gains")
survey = _of("studies/survey.py", "survey")
comparison = _of("studies/comparison.py", "comparison")
decoding = _of("studies/decoding.py", "decoding")
masks = _of("studies/masks.py", "masks")
techniques = _of("studies/techniques.py", "techniques")
verdict = _of("studies/claims/verdict.py", "claims")
record = _of("measuring/record.py", "recording")
parse = _of("measuring/counters.py", "counters")
bench = _of("measuring/bench.py", "bench")

MUTANTS = (
    bounds(
        "window-one-key-more",
        "low = np.clip(position - problem.mask.window + 1, low, high)",
        "low = np.clip(position - problem.mask.window, low, high)",
        "a window of W keeps W + 1 keys",
    ),
    bounds(
        "causal-without-itself",
        "np.minimum(position + 1, high)",
        "np.minimum(position, high)",
        "no query sees the key at its own position",
    ),
    bounds(
        "full-tile-at-the-ragged-end",
        "np.where(high_first == problem.seq_kv, blocks(high_first, width), high_first // width)",
        "high_first // width",
        "the last, ragged tile counts as partial",
    ),
    bounds(
        "documents-rounded",
        "* count - 1) // keys",
        "* count) // keys",
        "a document starts a key early",
    ),
    flops(
        "field-flops-not-halved",
        "// (2 if mask.causal else 1)",
        "// 1",
        "TFLOP/s of causal attention are twice what the field calls them",
    ),
    flops(
        "field-flops-of-one-product",
        "return 4 * heads * problem.seq_q**2",
        "return 2 * heads * problem.seq_q**2",
        "TFLOP/s are half of what the field calls them",
    ),
    problem("bytes-of-bfloat16", '"bfloat16": 2', '"bfloat16": 4', "bf16 tensors take twice their bytes"),
    problem(
        "query-position",
        "return self.seq_kv - self.seq_q",
        "return 0",
        "the first query stands at the first key, not the last at the last",
        "bounds",
    ),
    preset("preset-t4-sms", "sms=40,", "sms=48,", "a T4 has 40 SMs"),
    preset(
        "preset-a100-bandwidth",
        "gigabytes_per_second=2039",
        "gigabytes_per_second=1935",
        "that is the A100 of PCI Express",
    ),
    preset("preset-a100-40gb-memory", "mib=40_960", "mib=40_000", "memory is less than its driver reports"),
    preset(
        "preset-h200-l2",
        "l2=(60, 34)," + '\n        sheet="NVIDIA H200',
        "l2=(50, 34)," + '\n        sheet="NVIDIA H200',
        "an H200 has 60 MB of L2",
    ),
    preset(
        "preset-h200-effective-l2",
        "l2=(60, 34)," + '\n        sheet="NVIDIA H200',
        "l2=(60, 30)," + '\n        sheet="NVIDIA H200',
        "what all SMs share is fitted to 34 MB",
    ),
    preset(
        "preset-h200-memory", "mib=143_155.9375", "mib=143_771", "the recording says 150.1 GB", "hardware"
    ),
    preset(
        "preset-rtx4090-tensor",
        "tflops=(165.2, 165.2, 82.6)",
        "tflops=(330.3, 330.3, 82.6)",
        "330 TFLOP/s sum in float16, not in float32",
    ),
    preset(
        "preset-l4-sparsity", "tflops=(121, 121, 30.3)", "tflops=(242, 242, 30.3)", "242 TFLOP/s are sparse"
    ),
    preset(
        "preset-b300-exponentials",
        'EXPONENTIALS = {"10.3": 32}',
        'EXPONENTIALS = {"10.3": 16}',
        "a B300 takes twice as many exponentials as a B200",
    ),
    preset(
        "preset-t4-shared-rate",
        'SHARED_BYTES = {"7.5": 64}',
        'SHARED_BYTES = {"7.5": 128}',
        "a T4's shared memory has half the rate",
    ),
    preset(
        "preset-shared-of-a-block",
        '"9.0": (32, 228, 227)',
        '"9.0": (32, 228, 228)',
        "1 KiB of an SM is the GPU's own",
    ),
    preset(
        "preset-l2-per-clock",
        "L2_BYTES_CLOCK = 5120",
        "L2_BYTES_CLOCK = 4096",
        "L2 delivers 5,120 B per clock",
    ),
    preset("preset-mi300x-units", "sms=304", "sms=228", "that is an MI300A's"),
    preset(
        "preset-registers",
        "register_bytes_sm=256 * KIB,",
        "register_bytes_sm=128 * KIB,",
        "an SM has 65,536 registers of four bytes",
    ),
    preset(
        "preset-thousands",
        "gigabytes_per_second * 1e9",
        "gigabytes_per_second * 2**30",
        "bandwidth counts in powers of ten",
    ),
    preset(
        "preset-b200-clock",
        B200.format(1.86),
        B200.format(1.98),
        "peaks and clock do not go together",
    ),
    inputs(
        "inputs-truncated",
        "rounded = (bits + 0x7FFF + ((bits >> 16) & 1))",
        "rounded = bits",
        "bf16 is truncated",
    ),
    step("statistics-once", "(2 if tensor == Tensor.STATISTICS else 1)", "1", "m and l count as one number"),
    step(
        "flops-of-a-product",
        "Amount(2 * problem.head_dim,",
        "Amount(problem.head_dim,",
        "a multiplication and an addition count as one",
    ),
    step(
        "keys-of-every-head",
        "problem.kv_heads if tensor in BY_KEY else problem.heads",
        "problem.heads",
        "K and V that heads share count once a head",
        "traffic",
        "split_kv_schedule",
    ),
    step(
        "scores-in-float32",
        "return Amount(problem.itemsize, by_query=True, by_key=True)",
        "return Amount(4, by_query=True, by_key=True)",
        "S and P take twice their bytes",
    ),
    loops(
        "totals-count-blocks-as-whole",
        "weights = weights * phase.visits",
        "weights = weights * phase.visits.max()",
        "rows visit as many blocks as the one that visits most",
        "traffic",
    ),
    columns(
        "steps-in-natural-order",
        "np.arange(visits)[:: -1 if phase.reverse else 1]",
        "np.arange(visits)",
        "FlashAttention-3 is shown from the first key block on",
        "schedule",
        "flash3_schedule",
    ),
    flash1(
        "paper-accumulator-once",
        "accumulator = 2 * (visits - 1)",
        "accumulator = (visits - 1)",
        "the authors' code writes O and reads it again",
    ),
    traffic(
        "heads-once",
        "heads = schedule.problem.batch * schedule.problem.heads\n",
        "heads = schedule.problem.heads\n",
        "totals leave the batch out",
    ),
    traffic(
        "compulsory-of-unvisited",
        "outer, inner = visiting, _visited_inner(phase, len(inner))",
        "outer[:], inner[:] = True, True",
        "blocks that nobody visits count as compulsory",
    ),
    traffic(
        "intensity-of-requested",
        "return self.flops / getattr(self, kind).total",
        "return self.flops / self.requested.total",
        "FLOP per DRAM byte are of requested bytes",
    ),
    traffic(
        "requested-per-query-head",
        "problem.batch * (problem.heads - problem.kv_heads)\n",
        "0\n",
        "what a program does once for heads that share keys counts once a head",
        "backward_schedule",
    ),
    traffic(
        "exponentials-without-alpha",
        "exponentials=schedule.total(row, Operation.RESCALE)\n        + schedule.total",
        "exponentials=schedule.total",
        "the rescale's exponential is not counted",
    ),
    l2(
        "waves-from-the-cold-one",
        "(waves - 1) / max(1.0, reuse.walked / slots - 1)",
        "waves / max(1.0, reuse.walked / slots)",
        "later waves are taken to read as little again as the first, cold one",
    ),
    l2(
        "l2-in-one-partition",
        "* row / gpu.l2_effective_bytes",
        "* row / gpu.l2_bytes",
        "both copies of K and V count as one",
    ),
    l2("l2-gone-earlier", "GONE = 0.8 ", "GONE = 0.7 ", "bytes leave L2 too early", "l2", "against_the_chip"),
    l2(
        "l2-softer",
        "SOFTNESS = 0.06 ",
        "SOFTNESS = 0.12 ",
        "bytes leave L2 too gradually",
        "l2",
        "against_the_chip",
    ),
    l2(
        "l2-rewritten-once",
        "share = together * rows[1:] * sum(row.values())",
        "share = rows[1:] * sum(row.values())",
        "one head's O is taken to have the whole L2",
        "l2",
    ),
    l2(
        "l2-places-together",
        "abreast, places = gpu.sms, kernel.resident\n",
        "abreast, places = gpu.sms, 1\n",
        "one block runs on an SM, however many fit",
        "l2",
        "against_the_chip",
    ),
    crossing(
        "crossing-of-all-heads",
        "bytes_[steps] = spread * share / traffic.heads",
        "bytes_[steps] = spread * share",
        "one head's steps carry all heads' bytes",
    ),
    crossing(
        "crossing-first-touch-last",
        "at[tile[::-1]] = np.arange(len(steps))[::-1]",
        "at[tile] = np.arange(len(steps))",
        "a tile crosses when it is touched last",
    ),
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
    rates("rates-launch", "LAUNCH = 3e-6", "LAUNCH = 3e-5", "a kernel takes 30 µs to start"),
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
    visit(
        "visit-shared",
        "return blocks * (alone + (pairs - 1) * longest) / pairs",
        "return alone",
        "blocks that share an SM do not slow one another",
    ),
    work(
        "work-units-of-one-head",
        "TENSOR: traffic.heads * padded * one_head.flops / rates.matrix",
        "TENSOR: padded * one_head.flops / rates.matrix",
        "the tensor cores are said to idle",
        "modelled",
        "counted",
    ),
    work(
        "work-trips",
        "trips = ROUND_TRIPS - (pipeline.specialised or pipeline.waiting)",
        "trips = ROUND_TRIPS",
        "a block that copies ahead waits as long as one that does not",
    ),
    seconds(
        "seconds-of-the-longest-kernel",
        "return Modelled(sum(parts.values()),",
        "return Modelled(max(parts.values()),",
        "three kernels take as long as one",
    ),
    seconds(
        "seconds-without-hbm",
        "parts[name] = max(seconds, work.units[HBM]) + LAUNCH",
        "parts[name] = seconds + LAUNCH",
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
    memories(
        "memories-of-one-sm",
        "Memory(SHARED, gpu.sms * gpu.shared_bytes_sm, gpu.sms",
        "Memory(SHARED, gpu.shared_bytes_sm, gpu.sms",
        "the shared memory of one SM is shown for all",
    ),
    fabric(
        "fabric-both-directions",
        '"NVLink 4": 450e9',
        '"NVLink 4": 900e9',
        "a link's rate counts both directions",
    ),
    softmax(
        "softmax-alpha-inverse",
        "alpha = falling(np.concatenate(([-np.inf], m[:-1])), m)",
        "alpha = falling(m, np.maximum(m, np.concatenate(([-np.inf], m[:-1]))))",
        "α is 1 at every step",
    ),
    softmax(
        "softmax-lse", "return m + np.log(", "return np.log(", "lse lacks its maximum", "execute", "softmax"
    ),
    forward(
        "forward-p-unrounded",
        "rounded = round_to(p, self.problem.dtype)",
        "rounded = p",
        "P V takes P in float32",
    ),
    forward(
        "forward-sum-unscaled",
        "statistics[:, 1] = self.alpha * statistics[:, 1] + p.sum(1)",
        "statistics[:, 1] = statistics[:, 1] + p.sum(1)",
        "l adds up weights of different maxima",
    ),
    counters(
        "counters-cache-read-alone",
        "(self.read + self.written) / self.seconds / gpu.cache_bytes_per_second",
        "self.read / self.seconds / gpu.cache_bytes_per_second",
        "what is written is no load of L2",
    ),
    counters(
        "counters-left-in-cache",
        "return max(0.0, self.modelled_dram_written - self.dram_written)",
        "return max(0.0, self.dram_written - self.modelled_dram_written)",
        "what is left in L2 is 0",
    ),
    counters(
        "counters-percent-unweighted",
        "sum(value * seconds for value, seconds in values) / sum(seconds for _, seconds in values)",
        "sum(value for value, _ in values) / len(values)",
        "a short kernel counts as much as a long one",
    ),
    counters(
        "counters-rows-without-totals",
        'all(row.total(name) > 0 for name in ("seconds", "dram_read", "tile_read"))',
        "True",
        "rows without needed counters are kept",
    ),
    counters(
        "counters-l2-intensity",
        'field_flops(row.problem) / (row.total("tile_read") + row.total("tile_written"))',
        'field_flops(row.problem) / row.total("tile_read")',
        "FLOP per byte of L2 leave out what is written",
    ),
    rows(
        "rows-backward-flops",
        "BACKWARD_FLOPS = 2.5",
        "BACKWARD_FLOPS = 2.0",
        "TFLOP/s of backward passes are a fifth too low",
        "recorded",
        "backward_schedule",
    ),
    rows(
        "rows-speedup-upside-down",
        "base[row.problem.seq_kv] / row.times.p50 if",
        "row.times.p50 / base[row.problem.seq_kv] if",
        "the slower is shown as the faster",
    ),
    rows(
        "rows-overtaking-once",
        "first = (first or keys) if faster else None",
        "first = first or (keys if faster else None)",
        "an overtaking that does not last is told",
    ),
    heat(
        "heat-slowest",
        "elif not row.times.p50 >= seconds[i, j]:",
        "elif not row.times.p50 <= seconds[i, j]:",
        "block sizes show the slowest of their launches",
    ),
    recording(
        "recording-mean-of-counters",
        "return math.nan if None in values else float(sum(values))",
        "return math.nan if None in values else float(max(values))",
        "three kernels move as much as one",
    ),
    nearest(
        "nearest-halved",
        "sum(abs(log2(get(one) / get(other))) for get in properties)",
        "sum(log2(get(one) / get(other)) for get in properties)",
        "the shortest row is the nearest to all",
    ),
    traced(
        "traced-relative-starts",
        "np.concatenate([np.cumsum(each.start) for each in row.kernels]) * row.tick",
        "np.concatenate([np.array(each.start) for each in row.kernels]) * row.tick",
        "blocks start where the one before did",
    ),
    gaps(
        "gaps-of-the-model",
        "model_off=one.modelled_dram_read / one.dram_read - 1",
        "model_off=one.dram_read / one.modelled_dram_read - 1",
        "the model's error has the wrong sign",
    ),
    gaps(
        "gaps-l2-share",
        "l2_share=1 - one.dram_read / one.read",
        "l2_share=one.dram_read / one.read",
        "L2 is said to answer what it misses",
    ),
    gains(
        "gains-without-writes",
        "unfused.traffic.dram.total / fused.traffic.dram.total",
        "unfused.traffic.dram.total_read / fused.traffic.dram.total_read",
        "the gain leaves out what is written",
    ),
    gains(
        "gains-upside-down",
        "unfused.seconds / fused.seconds\n",
        "fused.seconds / unfused.seconds\n",
        "recorded gains are upside down",
    ),
    survey(
        "survey-matrices-once",
        "matrices = parts[Tensor.S] + parts[Tensor.P]",
        "matrices = parts[Tensor.S]",
        "P takes no memory",
    ),
    comparison(
        "comparison-intensity",
        "field_flops(simulation.experiment.problem) / simulation.traffic.dram.total",
        "field_flops(simulation.experiment.problem) / simulation.traffic.requested.total",
        "FLOP per DRAM byte are of requested bytes",
    ),
    comparison(
        "comparison-speedup",
        'base[row["keys"]] / row["p50"] if',
        'row["p50"] / base[row["keys"]] if',
        "the slower is shown as the faster",
    ),
    decoding(
        "decoding-rate-per-sm",
        "return rate(simulation) / spread(simulation).busy",
        "return rate(simulation) / simulation.experiment.gpu.sms",
        "idle SMs count among those that read",
    ),
    decoding(
        "decoding-reads-of-requested",
        "simulation.traffic.compulsory.read[tensor] for",
        "simulation.traffic.requested.read[tensor] for",
        "bytes per second count what heads that share keys ask for again",
    ),
    decoding(
        "decoding-merge-upside-down",
        "weights = steps.weights / np.where(steps.l > 0, steps.l, 1)[:, None]",
        "weights = steps.weights",
        "merged O is not divided",
    ),
    masks(
        "masks-wasted", "return 1 - self.useful", "return self.useful", "the useful share is called wasted"
    ),
    masks(
        "masks-spares",
        "other.simulation.traffic.flops / self.simulation.traffic.flops",
        "self.simulation.traffic.flops / other.simulation.traffic.flops",
        "a mask that saves is said to cost",
    ),
    techniques(
        "techniques-of-peak",
        "return moved.flops / run.gpu.matrix_flops[run.problem.dtype]",
        "return moved.flops / (0.8 * run.gpu.matrix_flops[run.problem.dtype])",
        "a share of what kernels reach is called one of the peak",
    ),
    verdict("verdict-far", "FAR = 10.0", "FAR = 2.0", "what is off by a factor of 3 is called wrong"),
    verdict("verdict-about", "ABOUT = 0.1 ", "ABOUT = 0.3 ", "what is a quarter off is called right"),
    verdict(
        "verdict-some-hold", "    if held:\n        return PARTLY\n", "", "what holds in part is called wrong"
    ),
    record(
        "record-not-saved",
        "if time.monotonic() - self.saved > SAVE_EVERY:",
        "if False:",
        "a run that is cut short leaves no file",
    ),
    record(
        "record-another-commit",
        'for what in ("gpu", "driver", "versions", "commit"):',
        'for what in ("gpu", "driver", "versions"):',
        "rows of two commits stand in one recording as of one",
    ),
    parse("parse-units", '"us": 1e-6', '"us": 1e-3', "microseconds of the profiler count as milliseconds"),
    gradients(
        "gradients-zero-in-bf16",
        "self.tiles[Tensor.D_P] = round_to(d_scores, self.problem.dtype)",
        'self.tiles[Tensor.D_P] = d_scores * (self.problem.dtype != "bfloat16")',
        "dQ and dK are zero in bf16",
    ),
    gradients(
        "gradients-half-in-bf16",
        "self.tiles[Tensor.D_P] = round_to(d_scores, self.problem.dtype)",
        'self.tiles[Tensor.D_P] = d_scores / (1 + (self.problem.dtype != "float32"))',
        "dQ and dK are half of what they are in 16 bits",
    ),
    gradients(
        "gradients-delta-left-out",
        "(self.tiles[Tensor.D_P] - self.tiles[Tensor.DELTA])",
        "self.tiles[Tensor.D_P]",
        "dS lacks the derivative of the sum",
    ),
    gradients(
        "gradients-p-unrounded",
        "weights = round_to(self.tiles[Tensor.S], self.problem.dtype)",
        "weights = self.tiles[Tensor.S]",
        "dV takes P in float32",
    ),
    traffic(
        "written-twice",
        "into[tensor] += times * touched_bytes(schedule, phase, tensor)",
        "into[tensor] += times * touched_bytes(schedule, phase, tensor) * (1 + (into is written))",
        "what a kernel leaves counts twice",
    ),
)
