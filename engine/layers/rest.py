"""What all of a layer but its attention's kernel takes: matrix products, experts, and what lies between.

A product takes as long as its FLOPs, or as its start and its bytes, whichever is longer; what lies between
products, as long as its bytes take. A GPU's rates are those that it is measured to reach. The others were
read off recorded pieces, which are products of no model (assets/recordings/layers).
"""

from __future__ import annotations

from math import ceil, erfc, sqrt

from engine.layers.model import Attention, Layer, Matrix, Model
from engine.model.rates import Rates
from engine.problem.hardware import GPUS

# What products keep of the rate that they begin with when they go on for 0.3 s, under the limit on power: of
# 2,048 and 8,192 rows on two GPUs 667 to 805 of 791 TFLOP/s, 740 on average.
SUSTAINED = 0.935
# More seconds of a product than its bytes take, until the first come and after the last, which FLOPs hide: of
# 1 and 16 rows 5.8 to 7.1 microseconds where columns are as many as models have, 4,096 and 8,192.
START = 6.4e-6
# PyTorch's grouped products, for experts (aten/native/cuda/GroupMM.cu): two SMs share a tile of weights, each
# with a tile of 64 rows and 128 columns up to FEW_ROWS rows an expert, else of 128 and 256. The small ones
# take so many bytes of weights a clock: 3.0 TB/s on an H200, and 2.8 on an H100, where HBM has a third less.
SMALL, LARGE, FEW_ROWS = (64, 128), (128, 256), 128
PAIR_BYTES = 25
# Seconds of choosing experts: the largest logits, their order and its ends, some 15 kernels; and per token.
CHOICE, CHOICE_EACH = 26e-6, 6e-9


def product_seconds(model: Model, matrix: Matrix, hardware: str, rows: int) -> float:
    """Of so many tokens times a matrix, or times the experts that they choose."""
    gpu = GPUS[hardware]
    rates, all_rows = Rates.of(gpu, model.dtype), rows * matrix.active
    touched = matrix.copies * (1 - (1 - matrix.active / matrix.copies) ** rows) if matrix.copies > 1 else 1
    read, written = (all_rows * numbers * model.itemsize for numbers in (matrix.columns, matrix.rows))
    weights = model.bytes_of(matrix) * touched / matrix.copies
    moved = rates.hbm_seconds(weights + read, written)
    matrix_rate = SUSTAINED * rates.matrix
    if matrix.copies == 1:
        return max(2 * all_rows * matrix.rows * matrix.columns / matrix_rate, moved + START)
    mean = all_rows / matrix.copies
    height, width = SMALL if mean <= FEW_ROWS else LARGE
    pairs, tiles = gpu.sms / 2, touched * _tiles(mean, 1 - matrix.active / matrix.copies, 2 * height)
    waves = ceil(tiles * ceil(matrix.rows / width) / pairs)
    seconds = 2 * (2 * height) * width * matrix.columns / (matrix_rate / pairs)
    if height == SMALL[0]:
        tile_bytes = model.bytes_of(matrix) / (matrix.copies * matrix.rows) * width
        seconds = max(seconds, tile_bytes / (PAIR_BYTES * gpu.clock_hz))
    return max(waves * seconds, moved) + START + 2 * gpu.reached.launch


def _tiles(mean: float, others: float, height: int) -> float:
    """Tiles in height of an expert that is touched, on average over lots that give it `mean` rows."""
    spread = max(sqrt(2 * mean * others), 1e-9)  # none where each takes all
    more = (0.5 * erfc((edge * height - mean) / spread) for edge in range(1, 2 + ceil(mean / height)))
    return 1 + sum(more)


def layer_seconds(model: Model, layer: Layer, hardware: str, rows: int, decoding: bool) -> float:
    """Of all of a layer but its attention's kernel, for so many tokens."""
    rates, products = Rates.of(GPUS[hardware], model.dtype), layer.matrices(model.hidden)
    launch = GPUS[hardware].reached.launch
    seconds = sum(product_seconds(model, matrix, hardware, rows) for matrix in products)
    between, wide = [], model.hidden
    for norm in range(layer.norms):  # of a sum, or of what is to be added
        between.append((2 * wide, 2 * wide) if norm < 2 else (wide, wide))
    if own := layer.attention:
        between += _around(own, decoding)
        seconds += START * bool(own.latent and decoding)  # its projection is absorbed, as two products
    for matrix in products:
        if matrix.name == "up":  # the activation, and the gate
            numbers = matrix.rows * matrix.active
            between.append((numbers, numbers // 2 if layer.mlp.gated else numbers))
    if layer.mlp and layer.mlp.experts > 1:
        each = layer.mlp.active * wide
        between += [(each, each), (each, wide), (0, 0), (0, 0), (0, 0)]  # rows by expert, their sum, places
        seconds += CHOICE + CHOICE_EACH * rows
    for moved in between:
        seconds += rates.hbm_seconds(*(rows * numbers * model.itemsize for numbers in moved)) + launch
    return seconds


def _around(own: Attention, decoding: bool) -> list[tuple[int, int]]:
    """Numbers of a token that kernels around attention's read and write: positions, K and V put in place."""
    if own.latent is None:
        turned = own.head_dim * (own.heads + own.kv_heads)
        kept = own.kv_heads * (own.head_dim + own.head_dim_v)
        return [(turned, turned)] + [(kept, kept)] * decoding
    turned, plain = own.heads * own.rope_dim, own.heads * (own.head_dim - own.rope_dim)
    found = [(own.latent, own.latent), (own.q_latent or 0,) * 2, (turned, turned), (own.rope_dim,) * 2]
    if not decoding:
        return [*found, (plain, plain), (own.rope_dim, turned)]
    absorbed = own.heads * (own.latent + own.rope_dim)
    return [*found, (absorbed, absorbed), (own.latent, own.latent), (own.latent, own.latent), (0, 0)]
