"""How the warps of a block of threads part: consumers of 64 rows each, and warps that serve them."""

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin


@builtin
def start(consume, shared, others, how, _semantic=None, _generator=None):
    """Start how.CONSUMERS, each with its number after the arguments that they share, and the others.

    others are (function, arguments), of one warp each. Consumers and others have how.CONSUMER_REGISTERS and
    how.PRODUCER_REGISTERS a thread.
    """
    how = how.value
    consumers = how.CONSUMERS
    partitions = [(consume, gl.tuple([*shared, gl.constexpr(number)])) for number in range(consumers)]
    warps = [4] * (consumers - 1) + [1] * len(others)
    registers = [how.CONSUMER_REGISTERS] * (consumers - 1) + [how.PRODUCER_REGISTERS] * len(others)
    gl.warp_specialize([*partitions, *others], warps, registers, _semantic=_semantic, _generator=_generator)
