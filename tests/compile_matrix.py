"""Compiles every kernel for GPUs that need not be here, in the blocks that it takes there by itself.

python -m tests.compile_matrix [sm_75 gfx942 ...] prints a line a kernel and case: whether it fits the shared
memory of a block, what it spills, and whether tensor cores multiply its matrices. Exit code 1 where one that
is not NAMED does not fit or has no such instruction; spills from TOLD on are shown. A case is
algorithm:dtype:head_dim[/that of V]:block_q:block_kv:mask:way, with blocks of 0 where they are its own.
"""

import io
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from itertools import product
from typing import NamedTuple

os.environ["TRITON_INTERPRET"] = "0"  # Triton either interprets or compiles

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from kernels import attention, attention_paged, attention_selected, trace_attention
from kernels.algorithms import flash2
from kernels.algorithms.record import Algorithm
from kernels.backward import backward
from kernels.blackwell import forward as flash4
from kernels.call import arguments, device
from kernels.call.call import Call
from kernels.call.key_ranges import ranges_for, seen_of
from kernels.call.options import Options
from kernels.call.terms import terms_with
from kernels.dispatch import dispatch
from kernels.distributed.combine import MOST_PARTS, Piece, combine
from kernels.pages import plan
from kernels.tilings.device import Device

TARGETS = {  # KiB of shared memory of a block, threads of a warp, instructions of tensor cores
    "sm_75": (64, 32, None),
    "sm_80": (163, 32, "mma.sync"),
    "sm_86": (99, 32, "mma.sync"),
    "sm_89": (99, 32, "mma.sync"),
    "sm_90": (227, 32, r"wgmma\.mma|mma\.sync"),
    "sm_100": (227, 32, r"tcgen05\.mma|mma\.sync"),
    "sm_120": (99, 32, "mma.sync"),
    "gfx942": (64, 64, "v_mfma"),
    "gfx1100": (64, 32, "v_wmma"),
}
NAMED = {  # what a T4 holds in no blocks that there are
    ("sm_75", "float16", "64/512"),
    ("sm_75", "float16", "576/512"),
    ("sm_75", "float32", "256"),
}
TOLD = 128  # bytes of a thread that go to memory, from which on the table says so
EVERYWHERE = (  # cases by algorithms, dtypes, head dims, masks and ways
    "flash2 float16 64,128,256 causal,terms forward,backward",
    "flash2 float32 64,128,256 causal forward,backward",
    "flash2 float16 192/128,64/256,64/512 causal forward,backward",
    "flash2 bfloat16 128 none forward",
    "split_kv,paged,standard float16 64,128,256 causal forward",
    "split_kv float16 576/512 none forward",
    "flash1 float16 64,128,256 window forward",
    "parts float16 128 none forward",
)
ON_HOPPER = (
    "flash3 float16 64,128,256 causal forward,backward",
    "fp8 float16 64,128,256 causal forward",
    "latent bfloat16 576/512 none forward",
)
MULTIPLY = re.compile("flash|scores|output|gradient_kernel|split_kernel|paged_kernel|attention|latent|select")
TURNING = ("attention_kernel", "paged_attention_kernel")  # whose P ptxas may pair the wrong way round


class Compiled(NamedTuple):
    """A kernel compiled for a GPU: bytes of shared memory of a block, and of a thread that are spilled.

    Of NVIDIA's also registers of a thread, bytes of code, whether it reads the clock, and what ptxas said and
    made of products: waits in loops that the source does not have, whether products are serialised, pairs
    turned round, and exponentials under P V.
    """

    target: str
    case: str
    kernel: str
    warps: int
    stages: int
    shared: int
    spilled: int
    multiplies: bool
    registers: int = 0
    code: int = 0
    traced: bool = False
    waits: int = 0
    serialised: bool = False
    turned: int = 0
    late: Sequence[int] = ()

    @property
    def named(self) -> bool:
        """Whether it is known that it does not fit, and a call is refused in a sentence."""
        return (self.target, *self.case.split(":")[1:3]) in NAMED

    @property
    def fault(self) -> str:
        """What is wrong with it, or nothing."""
        kib, _, cores = TARGETS[self.target]
        if self.shared > 1024 * kib:
            return f"does not fit {kib} KiB"
        wants = cores and "float32" not in self.case and MULTIPLY.search(self.kernel)
        return "no tensor cores" if wants and not self.multiplies else ""

    def __str__(self) -> str:
        name, dtype, dims, _, _, mask, way = self.case.split(":")
        told = self.fault or f"spills {self.spilled} bytes" * (self.spilled >= TOLD)
        shown = (
            f"{self.target:8}{name:9}{dtype:9}{dims:8}{mask:7}{way:9}{self.kernel:23}{self.warps:2} warps "
        )
        return f"{shown}{self.stages} stages{self.shared / 1024:6.0f} KiB  {told}".rstrip()


def compiled_of(target: str, case: str, kernel, log: str) -> Compiled:
    """What came of a kernel, with ptxas's log."""
    meta, cores = kernel.metadata, TARGETS[target][2]
    amd = target.startswith("gfx")
    code = kernel.asm["amdgcn" if amd else "ptx"]
    asked = re.search(r"vgpr_spill_count:\s*(\d+)" if amd else r"(\d+) bytes spill stores", code + log)
    spilled = (4 if amd else 1) * int(asked[1] if asked else 0)
    known = meta.name, meta.num_warps, meta.num_stages, meta.shared, spilled
    found = Compiled(target, case, *known, bool(cores and re.search(cores, code)))
    if amd:
        return found
    cubin = kernel.asm["cubin"]
    machine = disassembled(cubin) if meta.name in TURNING else ""
    return found._replace(
        registers=int(re.search(r"Used (\d+) registers", log)[1]),
        code=code_bytes(cubin),
        traced="%globaltimer" in code,
        waits=waits_in_loops(code, log),
        serialised=re.search(r"C751[0-6]", log) is not None,
        turned=len(re.findall(r"PRMT (R\d+), (R\d+), 0x5432, \2", machine)),
        late=exponentials_under_products(machine),
    )


def code_bytes(cubin: bytes) -> int:
    """Bytes of an ELF file's sections of instructions (flag SHF_EXECINSTR, 4)."""
    (headers,), (count,) = struct.unpack_from("<Q", cubin, 40), struct.unpack_from("<H", cubin, 60)
    sections = [struct.unpack_from("<2I4Q", cubin, headers + 64 * index) for index in range(count)]
    return sum(size for _, _, flags, _, _, size in sections if flags & 4)


def disassembled(cubin: bytes) -> str:
    """The instructions of a kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        disassemble = [knobs.nvidia.nvdisasm.path, "-c", file.name]
        return subprocess.run(disassemble, capture_output=True, text=True, check=True).stdout


def exponentials_under_products(code: str) -> list[int]:
    """Of each consumer's loop over keys: those between the wait for Q K^T and the one for P V."""
    wait = r"WARPGROUP\.DEPBAR\.LE gsb0, "
    return [
        len(re.findall(r"MUFU\.EX2", part)) for part in re.findall(f"{wait}0x1(.*?){wait}0x0", code, re.S)
    ]


def waits_in_loops(ptx: str, log: str) -> int:
    """How often ptxas makes a loop of a partition wait for products where the source does not (C7517)."""
    lines = [int(number) for number in re.findall(r"C7517\) .* around line (\d+)", log)]
    blocks = ["".join(ptx.splitlines(keepends=True)[:line]).split("\n$L__BB")[-1] for line in lines]
    return sum(re.search(r"Depth=[2-9]", block) is not None for block in blocks)  # 1: partitions are called


class OfflineDriver:
    """As much of a driver as compiling asks for, where each target is a device of its own."""

    target = GPUTarget("cuda", 90, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return str(self.target)

    def get_current_stream(self, device):
        return 0


def stand_in() -> None:
    """CPU tensors from now on stand in for a GPU's, whatever it is."""
    check_alike = arguments._check_alike
    arguments._check_alike = lambda tensors, interpreted: check_alike(tensors, True)
    plan.interpreted = lambda: True
    flash2.tma_serves = lambda call, q, k, v: (
        device.device_of(q.device).tma and flash2.served_by_tma(call, q, k, v)
    )
    Algorithm.unserved_device = lambda record, its, interpreted: (
        f"{record.key} is for Hopper" if record.hopper and not device.device_of(its).measured else None
    )


def compiled_for(target: str, cases: Sequence[str]) -> Iterator[Compiled]:
    """The kernels of these cases as a GPU would get them: from now on a launch compiles, and runs nothing."""
    run, before, compiled = JITFunction.run, set(), []

    def only_compile(self, *args, grid, warmup, **kwargs):
        with redirect_stdout(io.StringIO()) as log:
            kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        if kernel.hash not in before:
            before.add(kernel.hash)
            compiled.append((kernel, log.getvalue()))

    kib, warp, _ = TARGETS[target]
    amd = target.startswith("gfx")
    OfflineDriver.target = GPUTarget(
        "hip" if amd else "cuda", target if amd else int(target.removeprefix("sm_")), warp
    )
    driver.set_active(OfflineDriver())
    device.WITHOUT_GPU = Device(target, 1024 * kib)
    backward.tilings.cache_clear()
    for memory in (dispatch._CHOSEN, plan._PLANNED):
        memory.clear()
    JITFunction.run = only_compile
    knobs.nvidia.dump_ptxas_log = knobs.compilation.always_compile = True
    try:
        for case in cases:
            launch_case(*case.split(":"))
            while compiled:
                yield compiled_of(target, case, *compiled.pop(0))
    finally:
        JITFunction.run = run


SHORT, LONG = 256, 2048  # tokens
ALSO_SHORT = {"flash2": (64, 128), "flash3": (64,)}  # head dims at which short ones are in other blocks


def options_of(mask: str, tokens: int) -> dict:
    """Of a call of two heads; where there are all terms, and where what is not there is None."""
    documents = {"documents": [tokens - 156, 156]}
    terms = {"softcap": 30.0, "sinks": torch.zeros(2), "alibi_slopes": torch.ones(2)}
    return {
        "none": {}, "causal": {"causal": True}, "window": {"window": 100}, "wide": {"window": 1024},
        "packed": {"window": 100} | documents, "terms": documents | terms,
    }[mask]  # fmt: skip


def launch_case(algorithm, dtype, head_dim, block_q, block_kv, mask, way) -> None:
    """Every launch of a case."""
    dims = [int(each) for each in head_dim.split("/")]
    blocks = {"block_q": int(block_q) or None, "block_kv": int(block_kv) or None}

    def tensors(heads: int, tokens: int) -> list[torch.Tensor]:
        return [
            torch.zeros(1, heads, tokens, each, dtype=getattr(torch, dtype)) for each in (dims[0], dims[-1])
        ]

    q, v = tensors(2, LONG)
    options = options_of(mask, LONG)
    given = {"algorithm": algorithm, **blocks}
    if way == "cut":  # more tiles than SMs
        (q, _), (k, v) = tensors(140, 128), tensors(1, 4096)
        attention(q, k, v, **given)
    elif way == "trace":
        trace_attention(q, q, v, **given, **options)
    elif way == "backward":
        launch_backward(q, v, Options(**given, **options))
    elif algorithm in LAUNCHES:
        LAUNCHES[algorithm](q, **options)
    else:
        splits = 2 if algorithm == "split_kv" else None  # of its own it would not split so few keys
        attention(q, q, v, splits=splits, **given, **options)
        if dims[0] in ALSO_SHORT.get(algorithm, ()) and "documents" not in options:
            q, v = tensors(2, SHORT)
            attention(q, q, v, **given, **options)


def launch_backward(q, v, options: Options) -> None:
    """The launches of a backward pass: its own, or the one that any algorithm has."""
    terms = None
    if options.documents is not None:
        terms = terms_with(ranges_for(q, q, options), q, options, seen_of(q, q, options))
    mask = options.causal, options.window, None, *options.how[1:4]
    dispatch.gradients(q, q, v, v, torch.empty(q.shape[:3]), v, None, *mask, terms=terms)


def launch_parts(q) -> None:
    """The launches that add up the parts of several ranks: one part, and as many as there may be with lse."""
    call = Call(*q.shape[:2], 2, q.shape[2], *q.shape[2:], False, None, 0.1, "flash2", 64, 64, None)
    lse = torch.zeros(q.shape[:3])
    for count, weighed in ((1, None), (MOST_PARTS, lse)):
        combine([Piece(q, 3 * number, weighed) for number in range(count)], call, q, weighed)


def launch_paged(q, causal=False) -> None:
    """The launches over pages: small ones that a query of each head reads and appends to, large for many.

    At last flash3's, for a chunk over small ones.
    """
    table, held = torch.zeros(1, 64, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    many = q[:, :1, :SHORT].expand(-1, 64, -1, -1).contiguous()
    for rows, page in ((q[:, :, :1], 16), (q[:, :, :SHORT], 128), (many, 16)):
        pool = q.new_zeros(4, page, 1, q.shape[-1])
        new = dict.fromkeys(("k_new", "v_new"), rows[:, :1]) if rows.shape[2] == 1 else {}
        attention_paged(rows, pool, pool, table, held, **new, causal=causal)


def launch_latent(q) -> None:
    """The launches of decoding over a latent: one sequence's, and small pages of several."""
    latent, pool = q[:, :1], q.new_zeros(4, 16, 1, 576)
    attention(q[:, :, :1], latent, latent[..., :512])
    table, held = torch.zeros(1, 64, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    attention_paged(q[:, :, :1], pool, pool[..., :512], table, held)


def launch_selected(q, causal=False) -> None:
    """The launches of chosen blocks: a query to a choice, and a block of them."""
    for block_q in (1, 64):
        blocks = torch.zeros(1, 1, LONG // block_q, 4, dtype=torch.int32)
        attention_selected(q, q[:, :1], q[:, :1], blocks, block_q=block_q, causal=causal)


LAUNCHES = {
    "flash4": lambda q, causal: flash4.forward(q, q, q, causal=causal),
    "parts": launch_parts,
    "paged": launch_paged,
    "latent": launch_latent,
    "selected": launch_selected,
}


def cases_of(groups: Sequence[str]) -> Iterator[str]:
    """Every case of some groups, in blocks of its own."""
    for group in groups:
        for *which, mask, way in product(*(part.split(",") for part in group.split())):
            yield ":".join((*which, "0:0", mask, way))


def main(targets: Sequence[str]) -> int:
    stand_in()
    found = []
    for target in targets or TARGETS:
        for one in compiled_for(target, list(cases_of(EVERYWHERE + ON_HOPPER * (target == "sm_90")))):
            print(one, flush=True)
            found.append(one)
    faults = sum(bool(one.fault) and not one.named for one in found)
    told = sum(one.spilled >= TOLD for one in found)
    print(f"{len(found)} kernels, {faults} faults, {told} that spill {TOLD} bytes of a thread or more")
    return min(1, faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
