"""A GPU: what one streaming multiprocessor and one memory system hold, and how fast they are."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from engine.problem.dtype import dtype_named
from kernels.tilings.device import Device

KIB = 1024
MIB = 1024**2
GB = 10**9
# An SM's memory serves as L1 and as shared memory, which the driver sets to one of these sizes, and leaves L1
# at least so much: CUDA C++ Programming Guide, compute capabilities 8.x and 9.0.
SHARED_SIZES = tuple(size * KIB for size in (8, 16, 32, 64, 100, 132, 164, 196, 228))
EIGHT_BIT_CORES = ("Ada", "Hopper", "Blackwell", "Blackwell Ultra", "CDNA 3")  # vendors' data sheets
LEAST_L1 = 28 * KIB


@dataclass(frozen=True)
class Reached:
    """What a GPU reaches of its vendor's figures, and how long it waits; of one never measured, an H200's.

    `python -m engine calibrate` measures each, see `engine.problem.calibration`.
    """

    matrix: float = 0.786  # share of the tensor cores' peak that long products reach
    reads: float = 0.978  # of the memory's bandwidth
    copies: float = 0.844  # the same of copies, which turn it from reading to writing
    cache: float = 0.907  # of what L2 delivers, where the blocks of a head request the same at once
    # seconds that a loop takes for a tile of 8 KiB, loaded when it has the last, where DRAM, or L2, has it
    latency: float = 0.69e-6
    l2_latency: float = 0.354e-6
    launch: float = 2.07e-6  # seconds from one kernel to the next
    between_events: float = 1.26e-6  # seconds more between two events
    clock: float = 0.981  # of `Gpu.clock_hz` while tensor cores work, but leave the card's power alone
    # what it gives up of that as its tensor cores work beyond a share of the time
    power_from: float = 0.5
    power_slope: float = 0.35
    # seconds after which it goes on at a share of the clock it began with
    sustained_from: float = 0.0366
    sustained_clock: float = 0.882

    def clock_left(self, busy: float) -> float:
        """Share of the clock that is left while the tensor cores work a share `busy` of the time."""
        return 1 - self.power_slope * max(0.0, busy - self.power_from) / self.clock

    def sustained(self, seconds: float) -> float:
        """Seconds of work that would take so many at the clock it begins with: its limit is on an average."""
        return seconds + max(0.0, seconds - self.sustained_from) * (1 / self.sustained_clock - 1)

    def unsustained(self, seconds: float) -> float:
        """The other way round."""
        beyond = max(0.0, seconds - self.sustained_from) * self.sustained_clock
        return min(seconds, self.sustained_from) + beyond


@dataclass(frozen=True)
class Gpu:
    """One GPU as its vendor states it; where nobody does, `sources` says what is assumed."""

    key: str  # name in URLs and on the command line
    name: str  # on a page
    architecture: str  # its generation
    sms: int  # streaming multiprocessors (an AMD GPU's compute units)
    blocks_sm: int  # thread blocks that one SM can hold at most
    shared_bytes_block: int  # shared memory that one thread block can have
    shared_bytes_sm: int  # shared memory of one SM
    register_bytes_sm: int  # register file of one SM
    exponentials_per_clock: int  # of one SM
    shared_bytes_per_clock: int  # what one SM can load from its shared memory
    l2_bytes: int  # the cache before device memory: level 2 (on an MI300X the Infinity Cache)
    # Room in it for what all SMs use. Where the chip has two L2 partitions each keeps its own copy: all SMs
    # of an H100 with 50 MiB can walk over 23.75 again and again without a byte from DRAM, over 25 at a loss
    # of a fifth, over 30 with nothing left.
    l2_effective_bytes: int
    l2_bytes_per_clock: float  # what it delivers to all SMs together
    memory_bytes: int  # device memory that programs find, as the driver reports it
    memory_bytes_per_second: float  # peak bandwidth of device memory
    clock_hz: float  # at which the tensor cores' peak is stated
    # Dense peak of a matrix product by dtype, FLOP/s, summed in float32: tensor cores for float16 and
    # bfloat16, plain fused multiply-adds for float32 (and for bfloat16 on a T4).
    matrix_flops: MappingProxyType
    sources: MappingProxyType  # where each group of figures comes from, by what it is of
    limits: str = ""  # what the model cannot say of it, in a sentence; empty where it is as of others
    reached: Reached = Reached()  # what it reaches of all that
    scheduled: int = 128  # threads of an SM for which an instruction is issued per clock
    target: str = Device().architecture  # as compilers name it
    calibration: Any = field(default=None, compare=False, repr=False)  # what was measured of it, if anything

    @property
    def device(self) -> Device:
        """What of it the kernels' tilings follow."""
        return Device(self.target, self.shared_bytes_block)

    def products_per_second(self, dtype: str) -> float:
        """Dense peak of a matrix product in a dtype, FLOP/s; its sum is in float32."""
        record = dtype_named(dtype)
        twice = record.twice and self.architecture in EIGHT_BIT_CORES
        return self.matrix_flops[record.products] * (2 if twice else 1)

    def has_tensor_cores_for(self, dtype: str) -> bool:
        """Whether products of a dtype run on tensor cores, not on the units of float32."""
        return self.products_per_second(dtype) > self.matrix_flops["float32"]

    @property
    def running_clock(self) -> float:
        """Hz at which it runs a kernel that leaves its power alone."""
        return self.reached.clock * self.clock_hz

    @property
    def issued_per_second(self) -> float:
        """Instructions of threads that an SM issues in a second of a kernel that leaves its power alone."""
        return self.scheduled * self.running_clock

    @property
    def exponentials_per_second(self) -> float:
        """Peak rate of exp2, 1/s."""
        return self.exponentials_per_clock * self.sms * self.clock_hz

    @property
    def shared_bytes_per_second(self) -> float:
        """Peak rate at which all SMs load from their shared memories, bytes/s."""
        return self.shared_bytes_per_clock * self.sms * self.clock_hz

    @property
    def cache_bytes_per_second(self) -> float:
        """Peak rate from L2 to all SMs together, bytes/s."""
        return self.l2_bytes_per_clock * self.clock_hz

    @property
    def l2_partitions(self) -> int:
        """Parts of L2 that each keep a copy of what all SMs use."""
        return max(1, round(self.l2_bytes / self.l2_effective_bytes))

    def l2_copies(self, sms: float) -> float:
        """Copies in L2 of what so many SMs use, on average: in their partitions and in the address's own."""
        return self.l2_partitions * (1 - (1 - 1 / self.l2_partitions) ** (sms + 1))

    def l1_bytes(self, shared: float) -> int:
        """L1 of an SM where so much of its memory must be shared memory, which has sizes of its own."""
        sizes = [size for size in SHARED_SIZES if shared <= size <= self.shared_bytes_sm]
        return self.shared_bytes_sm + LEAST_L1 - min(sizes, default=self.shared_bytes_sm)

    @property
    def with_article(self) -> str:
        """The name as a sentence takes it: a T4, an H200."""
        return ("an " if self.name[0] in "AEFHILMNORSX" else "a ") + self.name
