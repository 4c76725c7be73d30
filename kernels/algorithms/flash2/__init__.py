"""FlashAttention-2 (Dao, arXiv 2307.08691): its forward pass, which other algorithms share."""

from kernels.algorithms.flash2.forward import flash2, tma_serves, with_tma
from kernels.algorithms.record import Algorithm, Tensors
from kernels.call.call import Call


def prepared(call: Call, own_blocks: bool, tensors: Tensors, processors: int) -> Call:
    """With K and V copied by TMA where that serves them, and blocks are not given."""
    return with_tma(call, tensors[1]) if own_blocks and tma_serves(call, *tensors) else call


ALGORITHM = Algorithm(
    key="flash2",
    order=2,
    forward=flash2,
    prepared=prepared,
    fallback=True,
    differentiable=True,
    probed=True,
    traced=True,
)
