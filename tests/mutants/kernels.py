"""Mutants of the kernels: wrong attention, wrong gradients, wrong choices."""

from tests.mutants.mutant import Mutant, planting

T = "tests/kernels/"
FORWARD, BACKWARD, SPLIT = (f"{T}test_{name}.py" for name in ("forward", "backward", "split_kv"))
FLASH3, FLASH3_BACKWARD = f"{T}test_flash3_order.py", f"{T}test_flash3_backward_order.py"
DISPATCH, LAUNCH = f"{T}test_dispatch.py", f"{T}test_launch.py"


def _of(file: str, *tests: str):
    """Mutants of a file here."""
    return planting("kernels", f"kernels/{file}", *tests)


tile = _of("tile.py", FORWARD)
flash1 = _of("flash1.py", FORWARD)
flash2 = _of("flash2.py", FORWARD)
standard = _of("standard.py", FORWARD)
backward = _of("backward.py", BACKWARD)
two_kernels = _of("backward_kernel.py", BACKWARD)
terms_of_scores = _of("terms.py", FORWARD)
terms = _of("row_terms.py", BACKWARD)
order = _of("flash3_schedule.py", FLASH3)
flash3 = _of("flash3_kernel.py", FLASH3)
forward3 = _of("flash3.py", FLASH3)
gradient = _of("flash3_backward_kernel.py", FLASH3_BACKWARD)
gradients = _of("flash3_backward.py", FLASH3_BACKWARD)
wide = _of("flash3_backward_wide_kernel.py", FLASH3_BACKWARD)
start = _of("launch.py", LAUNCH)
dispatch = _of("dispatch.py", DISPATCH)

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
    order(
        "flash3-far-edge-of-aligned",
        "            if key_block < whole_first:\n",
        "            if key_block < whole_first and not self.ALIGNED:\n",
        "the far edge of a window is unmasked where sizes are aligned",
    ),
    order(
        "flash3-far-edge-of-unaligned",
        "            if key_block < whole_first:\n",
        "            if key_block < whole_first and self.ALIGNED:\n",
        "the far edge of a window is unmasked where sizes are not aligned",
    ),
    order(
        "flash3-far-edge-rounded",
        "return (begin + self.BLOCK_KV - 1) // self.BLOCK_KV, end // self.BLOCK_KV",
        "return begin // self.BLOCK_KV, end // self.BLOCK_KV",
        "the block that the far edge of a window cuts is taken for whole",
    ),
    order(
        "flash3-far-edge-one-row-early",
        "begin = gl.maximum(self.position(row + ROWS) - self.window, 0)",
        "begin = gl.maximum(self.position(row + ROWS) - self.window - 1, 0)",
        "where the last row hides but one key, its block is taken for whole",
    ),
    order(
        "flash3-later-keys-by-one",
        "seen = columns <= last - own",
        "seen = columns < last - own",
        "no query sees the key at its own position",
    ),
    order(
        "flash3-earlier-keys-by-one",
        "seen = columns > before - own",
        "seen = columns >= before - own",
        "a window of W keeps W + 1 keys",
    ),
    order(
        "flash3-handed-back-not-waited-for",
        "elif visit >= self.full.shape[0]:",
        "elif visit > self.full.shape[0]:",
        "the third block is copied over the first before all have read that",
    ),
    order(
        "flash3-heads-of-a-set",
        "batch_head = first_head + tile_in_set % heads",
        "batch_head = tile_in_set % heads",
        "the second set of heads is never computed",
    ),
    order(
        "flash3-last-set-full",
        "heads = gl.minimum(self.heads_together, self.batch_heads - first_head)",
        "heads = self.heads_together",
        "a last set with fewer heads computes heads that there are not",
    ),
    order(
        "flash3-diagonal-of-the-other-half",
        "if self.EDGES and CONSUMER == 1:  # which",
        "if self.EDGES and CONSUMER == 0:  # which",
        "the first consumer sees past the diagonal",
    ),
    order(
        "flash3-far-edge-of-the-other-half",
        "if self.EDGES and CONSUMER == 0:  # which",
        "if self.EDGES and CONSUMER == 1:  # which",
        "the second consumer sees keys before its window",
    ),
    flash3(
        "flash3-half-twice",
        "gl.join(first, gl.zeros_like(first))",
        "gl.join(first, first)",
        "the unseen half of a last key block weighs as the seen one",
    ),
    order(
        "flash3-whole-last-block",
        "self.BLOCK_KV // 2 if self.HALF and consumer == 0 else self.BLOCK_KV",
        "self.BLOCK_KV",
        "half a block that is not seen is multiplied",
    ),
    forward3(
        "flash3-half-of-many",
        "window is None and keys_seen(seq_q, seq_kv, causal, window) < FEW_KEYS",
        "window is None",
        "the first consumer runs ahead where many blocks follow",
    ),
    forward3(
        "flash3-edges-of-more-queries",
        "between = ahead >= 0 and ",
        "between = ",
        "rows that see no key weigh half a block",
    ),
    forward3(
        "flash3-narrow-taken-for-wide",
        "window >= block_kv and",
        "window >= block_kv // 2 and",
        "a narrow window's far edge is unmasked in the last block",
    ),
    flash3(
        "flash3-output-not-rescaled",
        "out = out * _beside_output(alpha, OUT)\n        P = _weights(weights",
        "P = _weights(weights",
        "O adds up parts of different maxima",
    ),
    flash3(
        "flash3-told-the-tile-before",
        "row, batch, head = schedule.place(drawn)",
        "row, batch, head = schedule.place(drawn - 1)",
        "causal consumers compute the rows of another tile than the producer copied",
    ),
    flash3(
        "flash3-told-batch-for-head",
        "head = _told(next_tiles, tile_visit, 3)",
        "head = _told(next_tiles, tile_visit, 2)",
        "causal consumers store a head's output as the batch's number",
    ),
    flash3(
        "flash3-maximum-of-half-the-keys",
        "S.reshape([ROWS, S.shape[1] // 16, 16])",
        "S[:, : S.shape[1] // 2].reshape([ROWS, S.shape[1] // 32, 16])",
        "the maximum is that of half of a key block, and weights may overflow",
    ),
    flash3(
        "flash3-lse-unscaled",
        "row_lse = (running_max * scale_log2 + gl.log2(running_sum)) * LN_2",
        "row_lse = (running_max + gl.log2(running_sum)) * LN_2",
        "lse has its maximum without the scale",
    ),
    flash3(
        "flash3-wrong-key-head",
        "kv_head = head // schedule.heads_per_kv_head",
        "kv_head = head % schedule.heads_per_kv_head",
        "grouped heads read another head's keys",
    ),
    gradient(
        "gradient-diagonal-of-aligned",
        "partial = ahead + ROWS - 1 > 0",
        "partial = ahead > 0",
        "the tile that the diagonal cuts is unmasked where queries and keys are aligned",
    ),
    gradient(
        "gradient-diagonal-by-one",
        "partial = ahead + ROWS - 1 > 0",
        "partial = ahead + ROWS - 1 > 1",
        "a tile in which the diagonal hides but one pair is unmasked",
    ),
    gradient(
        "gradient-diagonal-by-one-elsewhere",
        "(position < key + ROWS - 1)",
        "(position < key + ROWS - 2)",
        "the same where rows are not as many as keys, and no window hides any",
    ),
    gradient(
        "gradient-far-edge-by-one",
        "(ahead + self.window < scores.shape[1])",
        "(ahead + self.window + 1 < scores.shape[1])",
        "a tile in which a window hides but one pair is unmasked",
    ),
    gradient(
        "gradient-ragged-keys",
        "partial = key + ROWS > self.seq_kv",
        "partial = key > self.seq_kv",
        "keys past the end take a share of dQ",
    ),
    gradient(
        "gradient-last-seer",
        "end = gl.minimum(key + BLOCK_KV - 1 + window + seq_q - seq_kv, seq_q)",
        "end = gl.minimum(key + window + seq_q - seq_kv, seq_q)",
        "queries that see only the last keys of a block give them no gradient",
    ),
    gradient(
        "gradient-hidden-though-ahead",
        "ROWS if visits.SQUARE and CONSUMER == 1 else 0",
        "ROWS if visits.CAUSAL and CONSUMER == 1 else 0",
        "queries that follow other keys give half of theirs no gradient",
    ),
    gradient(
        "gradient-nothing-not-left",
        "    if FROM > 0:\n        _leave_nothing(exchange, visit, CONSUMER, FROM)\n",
        "",
        "queries that see no key of a consumer get what lay in its shared memory",
    ),
    gradient(
        "gradient-last-block-with-one-pair",
        "(position - key - ROWS + 1 < self.window)",
        "(position - key - ROWS + 2 < self.window)",
        "a last block of which one query sees one key is left out",
    ),
    gradient(
        "gradient-last-block-in-vain",
        "SHORT: gl.constexpr = visits.SQUARE and visits.WINDOWED and CONSUMER == 0",
        "SHORT: gl.constexpr = visits.SQUARE and visits.WINDOWED and CONSUMER == 2",
        "a block that sees no key of the first consumer is multiplied",
    ),
    gradient(
        "gradient-first-block-in-vain",
        "ROWS if visits.SQUARE and CONSUMER == 1 else 0",
        "0",
        "queries that see no key of the second consumer are multiplied",
    ),
    gradients(
        "gradient-heads-together",
        "and call.seq_kv >= LONG",
        "and call.seq_kv > LONG",
        "at 4096 keys the blocks of too many heads run side by side",
        f"{T}test_flash3_backward.py",
    ),
    gradients(
        "gradient-heads-in-the-l2",
        "(2 * element_bytes + FLOAT32_BYTES)",
        "(element_bytes + FLOAT32_BYTES)",
        "the rows of the heads that run side by side are taken for smaller than they are",
        f"{T}test_flash3_backward.py",
    ),
    gradient(
        "gradient-delta-left-out",
        "d_P = nothing - _terms(delta, d_outs, visit, FROM, SCORES)",
        "d_P = nothing",
        "dS lacks the derivative of the sum",
    ),
    gradient(
        "gradient-dk-unscaled",
        "_store(d_K * scale, d_k_tensor",
        "_store(d_K, d_k_tensor",
        "dK lacks the scale",
    ),
    wide(
        "gradient-wide-dk-unscaled",
        "_store(d_K * scale, d_k_tensor",
        "_store(d_K, d_k_tensor",
        "dK of head dim 256 lacks the scale",
    ),
    gradients(
        "gradient-heads-of-one-window",
        "rows = min(2 * (call.window",
        "rows = min((call.window",
        "rows of twice as many heads as fit are in the L2 at a time",
        f"{T}test_flash3_backward.py",
    ),
    gradients(
        "gradient-of-lse-sign",
        "self._tensors(scratch)[1][..., : self.call.seq_q] -= d_lse",
        "self._tensors(scratch)[1][..., : self.call.seq_q] += d_lse",
        "the gradient of lse has the wrong sign",
    ),
    gradients(
        "gradient-pays-when-few",
        "FEW_BLOCKS * blocks > processors",
        "FEW_BLOCKS * blocks < processors",
        "auto takes the slower of two backward passes",
        f"{T}test_flash3_backward.py",
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
        'if algorithm == "flash3" or (algorithm == "auto" and pays(call, multiprocessors(q.device))):',
        'if algorithm == "flash3":',
        "auto takes the slower of two backward passes",
        DISPATCH,
        f"{T}test_flash3_backward.py",
    ),
)
