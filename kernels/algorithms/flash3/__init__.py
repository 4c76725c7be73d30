"""FlashAttention-3 (Shah et al., arXiv 2407.08608) on Hopper: what the host does for `kernels.hopper`."""

from dataclasses import replace

import torch

from kernels.algorithms.flash3 import latent
from kernels.algorithms.flash3.backward import flash3_backward, pays, unserved
from kernels.algorithms.flash3.forward import flash3
from kernels.algorithms.flash3.parts import cut_of, flash3_cut, flash3_split, split_count
from kernels.algorithms.record import EVERY, Algorithm, Asked, Backward, Tensors
from kernels.algorithms.split_kv import visible_keys
from kernels.call.arguments import LATENT
from kernels.call.call import Call
from kernels.call.device import DTYPES, unserved_strides
from kernels.call.terms import SHORT_DOCUMENT
from kernels.tilings.flash3 import STEP, TILING, V_TILING

SERVED = EVERY - {"ranges", "fine_softcap"}
HEAD_DIMS = range(min(TILING), max(TILING) + 1, STEP)
SHORT = 256  # keys up to which flash2 is done before flash3 where each SM has one program, on an H200
FEW_QUERIES = 64  # one warp group's rows: flash3 has two or three of those
FEW_QUERIES_KEYS = 1024  # up to which flash2 was measured to be faster for so few queries


def attend(q, k, v, call: Call, times=None, terms=None) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, lse), by parts of the keys or with the last tiles cut where the call says so."""
    if call.head_dim == LATENT[0]:
        return latent.flash3_latent(q, k, v, call, terms=terms)
    plain = times is None and terms is None
    if call.splits not in (None, 1) and plain:
        return flash3_split(q, k, v, call)
    if call.cut is not None and plain:
        return flash3_cut(q, k, v, call)
    return flash3(q, k, v, call, times, terms)


def prepared(call: Call, own_blocks: bool, tensors: Tensors, processors: int) -> Call:
    """With its last tiles cut, unless splits say that tiles stay whole; a latent's keys always split."""
    if call.head_dim == LATENT[0]:
        return replace(call, splits=latent.split_count(call, processors))
    return call if call.splits is not None else replace(call, cut=cut_of(call, processors))


def offered_in_parts(own: Call, asked: Asked) -> tuple[Call, str] | None:
    """Where tiles are too few for the SMs, and where all heads share a latent."""
    if own.head_dim == LATENT[0]:
        return own, "it reads the latent that all heads share once, as K and as V"
    splits = split_count(own, asked.processors)
    if splits is None or asked.features:
        return None
    reason = f"it splits the keys of each tile in {splits}, so that most SMs have a part"
    return replace(own, splits=splits, cut=None), reason


def offered(own: Call, asked: Asked) -> tuple[Call, str] | str:
    """Everywhere but where flash2 is done first: that one's reason then."""
    if "short_documents" in asked.features:
        return f"documents of fewer than {SHORT_DOCUMENT} queries on average share tiles in flash2"
    reason = _flash2_first(asked.call, asked.fallback.programs, asked.processors)
    return reason or (own, "auto prefers it on a Hopper GPU")


def _flash2_first(call: Call, programs: int, processors: int) -> str | None:
    keys = visible_keys(call)
    at_once = call.programs <= processors
    if at_once and keys <= SHORT:
        return f"for {keys} keys and {programs} programs flash3 takes longer to start"
    if call.seq_q > FEW_QUERIES or keys > FEW_QUERIES_KEYS:
        return None
    if (keys > 2 * SHORT) if call.head_dim <= 64 else at_once:
        return f"for {call.seq_q} queries and {keys} keys most of flash3's larger tiles would be empty"
    return None


def unserved_tensors(q, k, v) -> str | None:
    """One sentence on why their head dims or layouts are not served, or None where they are."""
    head_dim, v_dim = q.shape[-1], v.shape[-1]
    if (head_dim, v_dim) == LATENT:
        return latent.unserved(q, k, v) or unserved_strides(q, k, v)
    if v_dim != head_dim and (head_dim, v_dim) not in V_TILING:
        own = " or ".join(f"{those} beside {columns}" for columns, those in V_TILING)
        return f"flash3 takes V of the head_dim of Q and K, or of {own}, got {v_dim} and {head_dim}"
    if head_dim not in HEAD_DIMS:
        least, most = HEAD_DIMS[0], HEAD_DIMS[-1]
        return f"flash3 takes a head_dim of {least} to {most} in steps of {STEP}, got {head_dim}"
    return unserved_strides(q, k, v)


ALGORITHM = Algorithm(
    key="flash3",
    order=3,
    forward=attend,
    serves=SERVED,
    dtypes=DTYPES,
    hopper=True,
    layout=unserved_tensors,
    chooses_blocks=True,
    most_splits=1,
    prepared=prepared,
    offers={1: offered_in_parts, 3: offered},
    backward=Backward(flash3_backward, unserved, pays, SERVED - {"short_documents"}),
    differentiable=True,
    takes_seen=True,
    again=lambda call, terms: call.memory.get(terms.kind),
    traced=True,
)
