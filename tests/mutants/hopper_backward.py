"""Mutants of the backward kernels for Hopper: wrong gradients, partitions that do not wait for each other."""

from tests.mutants.mutant import Mutant
from tests.mutants.mutant import of_kernels as _of

T = "tests/kernels/"
FLASH3_BACKWARD = f"{T}test_flash3_backward_order.py"

visits = _of("hopper/visits.py", FLASH3_BACKWARD)
gradient = _of("hopper/backward.py", FLASH3_BACKWARD)
exchange = _of("hopper/exchange.py", FLASH3_BACKWARD)
sums = _of("hopper/dq_sums.py", FLASH3_BACKWARD)
wide = _of("hopper/backward_wide.py", FLASH3_BACKWARD)
gradients = _of("algorithms/flash3/backward.py", FLASH3_BACKWARD)
common = _of("hopper/backward_common.py", FLASH3_BACKWARD)
stored = _of("algorithms/flash3/dq_sums.py", FLASH3_BACKWARD)
shares = _of("backward/shared_key_blocks.py", f"{T}test_shared_key_blocks.py")

MUTANTS: tuple[Mutant, ...] = (
    visits(
        "gradient-diagonal-of-aligned",
        "partial = ahead + ROWS - 1 > 0",
        "partial = ahead > 0",
        "the tile that the diagonal cuts is unmasked where queries and keys are aligned",
    ),
    visits(
        "gradient-diagonal-by-one",
        "partial = ahead + ROWS - 1 > 0",
        "partial = ahead + ROWS - 1 > 1",
        "a tile in which the diagonal hides but one pair is unmasked",
    ),
    visits(
        "gradient-diagonal-by-one-elsewhere",
        "(position < key + ROWS - 1)",
        "(position < key + ROWS - 2)",
        "the same where rows are not as many as keys, and no window hides any",
    ),
    visits(
        "gradient-far-edge-by-one",
        "(ahead + self.window < scores.shape[1])",
        "(ahead + self.window + 1 < scores.shape[1])",
        "a tile in which a window hides but one pair is unmasked",
    ),
    visits(
        "gradient-ragged-keys",
        "partial = key + ROWS > self.seq_kv",
        "partial = key > self.seq_kv",
        "keys past the end take a share of dQ",
    ),
    visits(
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
        "    if FROM > 0:\n        leave_nothing(exchange, visit, CONSUMER, FROM)\n",
        "",
        "queries that see no key of a consumer get what lay in its shared memory",
    ),
    visits(
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
        "min(together, MOST_TOGETHER) if call.window is None",
        "min(together, MOST_TOGETHER) if call.window is not None",
        "without a mask the blocks of too many heads run side by side",
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
        " store(d_K * scale, outputs",
        " store(d_K, outputs",
        "dK lacks the scale",
    ),
    wide(
        "gradient-wide-dk-unscaled",
        " store(d_K * scale, outputs",
        " store(d_K, outputs",
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
        "FEW_BLOCKS * _key_blocks(call) > processors",
        "FEW_BLOCKS * _key_blocks(call) < processors",
        "auto takes the slower of two backward passes",
        f"{T}test_flash3_backward.py",
    ),
    gradient(
        "gradient-d-out-not-waited-for",
        "    d_outs.wait_full(visit)\n    # dP",
        "    # dP",
        "dP is of rows that have not landed",
    ),
    gradient(
        "gradient-dk-over-dv",
        "    tma.store_wait(0)\n    barrier_of_warps()\n    store(d_K",
        "    barrier_of_warps()\n    store(d_K",
        "dK is stored over dV on its way",
    ),
    gradient(
        "gradient-diagonal-of-second-consumer",
        "2 if HIDDEN == visits.BLOCK_Q else 1",
        "1",
        "the tile that the diagonal cuts for the second consumer is unmasked",
    ),
    gradients(
        "gradient-diagonals-of-other-heads",
        "lone = call.heads == call.kv_heads and call.window is None",
        "lone = call.window is None",
        "heads that share keys, but for the first, are not masked",
    ),
    gradients(
        "gradient-full-in-windows",
        "lone = call.heads == call.kv_heads and call.window is None",
        "lone = call.heads == call.kv_heads",
        "a window hides nothing at its far edge",
    ),
    exchange(
        "gradient-waits-for-itself",
        "exchange.NAME + (1 - CONSUMER) * EXCHANGES",
        "exchange.NAME + CONSUMER * EXCHANGES",
        "a consumer waits for its own dS and reads the other's too early",
    ),
    sums(
        "gradient-half-not-read",
        "tma.store_wait(CONSUMERS - 1 - consumer)",
        "tma.store_wait(CONSUMERS)",
        "a half of dQ is written over the one before, on its way to the sums",
    ),
    sums(
        "gradient-half-not-there",
        '            named_barrier("sync", FULL + consumer, THREADS, 32)\n',
        "",
        "what lay in its room is added for dQ",
    ),
    wide(
        "gradient-wide-p-not-waited-for",
        "        weights.wait_full(visit)\n",
        "",
        "dS is of what lay in P's place",
    ),
    visits(
        "gradient-share-without-its-last",
        "first, end = part * end // parts, (part + 1) * end // parts",
        "first, end = part * (end // parts), (part + 1) * (end // parts)",
        "the last query blocks of a key block that is shared are left out",
    ),
    visits(
        "gradient-fine-share-of-coarse",
        "number = whole + coarse // coarse_shares + share // fine_shares",
        "number = whole + share // fine_shares",
        "a key block that is shared finely is left out",
    ),
    visits(
        "gradient-whole-by-one",
        "(self.end - self.first) * self.BLOCK_Q >= self.seq_q",
        "(self.end - self.first) * self.BLOCK_Q > self.seq_q",
        "a key block of its own is left among the sums of shares where query blocks are whole",
    ),
    common(
        "gradient-share-over-share",
        "part = (share * 2 + WHICH) * PARTS + CONSUMER",
        "part = (share + WHICH) * PARTS + CONSUMER",
        "shares leave dK where others leave dV",
    ),
    stored(
        "gradient-shares-and-one",
        "there = (places >= 0) & (share + each < count)",
        "there = (places >= 0) & (share + each <= count)",
        "a key block that is shared gets a part of the next",
    ),
    stored(
        "gradient-first-shares-alone",
        "for share in range(0, count, AT_ONCE):",
        "for share in range(0, count - 1, count):",
        "of many shares the first few are added up",
    ),
    stored(
        "gradient-of-others-keys",
        "key_block_at(whole + block, batch_heads",
        "key_block_at(block, batch_heads",
        "the gradients of keys that are shared are stored over those of others",
    ),
    shares(
        "gradient-shares-for-nothing",
        "return best if best and seconds(best) < visits(key_blocks // processors + 1, 1) else None",
        "return best",
        "key blocks are shared where that takes longer",
    ),
    shares(
        "gradient-left-is-whole",
        "rest = left - coarse",
        "rest = 0",
        "key blocks of the last round are left out",
    ),
)
