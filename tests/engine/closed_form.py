"""The papers' formulas for what attention moves, written from the papers alone: a second witness.

Elements a head, N queries and keys, head dimension d, blocks Br x Bc (arXiv 2205.14135, Algorithms 0
and 1 and Theorem 2; arXiv 2307.08691, Algorithm 1):

- standard: 4 N^2 + 4 N d. S and P written and read once, Q, K, V read and O written once.
- FlashAttention-1: 2 N d + 3 Tc N d + 4 Tc N. K and V once; Q and O read, O written, m and l read and
  written Tc times.
- FlashAttention-2: 2 N d + 2 Tr N d + N. Q read, O and lse written once; K and V read Tr times.
- standard backward: 7 N^2 + 8 N d. P read twice, dP and dS written, dP read once, dS read twice; dO, V, K, Q
  read (dO twice), dV, dQ, dK written.
- FlashAttention-2 backward, one kernel: 4 N d + 2 Tc N d + 2 Tc N d in float32. K, V read and dK, dV written
  once; Q, dO read Tc times, dQ read and written Tc times as float32 (left out: the rows' lse and delta).
- two kernels, as here: row terms 2 N d + 3 N; dK and dV 4 N d + 2 Tc N d + 2 Tc N; dQ 3 N d + 2 Tr N d + 2 N.
  dQ is no longer rewritten; instead K and V are read again, and lse and delta with Q and dO.

Tr = ceil(N / Br), Tc = ceil(N / Bc). Here queries and keys may differ in number. m, l and lse are float32.
"""

from math import ceil

from engine.experiment import Experiment

STATISTIC = 4  # bytes


def _sizes(experiment: Experiment) -> tuple[int, int, int, int]:
    """N queries, as many keys, the head dimension, and the bytes of a number."""
    problem = experiment.problem
    return problem.seq_q, problem.seq_kv, problem.head_dim, problem.itemsize


def standard_bytes(experiment: Experiment) -> int:
    """Bytes that unfused attention must move, one head, whatever the mask."""
    n, m, d, size = _sizes(experiment)
    return size * (4 * n * m + 2 * n * d + 2 * m * d)


def flash1_bytes(experiment: Experiment) -> int:
    """Bytes that FlashAttention-1's tiles ask for, one head, no mask."""
    n, m, d, size = _sizes(experiment)
    passes = ceil(m / experiment.tiling.block_kv)
    return size * (2 * m * d + 3 * passes * n * d) + STATISTIC * 4 * passes * n


def flash2_bytes(experiment: Experiment) -> int:
    """Bytes that FlashAttention-2's tiles ask for, one head, no mask or causal.

    Causal: the query block that ends at key position e reads min(ceil(e / Bc) Bc, M) keys.
    """
    (n, m, d, size), tiling = _sizes(experiment), experiment.tiling
    keys = 0
    for block in range(ceil(n / tiling.block_q)):
        end = min((block + 1) * tiling.block_q, n) + m - n if experiment.problem.mask.causal else m
        keys += min(ceil(max(end, 0) / tiling.block_kv) * tiling.block_kv, m)
    return size * (2 * n * d + 2 * keys * d) + STATISTIC * n


def flops(experiment: Experiment, products: int = 2) -> int:
    """2 N^2 d a product, a multiplication and an addition each: Q K^T and P V; backward seven in all.

    There S and dP are computed twice.
    """
    n, m, d, _ = _sizes(experiment)
    return 2 * products * n * m * d


def two_kernel_backward_bytes(experiment: Experiment) -> int:
    """Bytes that the backward pass of two kernels asks for, one head that shares no keys, no mask."""
    (n, m, d, size), tiling = _sizes(experiment), experiment.tiling
    by_keys, by_queries = ceil(m / tiling.block_kv), ceil(n / tiling.block_q)
    elements = 2 * n * d + 4 * m * d + 2 * by_keys * n * d + 3 * n * d + 2 * by_queries * m * d
    return size * elements + STATISTIC * (3 * n + 2 * by_keys * n + 2 * n)


def io_order(experiment: Experiment) -> tuple[float, float]:
    """Theorem 2: N d + N^2 for standard, N^2 d^2 / M for flash; elements a head, M of them on chip."""
    n, m, d, size = _sizes(experiment)
    chip = experiment.gpu.shared_bytes_block / size
    return n * d + n * m, n * m * d * d / chip


def split_kv_bytes(experiment: Experiment) -> int:
    """Bytes that split keys ask for, one key head, no mask or causal.

    G N rows, the queries of the heads that share the key head, in blocks of Br. Every split of a block reads
    its Q; together they read the keys that its last query sees, in whole blocks. More than one split leave O
    and lse of each, float32, written once and read once.
    """
    (n, m, d, size), tiling, problem = _sizes(experiment), experiment.tiling, experiment.problem
    group = problem.heads // problem.kv_heads
    rows, keys = group * n, 0
    for block in range(ceil(rows / tiling.block_q)):
        last = ceil(min((block + 1) * tiling.block_q, rows) / group)  # one past the last query of the block
        end = last + m - n if experiment.problem.mask.causal else m
        keys += min(ceil(max(end, 0) / tiling.block_kv) * tiling.block_kv, m)
    partials = 2 * tiling.splits * rows * (d + 1) * STATISTIC if tiling.splits > 1 else 0
    return size * (tiling.splits * rows * d + 2 * keys * d + rows * d) + STATISTIC * rows + partials
