"""Mutants of the engine: wrong rows of recordings, wrong studies, wrong verdicts."""

from tests.mutants.mutant import Mutant, planting
from tests.mutants.mutant import of_engine as _of

counters = _of("recordings/counters.py", "counted")
rows = _of("recordings/rows.py", "recorded")
flops = _of("problem/flops.py", "recorded")
heat = _of("recordings/heat_map.py", "recording")
recording = _of("recordings/recording.py", "recording", "counted")
timing = _of("recordings/timing.py", "recording", "counted")
nearest = _of("recordings/nearest.py", "nearest")
traced = _of("recordings/timelines.py", "traced")
gaps = _of("studies/counter_gaps.py", "counter_gaps")
gains = _of("studies/gains.py", "gains")
recomputation = _of("studies/recomputation.py", "recomputation")
survey = _of("studies/survey.py", "survey")
comparison = _of("studies/comparison.py", "comparison")
decoding = _of("studies/decoding.py", "decoding")
splits = _of("algorithms/split_kv.py", "decoding")
masks = _of("studies/masks.py", "masks")
techniques = _of("studies/techniques.py", "techniques")
verdict = _of("studies/claims/verdict.py", "claims")
record = _of("measuring/recorder.py", "recording", "journal")
parse = _of("measuring/counters.py", "counters")
marked = _of("marked.py", "watch_process")
apart = _of("watch/apart.py", "watch_process")
watched = planting("engine", "engine/watch/watch.py", "tests/kernels/test_watch.py")

MUTANTS: tuple[Mutant, ...] = (
    counters(
        "asked-without-tma",
        '("loaded", "copied", "by_tma")',
        '("loaded", "copied")',
        "what TMA brings is not asked for",
    ),
    rows(
        "speed-ups-over-nothing",
        "for name in (BASELINE, STAND_IN) if",
        "for name in (BASELINE,) if",
        "speed-ups of backward passes, which are not recorded unfused, are not drawn",
    ),
    rows(
        "speed-ups-over-the-stand-in",
        "for name in (BASELINE, STAND_IN) if",
        "for name in (STAND_IN, BASELINE) if",
        "speed-ups are over PyTorch's flash backend where they are said to be over unfused attention",
    ),
    watched(
        "watched-stride",
        "or abs(steps[0]) == row:",
        "or steps[0] % row == 0:",
        "a row taken to be twice as long is told by what follows from it",
    ),
    apart(
        "apart-orphan",
        "if os.getppid() != parent:",
        "if False:",
        "a kernel file whose server has just ended runs for ever",
    ),
    record(
        "record-read-before-it-is-held",
        'self.journal = Journal(path, device) if os.environ.get("RANK", "0") == "0" else None',
        "self.journal = None",
        "two recorders write one file",
    ),
    marked(
        "marked-session-alone",
        "while new := _processes() - looked_at:",
        "while new := set():",
        "what a kernel file detaches outlives it",
    ),
    marked(
        "marked-starting-overlooked",
        "if marked is None:",
        "if marked == 'nobody':",
        "what a kernel file detaches outlives it where it has no environment yet",
    ),
    marked(
        "marked-looked-once",
        "if time.monotonic() > until:",
        "if True:",
        "what is started while others are killed outlives them",
    ),
    marked(
        "marked-no-environment-is-starting",
        'return False if begins == ends != "0" else None',
        "return None",
        "a program that was started without an environment is waited for",
    ),
    counters(
        "counters-cache-read-alone",
        "(self.read + self.written) / self.seconds / gpu.cache_bytes_per_second",
        "self.read / self.seconds / gpu.cache_bytes_per_second",
        "what is written is no load of L2",
    ),
    counters(
        "counters-megabytes-written",
        "return self.simulation.traffic.dram.total_written",
        "return self.simulation.traffic.dram.total_written + 2**20",
        "a mebibyte more is said to be written than was",
        "against_the_chip",
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
    flops(
        "flops-of-a-backward-pass",
        "BACKWARD_FLOPS = 2.5",
        "BACKWARD_FLOPS = 2.0",
        "TFLOP/s of backward passes are a fifth too low",
        "recorded",
        "recomputation",
    ),
    timing(
        "timing-backward-counts-as-forward",
        "BACKWARD_FLOPS if self.direction == BACKWARD else 1.0",
        "1.0",
        "recorded backward passes have 40% of their TFLOP/s",
        "recorded",
    ),
    timing(
        "timing-variants-by-the-whole-mask",
        "pair_flops(self.problem, self.prefix or 0, self.v_dim)",
        "field_flops(self.problem)",
        "a prefix and V of another head dim count for nothing",
        "variants",
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
    gains(
        "gains-products-of-itself",
        "return simulate(fused_of(experiment)).traffic.flops / unfused.traffic.flops",
        "return unfused.traffic.flops / unfused.traffic.flops",
        "a mask is said to spare a fused kernel nothing",
    ),
    recomputation(
        "recomputation-skips-stored",
        "whole if way == STORED else product",
        "product",
        "unfused attention is said to skip what a mask hides",
    ),
    splits(
        "splits-by-a-window-in-documents",
        "window = None if problem.mask.packed else problem.mask.window",
        "window = problem.mask.window",
        "documents are said to leave the kernel a window to choose splits by",
    ),
    decoding(
        "decoding-sees-all",
        "return int(high - low)",
        "return int(high)",
        "the query is said to see what lies before its window",
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
        "return moved.flops / run.gpu.products_per_second(run.problem.dtype)",
        "return moved.flops / (0.8 * run.gpu.products_per_second(run.problem.dtype))",
        "a share of what kernels reach is called one of the peak",
    ),
    verdict(
        "verdict-far",
        "FAR = 10.0",
        "FAR = 10.1",
        "what is off by just over a factor of 10 is not called wrong",
    ),
    verdict("verdict-about", "ABOUT = 0.1 ", "ABOUT = 0.3 ", "what is a quarter off is called right"),
    record(
        "record-not-saved",
        "                self.journal.add(section, row)",
        "                pass",
        "a run that is cut short leaves no file",
    ),
    record(
        "record-another-commit",
        'for what in ("gpu", "driver", "versions", "commit"):',
        'for what in ("gpu", "driver", "versions"):',
        "rows of two commits stand in one recording as of one",
    ),
    parse("parse-units", '"us": 1e-6', '"us": 1e-3', "microseconds of the profiler count as milliseconds"),
)
