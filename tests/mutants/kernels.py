"""Mutants of the kernels in Triton: wrong attention, wrong gradients, wrong choices."""

from tests.mutants.mutant import Mutant
from tests.mutants.mutant import of_kernels as _of

T = "tests/kernels/"
FORWARD, BACKWARD, SPLIT = (f"{T}test_{name}.py" for name in ("forward", "backward", "split_kv"))
DISPATCH, LAUNCH = f"{T}test_dispatch.py", f"{T}test_launch.py"

tile = _of("tile/tile.py", FORWARD)
flash1 = _of("algorithms/flash1.py", FORWARD)
flash2 = _of("algorithms/flash2/kernel.py", FORWARD)
standard = _of("algorithms/standard.py", FORWARD)
backward = _of("backward/backward.py", BACKWARD)
two_kernels = _of("backward/kernel.py", BACKWARD)
terms_of_scores = _of("call/terms.py", FORWARD)
terms = _of("backward/row_terms.py", BACKWARD)
start = _of("launch/launch.py", LAUNCH)
dispatch = _of("dispatch/dispatch.py", DISPATCH)

MUTANTS: tuple[Mutant, ...] = (
    tile(
        "window-one-key-more",
        "seen & (keys > position - window)",
        "seen & (keys >= position - window)",
        "a window of W keeps W + 1 keys",
    ),
    tile(
        "causal-without-itself",
        "seen & (keys <= position)",
        "seen & (keys < position)",
        "no query sees the key at its own position",
    ),
    tile(
        "ragged-keys-seen",
        "    seen = keys < seq_kv\n",
        "    seen = keys < seq_kv + 1\n",
        "the first key past the end counts as a key of zeros",
    ),
    tile(
        "sum-not-rescaled",
        "new_sum = running_sum * alpha + tl.sum(weights, 1)",
        "new_sum = running_sum + tl.sum(weights, 1)",
        "l adds up weights of different maxima",
    ),
    tile(
        "output-not-rescaled",
        "accumulator = accumulator * alpha[:, None] + matmul",
        "accumulator = accumulator + matmul",
        "O adds up parts of different maxima",
    ),
    tile(
        "lse-in-base-2",
        "return running_max * LN_2 + tl.log(",
        "return running_max + tl.log(",
        "lse is in units of log2 by its maximum",
    ),
    tile(
        "full-blocks-one-too-many",
        "full_stop = tl.maximum(full_start, full_high // BLOCK_KV)",
        "full_stop = tl.maximum(full_start, tl.cdiv(full_high, BLOCK_KV))",
        "the diagonal's tile is taken for one that all queries see",
    ),
    tile(
        "window-starts-late",
        "low = tl.maximum(0, first + offset - window + 1)",
        "low = tl.maximum(0, last + offset - window + 1)",
        "key blocks that the first queries see are skipped",
    ),
    tile(
        "probe-in-log2",
        "tl.store(probe[0] + at, running_max * LN_2, mask=valid)",
        "tl.store(probe[0] + at, running_max, mask=valid)",
        "m of a tile is 1.44 times what it is",
        "tests/engine/test_agreement.py",
    ),
    tile(
        "first-seer-of-a-key-block",
        "start = tl.maximum(0, first_seer) // BLOCK_Q",
        "start = tl.cdiv(tl.maximum(0, first_seer), BLOCK_Q)",
        "the query block that the diagonal cuts gives its keys no gradient",
        FORWARD,
        BACKWARD,
    ),
    flash1(
        "flash1-output-not-brought-back",
        "before * running_sum[:, None], scale_log2",
        "before, scale_log2",
        "O, divided by l when stored, is not multiplied by it again",
    ),
    flash1(
        "flash1-lse-without-the-sum",
        "row_max * LN_2.value + row_sum.log()",
        "row_max * LN_2.value",
        "lse is the maximum alone",
    ),
    flash2(
        "flash2-wrong-key-head",
        "kv_head = head // (heads // kv_heads)",
        "kv_head = head % kv_heads",
        "grouped heads read another head's keys",
    ),
    terms_of_scores(
        "flash2-natural-exponent",
        '"scale_log2": call.scale * LOG2_E.value',
        '"scale_log2": call.scale',
        "weights are powers of 2, not of e",
    ),
    flash2(
        "flash2-edges-unmasked",
        "if (key_block < whole_start) | (key_block >= whole_stop):",
        "if key_block >= whole_stop:",
        "the far edge of a window is not masked in one loop",
        SPLIT,
    ),
    flash2(
        "flash2-no-far-edge",
        "start, whole_start, 0, 0, queries",
        "whole_start, whole_start, 0, 0, queries",
        "keys at a window's far edge are left out",
    ),
    standard(
        "standard-without-scale",
        "tl.where(seen, products * scale, float",
        "tl.where(seen, products, float",
        "scores are not scaled",
    ),
    standard(
        "standard-softmax-in-base-2",
        'other=float("-inf"))) * LOG2_E',
        'other=float("-inf")))',
        "weights are powers of 2, not of e",
    ),
    two_kernels(
        "backward-delta-added",
        "d_scores = weights * (d_weights - delta[None, :])",
        "d_scores = weights * (d_weights + delta[None, :])",
        "dK has the wrong sign of its second term",
    ),
    two_kernels(
        "backward-dq-without-delta",
        "d_scores = weights * (d_weights - delta[:, None])",
        "d_scores = weights * d_weights",
        "dQ lacks the derivative of the sum",
    ),
    two_kernels(
        "backward-zero-dq",
        "d_q_strides, queries, columns, seq_q, HEAD_DIM, q_sum, scale)",
        "d_q_strides, queries, columns, seq_q, HEAD_DIM, q_sum, 0.0)",
        "dQ is zero",
    ),
    two_kernels(
        "backward-dk-unscaled",
        "HEAD_DIM, k_sum, scale)",
        "HEAD_DIM, k_sum, 1.0)",
        "dK lacks the scale",
    ),
    backward(
        "backward-lse-gradient-sign",
        "delta[..., : call.seq_q] -= d_lse",
        "delta[..., : call.seq_q] += d_lse",
        "the gradient of lse has the wrong sign",
    ),
    two_kernels(
        "backward-last-member-alone",
        "head = kv_head * GROUP + member",
        "head = kv_head * GROUP",
        "heads that share keys give them the first one's gradient again and again",
    ),
    terms(
        "terms-of-unseen-rows",
        'tl.where(natural == float("-inf"), 0.0, natural) * LOG2_E',
        "natural * LOG2_E",
        "rows that see no key make NaN of every gradient",
    ),
    terms(
        "terms-lse-natural",
        'tl.where(natural == float("-inf"), 0.0, natural) * LOG2_E)',
        'tl.where(natural == float("-inf"), 0.0, natural))',
        "P of the backward pass is off by powers of 2",
    ),
    start(
        "stages-without-what-stays",
        "free = _shared_memory(tensor.device) - resident * tensor.element_size()",
        "free = _shared_memory(tensor.device)",
        "a block asks for more shared memory than there is",
    ),
    start(
        "stages-of-elements",
        "free // (streamed * tensor.element_size())",
        "free // streamed",
        "a block of 16 bits is taken for half as large as it is",
    ),
    start(
        "stages-one-more",
        "MOST_STAGES = 3  #",
        "MOST_STAGES = 4  #",
        "the model's stages are not the kernel's",
        LAUNCH,
        "tests/engine/test_mirrors.py",
    ),
    start(
        "stages-of-a-smaller-chip",
        "DEFAULT_SHARED_MEMORY = 227 * 1024",
        "DEFAULT_SHARED_MEMORY = 227 * 1000",
        "shared memory counts in thousands",
    ),
    dispatch(
        "dispatch-few-or-short",
        "if at_once and keys <= SHORT:",
        "if at_once or keys <= SHORT:",
        "auto takes the slower kernel for few programs or few keys",
    ),
    dispatch(
        "dispatch-flash2-for-gradients",
        'return algorithm == "flash3" or pays(call, multiprocessors(q.device))',
        'return algorithm == "flash3"',
        "auto takes the slower of two backward passes",
        DISPATCH,
        f"{T}test_flash3_backward.py",
    ),
    dispatch(
        "dispatch-unaligned-alike",
        "aligned = tuple(each.data_ptr() % POINTER_ALIGNMENT for each in (q, k, v, out, lse, d_out))",
        "aligned = pointers % POINTER_ALIGNMENT",
        "a backward pass that is kept takes an unaligned dO for aligned where Q is not either",
    ),
    dispatch(
        "dispatch-lse-as-it-lies",
        "    lse = lse.contiguous()\n",
        "",
        "gradients are wrong where a hook on saved tensors laid out lse anew",
    ),
)
