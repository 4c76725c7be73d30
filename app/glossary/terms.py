"""What the pages' terms mean, in one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from html import escape
from types import MappingProxyType

# term, or terms between | signs that mean the same: the first is its name
TERMS: Mapping[str, str] = MappingProxyType(
    {
        "α|alpha|rescale factor": (
            "The factor exp(m − m′) by which everything a row has accumulated so far is multiplied when its "
            "maximum rises from m to m′."
        ),
        "arithmetic intensity|FLOP per DRAM byte|FLOP/DRAM byte": (
            "How many floating-point operations an algorithm does per byte that crosses to memory."
        ),
        "thread block|block of threads|CTA": (
            "The threads that one SM runs together on one piece of the work, sharing its shared memory."
        ),
        "asynchronous copies|asynchronous|asynchrony": (
            "Copies of the next tiles that run while this one is computed, so that no unit waits for memory."
        ),
        "ALiBi": (
            "A scheme of positions: each score falls by the head's slope times the distance of query and key."
        ),
        "all-gather": (
            "Every GPU fetches the keys and values of all others, a group of heads at a time, for its own "
            "queries."
        ),
        "all-to-all|Ulysses": (
            "GPUs exchange tokens for heads: each computes whole heads of all tokens, and O goes back."
        ),
        "atomic adds|atomic": (
            "Additions to memory that several thread blocks may make to one number at once; their order, and "
            "with it the last bits, differ from run to run."
        ),
        "block size|block sizes": (
            "Rows of a query block and of a key block: larger ones request fewer bytes, and fewer of "
            "them fit on an SM."
        ),
        "bottleneck|memory-bound|compute-bound": (
            "What limits the speed: memory where an algorithm does few operations per byte, else arithmetic."
        ),
        "exact|exactness": (
            "FlashAttention computes the same sums in another order: its O differs from standard attention's "
            "by rounding alone."
        ),
        "FP8|e4m3": (
            "Numbers of 8 bits, in e4m3 four of exponent and three of fraction: half the bytes of "
            "float16 and twice the products."
        ),
        "IO complexity|IO-aware|IO-awareness": (
            "How many bytes an algorithm must move for a memory of M on the chip: N² d² / M for tiled "
            "attention, N² + N d for standard."
        ),
        "kernel fusion|fusion|fused": (
            "Several kernels in one, without memory in between; alone it fails for attention, whose softmax "
            "needs whole rows."
        ),
        "KV cache|cache of keys": "The keys and values of all tokens so far, which each new token reads.",
        "paged KV cache|paged cache": (
            "A KV cache in pages of a few keys each, taken from one pool as sequences grow, so that no room "
            "is reserved for keys that may never come."
        ),
        "block table|block tables": (
            "The list of the pages that hold a sequence's keys, in order: the kernel looks up in it where "
            "each block of keys lies."
        ),
        "internal fragmentation|fragmentation": (
            "Memory that is taken but holds nothing, such as the empty slots of a sequence's last page."
        ),
        "loop order|loop swap": (
            "Which blocks stay on the chip and which pass by: keys stay in FlashAttention-1, queries in "
            "FlashAttention-2."
        ),
        "memory hierarchy|memories": (
            "Registers, shared memory, L2 and HBM: each is slower than the one before it, and on an H200 "
            "each is larger from shared memory on."
        ),
        "N × N intermediate|general lesson": (
            "A matrix that only leads to a smaller result, as S and P do: compute it in tiles, use them, and "
            "never store it."
        ),
        "NCCL": (
            "NVIDIA's library that sends between GPUs; its kernels take SMs while bytes are on their way."
        ),
        "NVLink": (
            "The links among the GPUs of one host, several times as fast as a network card or PCI Express."
        ),
        "issue slot|issue slots": (
            "A clock in which a scheduler of an SM, of which there are four, can start an instruction."
        ),
        "persistent blocks|persistent": (
            "Thread blocks that stay on their SM and take one tile after another, instead of one block per "
            "tile."
        ),
        "spill|spills": (
            "Values that have no register left are kept in memory instead, which costs loads and stores."
        ),
        "overflow": (
            "A number too large for its format, as exp(12) for float16; subtracting a row's maximum first "
            "prevents it."
        ),
        "profiling|profiler|ncu|Nsight Compute": (
            "Reading a GPU's counters: ncu --metrics dram__bytes_read.sum python mine.py, or python -m "
            "engine record --only counters --out mine.json."
        ),
        "recomputation|recomputed|recompute": (
            "Computing S and P again in the backward pass, from Q, K and lse, instead of storing them."
        ),
        "recording|recordings": (
            "A file of what one GPU was measured to do: pages with recorded numbers read that of the "
            "scenario's GPU, or the one chosen under More in the sidebar."
        ),
        "safe softmax": "A softmax that subtracts the row's maximum first; it takes three passes over a row.",
        "SDPA|scaled_dot_product_attention|how to use it": (
            "PyTorch's attention, F.scaled_dot_product_attention(q, k, v), which picks a fast kernel by"
            " itself; see the tour's last step."
        ),
        "sequence parallelism": (
            "Blocks of queries of one head on different SMs, so that a long sequence fills a GPU even "
            "with few heads."
        ),
        "short sequences|when not to use it": (
            "Where attention is little of a layer's work, or one query asks, or P itself is wanted, "
            "FlashAttention gains little or nothing."
        ),
        "warp partitioning": (
            "How warps share a tile: in FlashAttention-2 each has queries of its own, so that they exchange "
            "nothing."
        ),
        "causal mask|causal": "A mask under which a query sees only the keys up to its own position.",
        "copy engine|copy engines": (
            "A unit of a GPU that moves bytes by itself, so that no SM is taken from the computing."
        ),
        "CUDA graph|CUDA graphs": (
            "Launches that are recorded once and then started together, so that the GPU waits for no host."
        ),
        "compulsory|compulsory bytes": (
            "What each kernel must read and write at least once, however large its caches: its inputs and "
            "its outputs."
        ),
        "counted": "Added up by the running scheduler, step by step; nothing is estimated.",
        "dQ|dK|dV|dO|dS|dP": "The gradients: how the loss changes with each element of Q, K, V, O, S or P.",
        "decoding": "Producing one token at a time: a single query against all the keys stored so far.",
        "delta|δ": "The sum of dO times O over a row, one number per row, which the backward pass needs.",
        "document mask|documents": (
            "A mask under which a query sees only the keys of its own document where several are packed "
            "end to end."
        ),
        "DRAM|DRAM bytes": (
            "The chips that hold a GPU's memory; DRAM bytes are those that the caches could not serve."
        ),
        "FLOP|FLOPs": "One floating-point operation: a multiplication or an addition.",
        "FlashAttention-1|Flash 1|flash1": (
            "Attention in tiles with key blocks outside: O, m and l are read and written again for every "
            "key block."
        ),
        "FlashAttention-2|Flash 2|flash2": (
            "Attention in tiles with query blocks outside: O is written once, when it is final."
        ),
        "FlashAttention-3|Flash 3|flash3": (
            "FlashAttention-2 with copies, matrix products and softmax of different warps overlapped on a "
            "Hopper GPU."
        ),
        "float64": "Numbers of 64 bits, with which every result here is compared.",
        "KV heads|grouped heads|key heads|grouped-query attention": (
            "The heads of K and V; where there are fewer of them than of Q, several query heads read the "
            "same keys."
        ),
        "heaviest blocks first|heavy-first": (
            "An order in which thread blocks with most key blocks start first, so that none of them is left "
            "for the end."
        ),
        "HBM": (
            "The GPU's large memory beside the chip, high-bandwidth memory or, on a T4 or an RTX 4090, GDDR: "
            "fast, and still far slower than what is on the chip."
        ),
        "head dimension": "How many numbers a query, a key or a value of one head has, written d.",
        "K": "The keys: one row of d numbers for each position, with which every query is multiplied.",
        "kernel": "A program that the GPU runs in many thread blocks at once.",
        "key block|key tile": "A group of consecutive rows of K and V that are on the chip at the same time.",
        "L2|L2 cache": (
            "The cache that all SMs of a GPU share; it keeps what was requested recently, such as K and V "
            "of a head."
        ),
        "lse|log-sum-exp": "m + log l of a row, from which the backward pass recomputes P out of Q and K.",
        "m|running maximum": "The largest score of a row so far.",
        "measured here|measured": "Timed on the machine that runs this dashboard.",
        "modelled": (
            "Calculated from formulas, the GPU's published rates and the share of them that kernels reach; "
            "nothing was run."
        ),
        "merge|merged": (
            "Two partial results are combined by their m and l, or lse, as if they had been computed in "
            "one go."
        ),
        "N|sequence length": "How many positions there are: queries and keys alike unless said otherwise.",
        "O": "The output: for each query, the mean of all values, weighted by P.",
        "occupancy|blocks per SM": (
            "How many thread blocks an SM holds at once; shared memory and registers limit it."
        ),
        "online softmax": (
            "A softmax that takes a row in pieces, carrying m and l along and rescaling what it has by α."
        ),
        "P": "The weights: the softmax of S, row by row.",
        "Q": "The queries: one row of d numbers for each position that asks.",
        "query block|query tile": "A group of consecutive rows of Q that are on the chip at the same time.",
        "recorded": "Measured on a named GPU on the date given, and stored in a file.",
        "requested|requested bytes|asked of L2": (
            "What the tiles request from memory beyond the SM: counted, whether a cache or DRAM answers."
        ),
        "ring attention|ring of GPUs": (
            "Every GPU keeps its queries while the keys and values of all GPUs pass by, a block per round."
        ),
        "roofline": (
            "The most FLOP/s an algorithm can reach: memory's bytes/s times its intensity, up to the "
            "arithmetic peak."
        ),
        "l|running sum": "The sum of exp(score − m) over the scores of a row so far.",
        "S|scores": "The products of every query with every key, scaled: a matrix of N × N.",
        "attention sink|sink|sinks": (
            "A logit without a key: it takes a share of a row's softmax and gives nothing, so the row's "
            "weights sum to less than 1."
        ),
        "sliding window|window": (
            "A mask under which a query sees only a fixed number of keys back, its own included, and maybe "
            "some after it."
        ),
        "SM|SMs": (
            "Streaming multiprocessor: one of a GPU's processors, with its own shared memory; an H200 has "
            "132."
        ),
        "softmax": "exp of each score divided by the sum of exp of all: positive weights that add up to 1.",
        "softcap|cap": (
            "A bound c on scores: each score s becomes c tanh(s / c), which never passes c and leaves small "
            "ones nearly alone."
        ),
        "split keys|split_kv|splits": (
            "One query's keys cut into parts that different SMs take, whose results are merged."
        ),
        "SRAM|shared memory": (
            "Memory on the chip, 64 to 228 KiB per SM of the GPUs here, whose contents a thread block "
            "chooses itself."
        ),
        "standard|unfused|standard attention|unfused attention": (
            "Attention in three kernels, which write S and P to memory and read them back."
        ),
        "tail": "The end of a kernel, when some SMs have no block left while others still work.",
        "tensor core|tensor cores": (
            "The unit of an SM that multiplies small matrices, many times faster than its other arithmetic."
        ),
        "tile|tiles": "One block of S, where a query block meets a key block.",
        "TMA": "The unit of a Hopper GPU that copies whole tiles between memory and the chip by itself.",
        "V": "The values: one row of d numbers for each key, of which O is the weighted mean.",
        "warp|warps": "32 threads that run in step.",
        "warp group|warp groups": "Four warps that issue a matrix product together on a Hopper GPU.",
        "wave|waves": "As many thread blocks as the GPU holds at once; the next wave waits for room.",
        "zigzag order|zigzag": (
            "Each GPU holds an early and a late chunk of the sequence, so that all have the same causal work."
        ),
    }
)
LETTERS = 2  # shorter names are not looked for on a page: K, V and m are in too many words


def names(term: str) -> list[str]:
    """A term's name, and what else it is called."""
    return term.split("|")


@lru_cache(maxsize=1)
def found_on_pages() -> dict[str, str]:
    """Every name that is looked for on a page, also where it begins a sentence, with its definition."""
    return {
        written: meaning
        for term, meaning in TERMS.items()
        for name in names(term)
        if len(name) >= LETTERS
        for written in (name, name[:1].upper() + name[1:])
    }


@lru_cache(maxsize=1)
def listed() -> str:
    """Every term with its other names and its definition, in order, as HTML."""
    entries = (
        f"<dt><b>{escape(first)}</b>{escape(''.join(f', {name}' for name in others))}</dt>"
        f"<dd>{escape(meaning)}</dd>"
        for (first, *others), meaning in ((names(term), meaning) for term, meaning in _sorted())
    )
    return f"<dl>{''.join(entries)}</dl>"


def _sorted() -> list[tuple[str, str]]:
    return sorted(TERMS.items(), key=lambda entry: entry[0].casefold())
