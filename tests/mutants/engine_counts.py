"""Mutants of the engine: wrong bytes, wrong FLOPs, wrong presets, wrong numbers of a trace."""

from tests.mutants.mutant import Mutant
from tests.mutants.mutant import of_engine as _of

B200 = "ghz={},\n        tflops=(2250, 2250, 75),\n        gigabytes_per_second=8000,\n        mib=183_359"

bounds = _of("problem/bounds.py", "bounds")
mask = _of("problem/mask.py", "bounds")
dtype = _of("problem/dtype.py", "traffic", "inputs")
flops = _of("problem/flops.py", "measure")
problem = _of("problem/problem.py", "traffic")
preset = _of("problem/hardware.py", "hardware")
step = _of("schedule/step.py", "traffic")
loops = _of("schedule/schedule.py", "schedule")
columns = _of("schedule/columns.py", "schedule")
flash3 = _of("algorithms/flash3.py", "against_the_chip", "schedule")
flash1 = _of("algorithms/flash1.py", "traffic", "paper_bytes")
backward = _of("algorithms/backward.py", "backward_schedule", "recorded_backward")
traffic = _of("model/traffic.py", "traffic")
softmax = _of("trace/softmax.py", "softmax")
forward = _of("trace/forward.py", "execute")
gradients = _of("trace/backward.py", "backward_schedule")
parts = _of("trace/split_kv.py", "split_kv_schedule")

MUTANTS: tuple[Mutant, ...] = (
    mask(
        "window-one-key-more",
        "low = np.clip(position - self.window + 1, low, stop)",
        "low = np.clip(position - self.window, low, stop)",
        "a window of W keeps W + 1 keys",
    ),
    mask(
        "causal-without-itself",
        "np.clip(position + after + 1, first, stop)",
        "np.clip(position + after, first, stop)",
        "no query sees the key at its own position",
    ),
    bounds(
        "full-tile-at-the-ragged-end",
        "np.where(high_first == problem.seq_kv, blocks(high_first, width), high_first // width)",
        "high_first // width",
        "the last, ragged tile counts as partial",
    ),
    mask(
        "documents-rounded",
        "* documents - 1) // count",
        "* documents) // count",
        "a document starts a key early",
    ),
    flops(
        "field-flops-not-halved",
        "return whole // 2 if problem.mask.hides else whole",
        "return whole",
        "TFLOP/s of causal attention are twice what the field calls them",
    ),
    flops(
        "field-flops-of-one-product",
        "whole = 4 * problem.all_heads",
        "whole = 2 * problem.all_heads",
        "TFLOP/s are half of what the field calls them",
    ),
    dtype("bytes-of-bfloat16", '"bfloat16", 2,', '"bfloat16", 4,', "bf16 tensors take twice their bytes"),
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
        "l2=(60, 30)," + '\n        sheet="NVIDIA H200',
        "l2=(50, 30)," + '\n        sheet="NVIDIA H200',
        "an H200 has 60 MB of L2",
    ),
    preset(
        "preset-h200-effective-l2",
        "l2=(60, 30)," + '\n        sheet="NVIDIA H200',
        "l2=(60, 34)," + '\n        sheet="NVIDIA H200',
        "what all SMs share lies in both halves of L2",
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
        "HOPPER_L2_CLOCK = 5120, 13.5e12",
        "HOPPER_L2_CLOCK = 5120, 9.4e12",
        "the SMs of an H200 take 13.5 TB/s from L2",
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
    dtype(
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
        "if by_inner else programs.visits)).sum())",
        "if by_inner else programs.visits.max())).sum())",
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
        "int(inner_rows[_visited_inner(phase.programs, len(inner_rows))].sum())",
        "int(inner_rows.sum())",
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
    parts(
        "split-parts-weigh-alike",
        "weights = falling(lse, m)",
        "weights = np.ones_like(lse)",
        "parts of different weight are averaged",
    ),
    backward(
        "backward-blocks-of-dq",
        "QUERY_GRADIENT_BLOCKS = {64: (128, 64),",
        "QUERY_GRADIENT_BLOCKS = {64: (64, 64),",
        "dQ is modelled in blocks that its kernel does not take",
    ),
    traffic(
        "masked-tiles-as-partial",
        "tiles_partial=seen - full,",
        "tiles_partial=visited - full,",
        "tiles that the mask blanks out count as crossed by its edge",
        "traffic",
        "bounds",
        "schedule",
    ),
    flash3(
        "boxes-end-with-the-rows",
        "return replace(step, boxed=step.operation == Operation.LOAD)",
        "return step",
        "TMA is taken to ask for no row beyond the end",
    ),
)
