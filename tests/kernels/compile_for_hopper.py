"""Compiles every kernel for an H100 or H200 (sm_90) on a machine without a GPU; prints a JSON line a kernel.

FlashAttention-4's is compiled for a B200 (sm_100).

Run by test_compile.py in a process of its own, as Triton either interprets or compiles:
python compile_for_hopper.py [algorithm:dtype:head_dim:block_q:block_kv:mask:pass ...]
"""

import io
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import replace

os.environ["TRITON_INTERPRET"] = "0"

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from kernels import attention, attention_paged, attention_selected, trace_attention
from kernels.algorithms.flash2 import forward as flash2
from kernels.algorithms.flash3 import backward as flash3_backward
from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.flash3 import latent as flash3_latent
from kernels.algorithms.flash3 import paged as flash3_pages
from kernels.algorithms.flash3 import parts as flash3_parts
from kernels.algorithms.fp8 import forward as fp8
from kernels.blackwell import forward as flash4
from kernels.call import arguments
from kernels.call.call import Call
from kernels.call.device import device_of
from kernels.call.key_ranges import seen_of
from kernels.call.options import Options
from kernels.call.terms import Terms, score_of, terms_with
from kernels.dispatch import dispatch
from kernels.distributed.combine import MOST_PARTS, Piece, combine
from kernels.launch.block_times import BlockTimes
from kernels.pages import plan as paged_plan

MASKS = {"none": {}, "causal": {"causal": True}, "window": {"window": 100}, "sides": {"window": (100, 20)}}
MASKS["wide"] = {"window": 128}  # as long as a block of keys
EVERY_TERM = {
    "documents": [100, 156],
    "softcap": 30.0,
    "sinks": torch.zeros(2),
    "alibi_slopes": torch.ones(2),
}
TURNING = ("attention_kernel", "paged_attention_kernel")  # whose P ptxas may pair the wrong way round
MASKS["terms"] = EVERY_TERM
MASKS["documents"] = {"documents": [100, 156]}  # terms alone: what is not there is None


class OfflineDriver:
    """As much of a driver as compiling asks for, where each target is a device of its own."""

    target = GPUTarget("cuda", 90, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return str(self.target)

    def get_current_stream(self, device):
        return 0


def compile_launches(compiled: list) -> None:
    """From now on a launch compiles its kernel, keeps it with ptxas's log in `compiled`, and runs nothing."""
    run, before = JITFunction.run, set()

    def only_compile(self, *args, grid, warmup, **kwargs):
        with redirect_stdout(io.StringIO()) as log:
            kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        if kernel.hash not in before:
            before.add(kernel.hash)
            compiled.append((kernel, log.getvalue()))

    JITFunction.run = only_compile
    knobs.nvidia.dump_ptxas_log = knobs.compilation.always_compile = True
    driver.set_active(OfflineDriver())


def code_bytes(cubin: bytes) -> int:
    """Bytes of an ELF file's sections of instructions (flag SHF_EXECINSTR, 4)."""
    (headers,), (count,) = struct.unpack_from("<Q", cubin, 40), struct.unpack_from("<H", cubin, 60)
    sections = [struct.unpack_from("<2I4Q", cubin, headers + 64 * index) for index in range(count)]
    return sum(size for _, _, flags, _, _, size in sections if flags & 4)


def disassembled(cubin: bytes) -> str:
    """The instructions of a kernel that multiplies by wgmma."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        disassemble = [knobs.nvidia.nvdisasm.path, "-c", file.name]
        code = subprocess.run(disassemble, capture_output=True, text=True, check=True).stdout
    assert "HGMMA" in code
    return code


def turned_pairs(code: str) -> int:
    """Instructions that swap the halves of a register: pairs of 16-bit numbers made the wrong way round."""
    return len(re.findall(r"PRMT (R\d+), (R\d+), 0x5432, \2", code))


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


def resources(kernel, log: str) -> dict:
    """Registers a thread, bytes of spill stores, shared memory and code, what multiplies the matrices."""
    ptx = kernel.asm["ptx"]
    code = disassembled(kernel.asm["cubin"]) if kernel.metadata.name in TURNING else ""
    spilled = re.search(r"(\d+) bytes spill stores", log)
    return {
        "kernel": kernel.metadata.name,
        "registers": int(re.search(r"Used (\d+) registers", log)[1]),
        "spilled": int(spilled[1]) if spilled else 0,
        "shared": kernel.metadata.shared,
        "code": code_bytes(kernel.asm["cubin"]),
        "warps": kernel.metadata.num_warps,
        "traced": "%globaltimer" in ptx,
        "tensor_cores": any(word in ptx for word in ("wgmma.mma_async", "mma.sync", "tcgen05.mma")),
        "waits": waits_in_loops(ptx, log),
        "serialised": re.search(r"C751[0-6]", log) is not None,
        "turned": turned_pairs(code),
        "late": exponentials_under_products(code),
    }


def call_of(q, causal=False, window=None, **other) -> Call:
    """A call of q, k and v alike."""
    call = Call(*q.shape[:2], 2, q.shape[2], *q.shape[2:], causal, window, 0.1, "flash3", 128, 64, None)
    return replace(call, causal=causal or window is not None, **other)


def launch_flash3(q, times=None, causal=False, window=None, **every_term) -> None:
    """flash3's launch in the tilings for many keys and for few; or with every term that there is."""
    lse = torch.empty(q.shape[:3])
    if every_term:
        options, call = Options(**every_term), call_of(q)
        terms = terms_with(None, q, options, seen_of(q, q, options))
        flash3._launch(q, q, q, torch.empty_like(q), lse, False, None, score_of(call, terms), times, terms)
        return
    for few_keys in (0, math.inf) if q.shape[-1] in flash3.FEW_KEYS_TILING else (0,):
        flash3.FEW_KEYS = few_keys
        flash3._launch(q, q, q, torch.empty_like(q), lse, causal or window is not None, window, 0.1, times)


def launch_flash3_cut(q) -> None:
    """flash3's launch with its last tiles in pieces, and the one that merges them."""
    call = call_of(q, cut=flash3_parts.Cut(2, 2, 4, 2, 4, 128))
    room, out, lse = call.cut.room(q), torch.empty_like(q), torch.empty(q.shape[:3])
    flash3_parts._launch_cut(q, q, q, out, lse, room, call)
    flash3_parts._merge(room, out, lse, call)


def launch_flash3_backward(q, causal=False, window=None, **every_term) -> None:
    """The launches of flash3's backward pass, where key blocks are shared and where not; or with terms."""
    call, terms = call_of(q, causal, window, algorithm="flash2"), None
    if every_term:
        options = Options(**every_term)
        terms = terms_with(None, q, options, seen_of(q, q, options))
    for processors in (1, 16):
        differentiate = flash3_backward._Pass(call, terms, processors)
        differentiate(q, q, q, q, torch.empty(q.shape[:3]), q, None, terms)


def launch_fp8(q, causal=False) -> None:
    """The launches of attention in FP8: those that quantise and rotate, and the one that attends."""
    fp8.fp8(q, q, q, call_of(q, causal, algorithm="fp8"))


def launch_flash2_backward(q, v, blocks, causal=False, window=None, **every_term) -> None:
    """The launches of the backward pass of flash2; with documents, of every term that there is."""
    terms = None
    if every_term:
        ranges = torch.zeros(len(q), 3, q.shape[2], dtype=torch.int32)
        slopes = every_term["alibi_slopes"][None]
        terms = Terms(ranges, every_term["sinks"], slopes, every_term["softcap"])
    how = causal, window, None, "flash2", blocks["block_q"], blocks["block_kv"]
    dispatch.gradients(q, q, v, v, torch.empty(q.shape[:3]), v, None, *how, terms=terms)


def launch_parts(q) -> None:
    """The launches that add up the parts of several ranks: one part, and as many as there may be with lse."""
    call, lse = call_of(q, algorithm="flash2", block_q=64), torch.zeros(q.shape[:3])
    for count, weighed in ((1, None), (MOST_PARTS, lse)):
        combine([Piece(q, 3 * number, weighed) for number in range(count)], call, q, weighed)


def launch_paged(q, causal=False) -> None:
    """The launches over pages: small ones that a query of each head reads and appends to, large for many.

    At last flash3's, for a chunk over small ones.
    """
    table, held = torch.zeros(1, 64, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    for rows, page in ((q[:, :, :1], 16), (q, 128)):
        pool = q.new_zeros(4, page, 1, q.shape[-1])
        new = dict.fromkeys(("k_new", "v_new"), rows[:, :1]) if page == 16 else {}
        attention_paged(rows, pool, pool, table, held, **new, causal=causal)
    pool = q.new_zeros(4, 16, 1, q.shape[-1])
    if not device_of(q.device).measured:
        return
    call = call_of(q, causal, kv_heads=1, seq_kv=1024, algorithm="", splits=1)
    flash3_pages._launch(q, pool, pool, torch.empty_like(q), torch.empty(q.shape[:3]), table, held, call, 0)


def launch_latent(q) -> None:
    """The launches of decoding over a latent: one sequence's, and small pages of several."""
    call = call_of(q, kv_heads=1, seq_q=1, v_dim=512, splits=2)
    outputs = torch.empty(2, 1, 2, 1, 512), torch.empty(2, 1, 2, 1)
    flash3_latent._launch(q[:, :, :1], q[:, :1], *outputs, call=call)
    table, held = torch.zeros(1, 64, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    flash3_latent._launch(q[:, :, :1], q.new_zeros(4, 16, 1, 576), *outputs, table, held, call=call)


def launch_selected(q, causal=False) -> None:
    """The launches of chosen blocks: a query to a choice, and a block of them."""
    for block_q in (1, 64):
        blocks = torch.zeros(1, 1, 256 // block_q, 4, dtype=torch.int32)
        attention_selected(q, q[:, :1], q[:, :1], blocks, block_q=block_q, causal=causal)


def launch_flash4(q, causal=False) -> None:
    """The launch of Blackwell's kernel, compiled for a B200."""
    hopper, OfflineDriver.target = OfflineDriver.target, GPUTarget("cuda", 100, 32)
    flash4.forward(q, q, q, causal=causal)
    OfflineDriver.target = hopper


LAUNCHES = {
    ("flash4", "forward"): launch_flash4,
    ("selected", "forward"): launch_selected,
    ("latent", "forward"): launch_latent,
    ("parts", "forward"): launch_parts,
    ("paged", "forward"): launch_paged,
    ("fp8", "forward"): launch_fp8,
    ("flash3", "forward"): launch_flash3,
    ("flash3", "trace"): lambda q, **mask: launch_flash3(q, BlockTimes(), **mask),
    ("flash3", "cut"): launch_flash3_cut,
    ("flash3", "backward"): launch_flash3_backward,
}


def stand_in() -> None:
    """CPU tensors from now on stand in for a GPU's, also where a launch asks the GPU for a counter."""
    check_alike = arguments._check_alike
    arguments._check_alike = lambda tensors, interpreted: check_alike(tensors, True)
    paged_plan.interpreted = lambda: True
    flash2.tma_serves = lambda call, q, k, v: device_of(q.device).tma and flash2.served_by_tma(call, q, k, v)
    for module in (flash3, flash3_parts, flash3_pages):
        module.zeroed_counter = lambda device: torch.zeros(1, dtype=torch.int32)


def launch_case(algorithm, dtype, head_dim, block_q, block_kv, mask, direction) -> None:
    dims = [int(each) for each in head_dim.split("/")]  # of Q and K, and of V where it has another
    q, v = (torch.zeros(1, 2, 256, each, dtype=getattr(torch, dtype)) for each in (dims[0], dims[-1]))
    blocks = {"block_q": int(block_q) or None, "block_kv": int(block_kv) or None}
    given = {"algorithm": algorithm, **blocks, **MASKS[mask]}
    if (algorithm, direction) in LAUNCHES:
        LAUNCHES[algorithm, direction](q, **MASKS[mask])
    elif direction == "backward":
        launch_flash2_backward(q, v, blocks, **MASKS[mask])
    elif direction == "trace":
        trace_attention(q, q, q, **given)
    else:
        splits = 2 if algorithm == "split_kv" else None  # of its own it would not split so few keys
        attention(q, q, v, splits=splits, **given)
        if algorithm == "flash2" and mask not in ("terms", "documents"):
            many = q.repeat(1, 1, 8, 1)  # for which flash2 has other blocks of its own
            attention(many, many, v.repeat(1, 1, 8, 1), **given)


def main(cases: list[str], compiled: list | None = None) -> None:
    """compiled: where launches are kept already, if they are."""
    if compiled is None:
        stand_in()
        compile_launches(compiled := [])
    for case in cases:
        launch_case(*case.split(":"))
        while compiled:
            print(json.dumps({"case": case, **resources(*compiled.pop(0))}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
