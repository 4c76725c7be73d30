"""FlashAttention-3 with numbers of 8 bits: their rounding, and the launch."""

from kernels.algorithms.fp8.forward import TILING, fp8
from kernels.algorithms.record import Algorithm
from kernels.call.device import DTYPES

ALGORITHM = Algorithm(
    key="fp8",
    order=4,
    forward=fp8,
    serves=frozenset(("causal",)),
    dtypes=DTYPES,  # of what is quantised, and of O
    head_dims=tuple(TILING),
    own_v_dim=False,
    hopper=True,
    chooses_blocks=True,
    reason="it was asked for, and auto never takes it, because numbers of 8 bits change the result",
)
