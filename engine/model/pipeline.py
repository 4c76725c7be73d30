"""What a fused kernel does at the same time, and what that spares it; modelled."""

from __future__ import annotations

from dataclasses import dataclass

OVERLAP_SHARE = 0.8  # of the shorter of products and softmax that hides; fitted to flash3 on an H200


@dataclass(frozen=True)
class Pipeline:
    """What runs side by side in a block of threads.

    Attributes:
        asynchronous: the next K and V are copied while this tile is computed.
        specialised: a warp of its own copies, and a block stays on its SM: the copies of its next tile start
            before this one ends. Only asynchronous copies can run ahead.
        overlapped: the softmax of one tile runs under the matrix products of another.
        returning: O leaves for memory and comes back at every visit, and each waits for the one before.
    """

    asynchronous: bool = True
    specialised: bool = False
    overlapped: bool = False
    returning: bool = False

    def arithmetic(self, products: float, softmax: float) -> float:
        """Seconds of a block's matrix products and softmax together."""
        if not self.overlapped:
            return products + softmax
        return max(products, softmax) + (1 - OVERLAP_SHARE) * min(products, softmax)

    def with_copies(self, arithmetic: float, copies: float) -> float:
        """Seconds of the arithmetic and of its copies together, once they run."""
        return max(arithmetic, copies) if self.asynchronous else arithmetic + copies


PIPELINES = {
    "flash1": Pipeline(asynchronous=False, returning=True),
    "flash3": Pipeline(specialised=True, overlapped=True),
}


def pipeline_of(algorithm: str) -> Pipeline:
    """What an algorithm's kernel does at the same time."""
    return PIPELINES.get(algorithm, Pipeline())
