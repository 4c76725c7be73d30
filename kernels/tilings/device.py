"""What of a GPU the tilings follow, and the rule by which blocks follow it where none were measured."""

from typing import NamedTuple

MIN_BLOCK = 16  # tl.dot takes no less
STAGES = 2  # of what streams, that should fit: one is multiplied while the other comes


class Device(NamedTuple):
    """A GPU's architecture, as its compiler names it, and the bytes of shared memory that a block may have.

    >>> Device("sm_86", 99 * 1024).fitted(128, 64, 2 * 256, 2 * 512)
    (64, 32)
    """

    architecture: str = "sm_90"
    shared: int = 227 * 1024

    @property
    def measured(self) -> bool:
        """Whether blocks, warps and stages are those that were measured to be fastest, on an H200."""
        return self.architecture == "sm_90"

    @property
    def amd(self) -> bool:
        return self.architecture.startswith("gfx")

    @property
    def generation(self) -> int:
        """Of an NVIDIA GPU, such as 90; 0 of others."""
        return 0 if self.amd else int(self.architecture.removeprefix("sm_"))

    @property
    def tma(self) -> bool:
        """Whether it has NVIDIA's tensor memory accelerator."""
        return self.generation >= 90

    @property
    def tensor_memory(self) -> bool:
        """Whether sums of products lie in a memory of their own: on a B200 and B300."""
        return self.generation // 10 == 10

    @property
    def multiplies(self) -> bool:
        """Whether Triton multiplies numbers of 16 bits by instructions of tensor cores: from Ampere on."""
        return self.amd or self.generation >= 80

    @property
    def small(self) -> bool:
        """Whether blocks are as small as float32's: without tensor cores, and on RDNA."""
        return not self.multiplies or (self.amd and not self.wide)

    @property
    def wide(self) -> bool:
        """Whether a warp has 64 threads, which have 512 registers each in a block of four: CDNA."""
        return self.architecture.startswith("gfx9")

    @property
    def threads(self) -> int:
        """Of a warp."""
        return 64 if self.wide else 32

    def warps(self, warps: int, columns: int) -> int:
        """Of a block that would have so many on a Hopper GPU, with tiles of so many columns."""
        if self.wide:
            return max(4, warps // 2)
        return warps if self.measured or (columns < 256 and not self.small) else max(8, warps)

    def resident(self, amount: int) -> int:
        """What of rows that stay takes shared memory: an AMD GPU multiplies them from registers."""
        return 0 if self.amd else amount

    def fitted(self, stay: int, stream: int, stay_bytes: int, stream_bytes: int) -> tuple[int, int]:
        """Rows that stay and that stream, the larger halved until STAGES of these fit beside."""
        while (
            not self.measured
            and stay * self.resident(stay_bytes) + STAGES * stream * stream_bytes > self.shared
            and max(stay, stream) > MIN_BLOCK
        ):
            if stay > stream:
                stay //= 2
            else:
                stream //= 2
        return stay, stream


HOPPER = Device()  # an H100 or H200, whose tilings are taken where there is no GPU to ask
