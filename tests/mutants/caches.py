"""Mutants of the kernels that read a cache of keys: in one piece, or in pages."""

from tests.mutants.mutant import Mutant
from tests.mutants.mutant import of_kernels as _of

T = "tests/kernels/"
SPLIT, PAGED, CHUNKS = (f"{T}test_{name}.py" for name in ("split_kv", "paged", "flash3_pages"))

split = _of("algorithms/split_kv.py", SPLIT)
pages = _of("pages/kernel.py", PAGED)
paged = _of("paged.py", PAGED)
plan = _of("pages/plan.py", PAGED)
chunks = _of("hopper/pages.py", CHUNKS)
chunk = _of("algorithms/flash3/paged.py", CHUNKS)

MUTANTS: tuple[Mutant, ...] = (
    split(
        "split-share-rounded-down",
        "share = tl.cdiv(stop - start, splits)",
        "share = (stop - start) // splits",
        "keys after the last whole share are left out",
    ),
    split(
        "split-parts-weigh-alike",
        'tl.exp(tl.load(partial_lse + places, present, other=float("-inf")) - reference[:, None])',
        'tl.exp(tl.load(partial_lse + places, present, other=float("-inf")) * 0)',
        "parts of different weight are averaged",
    ),
    split(
        "split-lse-without-maximum",
        "tl.store(lse + rows, largest + tl.log(total), valid)",
        "tl.store(lse + rows, tl.log(total), valid)",
        "lse lacks its maximum",
    ),
    split(
        "merge-not-normalised",
        "out = (weight1 / safe_total)[..., None] * o1",
        "out = weight1[..., None] * o1",
        "a part of a merged ring counts too much",
    ),
    split(
        "split-first-query-of-rows",
        "first = row_block * BLOCK_Q // group",
        "first = row_block * BLOCK_Q",
        "the keys of grouped rows are those of later queries",
    ),
    pages(
        "page-of-the-next-key",
        "table + keys // PAGE * stride, wanted",
        "table + (keys + 1) // PAGE * stride, wanted",
        "the first key of a page is looked up in the page before",
    ),
    pages(
        "whole-block-too-early",
        "tl.cdiv(full_low, BLOCK_KV), start)",
        "full_low // BLOCK_KV, start)",
        "a chunk sees keys before its window",
    ),
    pages(
        "new-keys-not-counted",
        "lengths + batch).to(tl.int32) + added, capacity",
        "lengths + batch).to(tl.int32), capacity",
        "keys appended in the call are not seen by it",
    ),
    plan(
        "one-split-for-several",
        "if call.batch == 1:",
        "if call.batch >= 1:",
        "the longest of several sequences is read by one program a head",
    ),
    chunks(
        "what-lies-behind-the-last-key",
        "if held < BLOCK_KV:",
        "if held < 0:",
        "NaN in slots that no key fills yet gets into the output of a chunk",
    ),
    chunks(
        "table-behind-the-last-page",
        "first < length, other=0",
        "first <= length + 64, other=0",
        "entries of the table that lead nowhere are followed",
    ),
    chunks(
        "pages-of-half-a-block",
        "(page_size if PARTS == 1 else BLOCK_KV // PARTS)",
        "(page_size if PARTS == 1 else BLOCK_KV // 2)",
        "blocks of keys come from other pages than the table names",
    ),
    chunks(
        "tiles-told-to-one-producer",
        "make_queue(next_tiles, 2, CONSUMERS + PRODUCERS - 1)",
        "make_queue(next_tiles, 2, CONSUMERS)",
        "a producer of V that is late misses a tile",
    ),
    chunks(
        "values-in-the-order-of-no-draw",
        "tile = next_tile(next_tiles, tile_visit, 1)",
        "tile += gl.num_programs(0)",
        "V is of another tile than K where tiles are not drawn in turn",
    ),
    chunks(
        "boxes-page-by-page",
        "(queue.buffer(visit) * PIECES + piece) * PARTS + part",
        "(queue.buffer(visit) * PARTS + part) * PIECES + piece",
        "halves of rows of one page land in another's place",
    ),
    chunks(
        "slot-of-every-block-0",
        "slot = key % page_size if",
        "slot = 0 if",
        "all blocks of a large page are its first",
    ),
    paged(
        "windows-by-flash3",
        "plain and left == ENDLESS and right",
        "plain and right",
        "a chunk with a window sees the keys before it",
        CHUNKS,
    ),
    paged(
        "windows-ahead-by-flash3",
        "and right in (0, ENDLESS)",
        "",
        "a chunk that looks some keys ahead sees all of them",
        CHUNKS,
    ),
    chunk(
        "few-queries-by-flash3",
        "call.seq_q < FEWEST_QUERIES or",
        "",
        "chunks of few queries leave most rows of a tile empty",
    ),
)
