"""How the warps of a block of threads part: consumers of 64 rows each, and a warp that copies for them."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def _run(PARTITION: gl.constexpr, arguments):
    PARTITION(*arguments)


@gluon.jit
def _run_one(PARTITION: gl.constexpr, shared, WHICH: gl.constexpr):
    PARTITION(*shared, WHICH)


@gluon.jit
def start(
    CONSUME: gl.constexpr, shared, PRODUCE: gl.constexpr, produced,
    CONSUMERS: gl.constexpr, CONSUMER_REGISTERS: gl.constexpr, PRODUCER_REGISTERS: gl.constexpr,
):  # fmt: skip
    """Start two or three consumers, each with its number after the arguments that they share, and a producer.

    Registers are those of a thread.
    """
    if CONSUMERS == 2:
        gl.warp_specialize(
            [(_run_one, (CONSUME, shared, 0)), (_run_one, (CONSUME, shared, 1)), (_run, (PRODUCE, produced))],
            [4, 1],
            [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (_run_one, (CONSUME, shared, 0)),
                (_run_one, (CONSUME, shared, 1)),
                (_run_one, (CONSUME, shared, 2)),
                (_run, (PRODUCE, produced)),
            ],
            [4, 4, 1],
            [CONSUMER_REGISTERS, CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )


@gluon.jit
def start_two_producers(
    CONSUME: gl.constexpr, shared, PRODUCE: gl.constexpr, produced,
    CONSUMERS: gl.constexpr, CONSUMER_REGISTERS: gl.constexpr, PRODUCER_REGISTERS: gl.constexpr,
):  # fmt: skip
    """As `start`, with a producer of "keys" and one of "values", which they are told last."""
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (_run_one, (CONSUME, shared, 0)),
                (_run_one, (CONSUME, shared, 1)),
                (_run_one, (PRODUCE, produced, "keys")),
                (_run_one, (PRODUCE, produced, "values")),
            ],
            [4, 1, 1],
            [CONSUMER_REGISTERS, PRODUCER_REGISTERS, PRODUCER_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (_run_one, (CONSUME, shared, 0)),
                (_run_one, (CONSUME, shared, 1)),
                (_run_one, (CONSUME, shared, 2)),
                (_run_one, (PRODUCE, produced, "keys")),
                (_run_one, (PRODUCE, produced, "values")),
            ],
            [4, 4, 1, 1],
            [CONSUMER_REGISTERS, CONSUMER_REGISTERS, PRODUCER_REGISTERS, PRODUCER_REGISTERS],
        )
