"""A block of threads: its partitions as Python threads, its barriers, and what it has under way."""

import threading
from types import SimpleNamespace

import torch

from gluon_threads.memory import Shared


class DeadlockError(RuntimeError):
    """Every partition waits."""


class Block:
    """One block of threads: its barriers, and its partitions as threads of which one runs at a time.

    A partition runs until it must wait; the next is the one that has waited longest of those that can go on,
    so that every run takes the same order.
    """

    def __init__(self):
        self.waiting = {}  # a partition's number -> (whether it only rests, what it waits for), oldest first
        self.turns = []
        self.errors = []
        self.named = {}
        self.under_way = 0  # copies into shared memory

    def wait_until(self, ready):
        if not ready():
            self._wait(False, ready)

    def let_others_run(self):
        """Rest until every other partition waits or rests; who rested last goes on first."""
        if self.turns:  # else no partition has started
            self._wait(True, None)

    def _wait(self, rests, ready):
        number = self.current
        self.waiting[number] = rests, ready
        self._pass_on()
        self.turns[number].acquire()
        if self.errors:
            raise self.errors[0]

    def _pass_on(self):
        """The turn goes to a partition that can go on."""
        able = [number for number, (rests, ready) in self.waiting.items() if not rests and self._tried(ready)]
        able = able or [number for number, (rests, _) in reversed(self.waiting.items()) if rests]
        if self.waiting and not able and not self.errors:
            self.errors.append(DeadlockError("every partition waits for another"))
        if self.errors:
            able = list(self.waiting)  # each ends with the error
        if able:
            self.current = able[0]
            del self.waiting[self.current]
            self.turns[self.current].release()

    def _tried(self, ready):
        """Whether it is; an error, as of a copy that lands, ends all partitions."""
        try:
            return ready()
        except BaseException as error:
            self.errors.append(error)
            return False

    def start(self, consume, shared, others, how):
        """Partitions as threads, as `kernels.hopper.partitions.start` says."""
        self.specialise([*((consume, (*shared, number)) for number in range(how.CONSUMERS)), *others])

    def specialise(self, partitions, _warps=None, _registers=None):
        """Partitions as threads, as `gl.warp_specialize` starts them."""
        self.turns = [threading.Semaphore(0) for _ in partitions]
        self.waiting = {number: (False, lambda: True) for number in range(len(partitions))}
        threads = [threading.Thread(target=self._run, args=numbered) for numbered in enumerate(partitions)]
        for thread in threads:
            thread.start()
        self._pass_on()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        assert self.under_way == 0, "a copy was never waited for"

    @torch.no_grad()  # a thread begins with gradients
    def _run(self, number, partition):
        self.turns[number].acquire()
        function, arguments = partition
        try:
            if not self.errors:
                function(*arguments)
        except BaseException as error:
            self.errors.append(error)
        self._pass_on()

    def named_barrier(self, action, name, threads, own=128):
        """PTX bar.sync and bar.arrive of `own` threads, of so many in all."""
        barrier = self.named.setdefault(int(name), SimpleNamespace(arrived=0, phase=0))
        phase = barrier.phase
        barrier.arrived += own
        assert barrier.arrived <= threads, "more arrivals than this barrier expects in a phase"
        if barrier.arrived == threads:
            barrier.arrived, barrier.phase = 0, phase + 1
        if action == "sync":
            self.wait_until(lambda: barrier.phase != phase)


class MemoryBarrier:
    """An mbarrier: a phase ends when `count` have arrived and no announced byte is missing.

    Copies that report to it are `coming` until somebody waits for their phase.
    """

    def __init__(self, block):
        self.block = block
        self.phase = self.missing_bytes = self.count = self.pending = 0
        self.coming = []

    def init(self, count):
        self.count = self.pending = count

    def arrive(self, count=1, missing_bytes=0):
        self.pending -= count
        self.missing_bytes += missing_bytes
        assert self.pending >= 0, "more arrivals than this barrier expects in a phase"
        if self.pending == 0 and self.missing_bytes == 0:
            self.phase, self.pending = self.phase + 1, self.count

    def wait(self, parity):
        """Until the phase of this parity has ended; of a new barrier the one before phase 0 has."""

        def ended():
            if self.phase & 1 == parity:
                self._land()
            return self.phase & 1 != parity

        self.block.wait_until(ended)

    def _land(self):
        coming, self.coming = self.coming, []
        for land in coming:
            land()


class Barriers(list):
    """An allocation of mbarriers."""

    @property
    def shape(self):
        return [len(self), 1]

    def index(self, i):
        return self[i]


class Copies(threading.local):
    """TMA's copies: those in land when their barrier is waited for, those out when their warp group waits.

    What lay where a copy goes is lost when it starts: it may land at any time from then on.
    """

    def __init__(self, block):
        self.block = block
        self.leaving = []

    def start_in(self, descriptor, coordinates, barrier, shared):
        rows = descriptor.rows(*coordinates)
        before = max(-coordinates[2], 0) if len(coordinates) < 5 else 0
        shared.memory.fill_(torch.nan)
        self.block.under_way += 1

        def land():
            shared.memory.zero_()
            inside = shared.memory.flatten(0, -rows.dim())[before : before + len(rows)]
            (inside if rows.dim() == 1 else inside[:, : rows.shape[1]]).copy_(rows)
            self.block.under_way -= 1
            barrier.arrive(0, -descriptor.block_type.nbytes)

        barrier.coming.append(land)

    def start_out(self, descriptor, coordinates, shared):
        rows = descriptor.rows(*coordinates)
        block = shared.memory.flatten(0, -2)
        self.leaving.append(lambda: rows.copy_(block[: len(rows), : rows.shape[1]]))

    def start_add(self, descriptor, coordinates, shared):
        part = descriptor.parts[coordinates[0]]
        self.leaving.append(lambda: part.add_(shared.memory[0]))

    def wait_out(self, left_in_flight):
        self.block.let_others_run()
        while len(self.leaving) > left_in_flight:
            self.leaving.pop(0)()


class Products(threading.local):
    """Asynchronous products of one warp group: each is done when it is waited for.

    By then every other partition has done what it can, so that an operand handed back early is lost. SIZES,
    where it is a list, gets each product's rows, what it sums over, and columns.
    """

    SIZES = None

    def __init__(self, block):
        self.block = block
        self.pending = []

    def start(self, left, right, accumulator, use_acc=True, is_async=False):
        assert is_async
        if self.SIZES is not None:
            self.SIZES.append((*left.shape, right.shape[1]))
        result = torch.full_like(accumulator, torch.nan)
        self.pending.append((result, left, right, accumulator if use_acc else None))
        return result

    def wait(self, left_in_flight, deps):
        self.block.let_others_run()
        while len(self.pending) > left_in_flight:
            result, left, right, accumulator = self.pending.pop(0)
            left = left.load() if isinstance(left, Shared) else left
            product = left.float() @ right.load().float()
            result.copy_(product if accumulator is None else accumulator + product)
        return deps[0] if len(deps) == 1 else deps


class TensorCores:
    """Blackwell's products, in the order in which they are issued.

    Each is done when a barrier of it, or of one after it, is waited for, or one after it needs its place.
    Until then nobody can read where it adds up, nor what shared that place.
    """

    def __init__(self):
        self.queue = []

    def start(self, left, right, accumulator, use_acc=True, mbarriers=(), mbarrier_preds=None):
        place = accumulator.memory.data_ptr()
        while any(place in (each[2].memory.data_ptr(), each[0].place) for each in self.queue):
            self._next()
        product = left, right, accumulator, accumulator.memory.clone() if use_acc else 0.0
        accumulator.store(torch.tensor(torch.nan))
        self.queue.append(product)
        for barrier, reports in zip(mbarriers, mbarrier_preds or [True] * len(mbarriers), strict=True):
            if reports:
                barrier.coming.append(lambda barrier=barrier: self._land(product, barrier))

    def _land(self, product, barrier):
        while any(each is product for each in self.queue):
            self._next()
        barrier.arrive()

    def _next(self):
        left, right, accumulator, before = self.queue.pop(0)
        accumulator.store(left.load().float() @ right.load().float() + before)
