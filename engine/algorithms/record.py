"""What is true of one algorithm alone: its names, loop nest, tiling, launch, tiles on the chip, kernel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.problem.hardware import Gpu
from engine.problem.problem import Problem, Tiling
from engine.schedule.schedule import Schedule
from engine.schedule.step import Tensor, block_bytes

FORWARD, BACKWARD = "forward", "backward"
ACCUMULATOR_BYTES = 4  # sums and scores are float32 on the chip whatever the dtype
STAGES = 3  # tiles of K and V in flight in a software pipeline, at most


@dataclass(frozen=True)
class Pipeline:
    """What runs side by side in a block of threads.

    Attributes:
        asynchronous: the next K and V are copied while this tile is computed.
        specialised: a warp of its own copies, and a block stays on its SM: the copies of its next tile start
            before this one ends. Only asynchronous copies can run ahead.
        overlapped: the softmax of one tile runs under the matrix products of another.
        returning: O leaves for memory and comes back at every visit, and each waits for the one before.
        dividing: O is divided by l at every visit, which the next has to undo.
        polynomials: share of the exponentials that plain arithmetic computes, beside their own unit.
        threshold: rise of a row's maximum, in log2, up to which m is left and nothing is rescaled.
    """

    asynchronous: bool = True
    specialised: bool = False
    overlapped: bool = False
    returning: bool = False
    dividing: bool = False
    polynomials: float = 0.0
    threshold: float = 0.0


@dataclass(frozen=True)
class Part:
    """One tile on the chip, or several alike: its label, its tensor, and its bytes."""

    label: str
    tensor: Tensor
    bytes: int


def loaded(problem: Problem, tiling: Tiling, tensor: Tensor, label: str = "") -> Part:
    """A block of a tensor as it comes from memory."""
    amount = block_bytes(problem, tensor).of(tiling.block_q, tiling.block_kv)
    return Part(label or tensor.name, tensor, amount)


def summed(label: str, tensor: Tensor, values: int) -> Part:
    """So many float32 sums."""
    return Part(label, tensor, values * ACCUMULATOR_BYTES)


def fused_parts(problem: Problem, tiling: Tiling) -> tuple[Part, ...]:
    """The tiles of a fused forward kernel: Q, K, V as loaded; S, O and m, l in float32."""
    return (
        *(loaded(problem, tiling, tensor) for tensor in (Tensor.Q, Tensor.K, Tensor.V)),
        summed("S", Tensor.S, tiling.block_q * tiling.block_kv),
        summed("O", Tensor.O, tiling.block_q * problem.v_dim),
        loaded(problem, tiling, Tensor.STATISTICS, "m, l"),
    )


@dataclass(frozen=True)
class Algorithm:
    """One algorithm; whoever needs a fact about it asks its record, and nobody asks for its name.

    Attributes:
        key: in links, rows and on the command line.
        label, short: the name in a sentence, and in a chart.
        order: where it stands in lists, from 0.
        schedule: (problem, tiling) -> the loop nests of one head.
        parts: (problem, tiling) -> the tiles that each kernel holds at once, by the kernel's name.
        parts_words: what `parts` count, for a reader.
        tensors: what lies in device memory.
        tiling: (problem, asked, GPU) -> the tiling that runs.
        chooses_tiling: whether that is the algorithm's own, whatever is asked.
        own_tiling: (problem, GPU) -> what its kernel takes when given no blocks; None: no other.
        heads_together: (problem, tiling) -> heads that start their heaviest query blocks together.
        loops: (problem, tiling) -> loops, one after another, in which a block makes its visits.
        heavy_first: whether the heaviest blocks start first where a mask makes them unequal.
        pipeline: what its kernels do at the same time.
        stages: tiles of K and V in flight, at most.
        fewest_stages: of what its kernels' loops stream, below which they were never run.
        direction: forward or backward.
        offered: whether the sidebar offers it; else a page of its own shows it.
        several_gpus: its schedule is that of several GPUs together; the tiling's splits say how many.
        techniques: of `engine.studies.techniques`, those that its kernel has; None: not told apart by them.
        kernel: what `kernels.attention` calls it; None: no kernel of this project computes it.
        language: of that kernel.
        unserved: (problem, GPU) -> why the kernel does not run it there, in a sentence; None where it does.
        probed: whether the kernel can report m, l and alpha of every tile.
        caveat: why its kernel's time is not what its paper measured, in a sentence; where there is one, it
            races others only when it is chosen itself. Empty: no reason.
        code: bytes of instructions of its kernels together, as compiled for Hopper in usual blocks.
        traced: whether the kernel can write down which SM ran each of its blocks, and when.
        pages: whether its kernel reads K and V in pages.
        latents: whether a kernel decodes over a latent so, K and V in one.
        differentiable: whether it has a backward pass.
        interpreter_ms: of Triton's interpreter, for a tile and for each 1000 scores of it (float16, one core
            of an x86 server, measured): enough to foresee what takes too long; None: not interpreted.
    """

    key: str
    label: str
    short: str
    order: int
    schedule: Callable[[Problem, Tiling], Schedule]
    parts: Callable[[Problem, Tiling], Mapping[str, tuple[Part, ...]]]
    tensors: tuple[Tensor, ...]
    parts_words: str = (
        "(Modelled for the forward pass: one copy of Q, K and V. S, O, m and l are in registers.)"
    )
    tiling: Callable[[Problem, Tiling, Gpu], Tiling] = lambda problem, asked, gpu: asked
    chooses_tiling: bool = False
    own_tiling: Callable[[Problem, Gpu], Tiling] | None = None
    heads_together: Callable[[Problem, Tiling], int] = lambda problem, tiling: 1
    loops: Callable[[Problem, Tiling], int] = lambda problem, tiling: 1
    heavy_first: bool = False
    pipeline: Pipeline = Pipeline()
    stages: int = STAGES
    fewest_stages: int = 1
    direction: str = FORWARD
    offered: bool = True
    several_gpus: bool = False
    techniques: frozenset[str] | None = None
    kernel: str | None = None
    language: str = "Triton"
    unserved: Callable[[Problem, Gpu], str | None] = lambda problem, gpu: None
    caveat: str = ""
    probed: bool = False
    code: int = 0
    traced: bool = False
    pages: bool = False
    latents: bool = False
    differentiable: bool = False
    interpreter_ms: tuple[float, float] | None = None

    @property
    def compared(self) -> bool:
        """Whether it is shown beside others on one problem and tiling."""
        return self.offered and not self.chooses_tiling

    @property
    def on_one_gpu(self) -> bool:
        """Whether it is attention forward on one GPU, offered for every scenario or for decoding alone."""
        return self.direction == FORWARD and not self.several_gpus

    @property
    def unfused(self) -> bool:
        """Whether S lies in device memory."""
        return Tensor.S in self.tensors
