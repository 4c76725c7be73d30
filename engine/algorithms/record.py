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
    """What runs side by side in a block of threads."""

    asynchronous: bool = True  # the next K and V are copied while this tile is computed
    # a warp of its own copies, and a block stays on its SM: the copies of its next tile start before this one
    # ends. Only asynchronous copies can run ahead
    specialised: bool = False
    overlapped: bool = False  # the softmax of one tile runs under the matrix products of another
    # O leaves for memory and comes back at every visit, and each waits for the one before
    returning: bool = False
    dividing: bool = False  # O is divided by l at every visit, which the next has to undo
    # share of the exponentials that plain arithmetic computes, beside their own unit
    polynomials: float = 0.0
    threshold: float = 0.0  # rise of a row's maximum, in log2, up to which m is left and nothing is rescaled


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


def attention_parts(problem: Problem, tiling: Tiling) -> dict[str, tuple[Part, ...]]:
    """The tiles of a fused algorithm's one kernel."""
    return {"attention": fused_parts(problem, tiling)}


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
    """One algorithm; whoever needs a fact about it asks its record, and nobody asks for its name."""

    key: str  # in links, rows and on the command line
    # label, short: the name in a sentence, and in a chart
    label: str
    short: str
    order: int  # where it stands in lists, from 0
    schedule: Callable[[Problem, Tiling], Schedule]  # (problem, tiling) -> the loop nests of one head
    # (problem, tiling) -> the tiles that each kernel holds at once, by the kernel's name
    parts: Callable[[Problem, Tiling], Mapping[str, tuple[Part, ...]]]
    tensors: tuple[Tensor, ...]  # what lies in device memory
    # what `parts` count, for a reader
    parts_words: str = (
        "(Modelled for the forward pass: one copy of Q, K and V. S, O, m and l are in registers.)"
    )
    # (problem, asked, GPU) -> the tiling that runs
    tiling: Callable[[Problem, Tiling, Gpu], Tiling] = lambda problem, asked, gpu: asked
    chooses_tiling: bool = False  # whether that is the algorithm's own, whatever is asked
    # (problem, GPU) -> what its kernel takes when given no blocks; None: no other
    own_tiling: Callable[[Problem, Gpu], Tiling] | None = None
    # (problem, tiling) -> heads that start their heaviest query blocks together
    heads_together: Callable[[Problem, Tiling], int] = lambda problem, tiling: 1
    # columns of what TMA copies over those of the tensor, where it fills what lies behind the last with 0
    box_columns: Callable[[Problem], dict[Tensor, float]] = lambda problem: {}
    # (problem, tiling) -> loops, one after another, in which a block makes its visits
    loops: Callable[[Problem, Tiling], int] = lambda problem, tiling: 1
    heavy_first: bool = False  # whether the heaviest blocks start first where a mask makes them unequal
    pipeline: Pipeline = Pipeline()  # what its kernels do at the same time
    stages: int = STAGES  # tiles of K and V in flight, at most
    fewest_stages: int = 1  # of what its kernels' loops stream, below which they were never run
    direction: str = FORWARD  # forward or backward
    offered: bool = True  # whether the sidebar offers it; else a page of its own shows it
    # its schedule is that of several GPUs together; the tiling's splits say how many
    several_gpus: bool = False
    # of `engine.studies.techniques`, those that its kernel has; None: not told apart by them
    techniques: frozenset[str] | None = None
    # what `kernels.attention` calls it; None: no kernel of this project computes it
    kernel: str | None = None
    language: str = "Triton"  # of that kernel
    # (problem, GPU) -> why the kernel does not run it there, in a sentence; None where it does
    unserved: Callable[[Problem, Gpu], str | None] = lambda problem, gpu: None
    # why its kernel's time is not what its paper measured, in a sentence; where there is one, it races others
    # only when it is chosen itself. Empty: no reason
    caveat: str = ""
    probed: bool = False  # whether the kernel can report m, l and alpha of every tile
    code: int = 0  # bytes of instructions of its kernels together, as compiled for Hopper in usual blocks
    traced: bool = False  # whether the kernel can write down which SM ran each of its blocks, and when
    pages: bool = False  # whether its kernel reads K and V in pages
    latents: bool = False  # whether a kernel decodes over a latent so, K and V in one
    differentiable: bool = False  # whether it has a backward pass
    # of Triton's interpreter, for a tile and for each 1000 scores of it (float16, one core of an x86 server,
    # measured): enough to foresee what takes too long; None: not interpreted
    interpreter_ms: tuple[float, float] | None = None

    @property
    def compared(self) -> bool:
        return self.offered and not self.chooses_tiling

    @property
    def on_one_gpu(self) -> bool:
        """Whether it is attention forward on one GPU, offered for every scenario or for decoding alone."""
        return self.direction == FORWARD and not self.several_gpus

    @property
    def unfused(self) -> bool:
        """Whether S lies in device memory."""
        return Tensor.S in self.tensors
