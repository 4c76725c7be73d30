"""Mutants of the forward kernels for Hopper: wrong attention, partitions that do not wait for each other."""

from tests.mutants.mutant import Mutant
from tests.mutants.mutant import of_kernels as _of

T = "tests/kernels/"
FLASH3, FP8, PAGES = (f"{T}test_{name}.py" for name in ("flash3_order", "fp8_order", "flash3_pages"))

order = _of("hopper/schedule.py", FLASH3)
queue = _of("hopper/buffer_queue.py", FLASH3)
tiles = _of("hopper/tiles.py", FLASH3)
producer = _of("hopper/producer.py", FLASH3)
softmax = _of("hopper/softmax.py", FLASH3)
consumer = _of("hopper/consumer.py", FLASH3)
fp8 = _of("hopper/fp8_consumer.py", FP8)
weights8 = _of("hopper/fp8_softmax.py", FP8)
quantised = _of("algorithms/fp8/quantise.py", f"{T}test_fp8_quantise.py")
chunks = _of("hopper/pages.py", PAGES)
forward3 = _of("algorithms/flash3/forward.py", FLASH3)
eight_bits = _of("algorithms/fp8/forward.py", f"{T}test_fp8_attention.py")
MUTANTS: tuple[Mutant, ...] = (
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
        "begin = gl.maximum(self.position(row + ROWS) + before - self.window, before)",
        "begin = gl.maximum(self.position(row + ROWS) + before - self.window - 1, before)",
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
        "seen = columns > unseen - key_block * self.BLOCK_KV - own",
        "seen = columns >= unseen - key_block * self.BLOCK_KV - own",
        "a window of W keeps W + 1 keys",
    ),
    queue(
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
        'if self.EDGES != "anywhere" and CONSUMER % 2 == 1:  # which',
        'if self.EDGES != "anywhere" and CONSUMER % 2 == 0:  # which',
        "the first consumer sees past the diagonal",
    ),
    order(
        "flash3-far-edge-of-the-other-half",
        'if self.EDGES != "anywhere" and CONSUMER % 2 == 0:  # which',
        'if self.EDGES != "anywhere" and CONSUMER % 2 == 1:  # which',
        "the second consumer sees keys before its window",
    ),
    softmax(
        "flash3-half-twice",
        "gl.join(first, gl.zeros_like(first))",
        "gl.join(first, first)",
        "the unseen half of a last key block weighs as the seen one",
    ),
    order(
        "flash3-whole-last-block",
        "return self.BLOCK_KV // 2 if half else self.BLOCK_KV",
        "return self.BLOCK_KV",
        "half a block that is not seen is multiplied",
    ),
    order(
        "flash3-keys-before-the-first",
        "unseen = gl.maximum(unseen, before - 1)",
        "unseen = gl.maximum(unseen, before - 2)",
        "a row whose window begins with the sequence sees a key before that",
    ),
    order(
        "flash3-keys-before-the-first-in-whole-blocks",
        "self.position(row + ROWS) + before - self.window, before)",
        "self.position(row + ROWS) + before - self.window, 0)",
        "a block that begins before the first key is taken for whole",
    ),
    order(
        "flash3-blocks-begin-after-tiles",
        "before = -self.position(tile_row) & (self.BLOCK_KV - 1)",
        "before = self.position(tile_row) & (self.BLOCK_KV // 2 - 1)",
        "the half of a last block that is not multiplied is one that is seen",
    ),
    producer(
        "flash3-keys-not-shifted",
        "key = (end - 1 - schedule.later(tile)) * schedule.BLOCK_KV - before",
        "key = (end - 1 - schedule.later(tile)) * schedule.BLOCK_KV",
        "the keys that are copied are not those that consumers count",
    ),
    forward3(
        "flash3-shifted-where-rows-see-nothing",
        "shifted = TURNS and wide and ahead >= 0 and",
        "shifted = TURNS and wide and",
        "rows before the first key take part of a block for theirs",
    ),
    forward3(
        "flash3-all-said-to-see",
        "and aligned and ahead >= 0,",
        "and ahead >= 0,",
        "rows that see no key of their first block weigh NaN",
    ),
    forward3(
        "flash3-half-of-many",
        "window is None and keys_seen(seq_q, seq_kv, True, window) < FEW_KEYS",
        "window is None",
        "the first consumer runs ahead where many blocks follow",
    ),
    forward3(
        "flash3-edges-of-more-queries",
        "between = causal and ahead >= 0 and ",
        "between = causal and ",
        "rows that see no key weigh half a block",
    ),
    forward3(
        "flash3-narrow-taken-for-wide",
        "window is not None and window >= block_kv\n",
        "window is not None and window >= block_kv // 2\n",
        "a narrow window's far edge is unmasked in the last block",
    ),
    consumer(
        "flash3-output-not-rescaled",
        "out = out * beside(alpha, OUT)\n        P = weights_of(weights",
        "P = weights_of(weights",
        "O adds up parts of different maxima",
    ),
    tiles(
        "flash3-told-the-tile-before",
        "row, batch, head = schedule.place(drawn)",
        "row, batch, head = schedule.place(drawn - 1)",
        "causal consumers compute the rows of another tile than the producer copied",
    ),
    tiles(
        "flash3-told-batch-for-head",
        "head = _told(next_tiles, tile_visit, 3)",
        "head = _told(next_tiles, tile_visit, 2)",
        "causal consumers store a head's output as the batch's number",
    ),
    softmax(
        "flash3-maximum-of-half-the-keys",
        "S.reshape([ROWS, S.shape[1] // 16, 16])",
        "S[:, : S.shape[1] // 2].reshape([ROWS, S.shape[1] // 32, 16])",
        "the maximum is that of half of a key block, and weights may overflow",
    ),
    consumer(
        "flash3-lse-unscaled",
        "row_lse = (running_max * scale_log2 + gl.log2(running_sum)) * LN_2",
        "row_lse = (running_max + gl.log2(running_sum)) * LN_2",
        "lse has its maximum without the scale",
    ),
    producer(
        "flash3-wrong-key-head",
        "kv_head = head // schedule.heads_per_kv_head",
        "kv_head = head % schedule.heads_per_kv_head",
        "grouped heads read another head's keys",
    ),
    producer(
        "flash3-copied-over-what-is-read",
        "    queue.wait_empty(visit)\n    mbarrier.expect(queue.arrival(visit), PARTS",
        "    mbarrier.expect(queue.arrival(visit), PARTS",
        "a block is copied over one that consumers still read",
    ),
    queue(
        "flash3-phase-before",
        "mbarrier.wait(self.full.index(self.buffer(visit)), self._parity(visit))",
        "mbarrier.wait(self.full.index(self.buffer(visit)), self._parity(visit) ^ 1)",
        "a buffer is read before its copy has landed",
    ),
    queue(
        "flash3-buffer-beside",
        "mbarrier.wait(self.full.index(self.buffer(visit)), self._parity(visit))",
        "mbarrier.wait(self.full.index(self.buffer(visit + 1)), self._parity(visit))",
        "another buffer is waited for than is read",
    ),
    consumer(
        "flash3-keys-of-the-visit-before",
        "keys.wait_full(visit + 1)",
        "keys.wait_full(visit)",
        "keys are multiplied before they have landed",
    ),
    consumer(
        "flash3-values-not-waited-for",
        "        values.wait_full(visit)\n        out = start_output(P, values, visit, out)\n        turns",
        "        out = start_output(P, values, visit, out)\n        turns",
        "values are multiplied before they have landed",
    ),
    consumer(
        "flash3-values-handed-back-early",
        "        out, P = warpgroup_mma_wait(0, deps=[out, P])\n        values.release(visit)\n        out =",
        "        values.release(visit)\n        out, P = warpgroup_mma_wait(0, deps=[out, P])\n        out =",
        "values are copied over before they are multiplied",
    ),
    consumer(
        "flash3-handed-back-before-the-output-has-left",
        "    tma.store_wait(0)\n    barrier_of_warps()\n",
        "    barrier_of_warps()\n",
        "the next tile's Q is copied over the output on its way",
    ),
    fp8(
        "fp8-values-of-the-visit-before",
        "values.wait_full(visit + 1)  # ptxas",
        "values.wait_full(visit)  # ptxas",
        "values are multiplied before they have landed",
    ),
    fp8(
        "fp8-output-over-the-one-before",
        "    tma.store_wait(0)  # of the tile before\n",
        "",
        "a tile's output is stored over the last one's on its way",
    ),
    weights8(
        "fp8-small-weights-lost",
        "gl.minimum(reference, highest)",
        "reference",
        "of half of the keys those whose weights are below 2^-15 of the largest are left out",
    ),
    weights8(
        "fp8-reference-however-low",
        "lowest = gl.maximum(largest, top - DEEPEST)",
        "lowest = largest",
        "O overflows before keys that count for much less",
    ),
    weights8(
        "fp8-logits-rounded-down-the-line",
        "CODE_OF_ONE = gl.constexpr(8.0 * (7 - 0.057))",
        "CODE_OF_ONE = gl.constexpr(8.0 * 7)",
        "half of the keys weigh 4% more than the others",
    ),
    weights8(
        "fp8-sum-of-half-of-the-weights",
        " + sums_coded * to_sum",
        "",
        "rows are divided by the sum of half of their weights",
    ),
    quantised(
        "fp8-values-of-other-keys",
        "keys + 8, columns",
        "keys + 4, columns",
        "values lie where P has other keys",
    ),
    chunks(
        "pages-cleaned-before-they-are-there",
        "            values.wait_full(visit)\n            V = ",
        "            V = ",
        "values that land after the slots behind the last key are zeroed bring NaN back",
    ),
    eight_bits(
        "fp8-values-of-another-head-dimension",
        "if v.shape[-1] != q.shape[-1]:",
        "if v.shape[-1] > q.shape[-1]:",
        "V of fewer columns is read past its rows",
    ),
)
