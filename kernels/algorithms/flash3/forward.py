"""FlashAttention-3's forward pass on Hopper: its tilings, and its launch."""

import math
from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import cache

import torch

from kernels.call.call import Call
from kernels.call.device import outer_strides
from kernels.call.key_ranges import Seen
from kernels.call.terms import Terms, score_of
from kernels.call.value_checks import remember
from kernels.launch.block_times import BlockTimes
from kernels.launch.launch import address, multiprocessors, on_device, output_like
from kernels.launch.relaunch import Relaunch, current_stream
from kernels.tilings.flash3 import (
    FEW_KEYS,
    FEW_KEYS_TILING,
    TILING,
    V_TILING,
    heads_together,
    padded,
    tail_columns,
    value_columns,
)

# columns of Q that a consumer keeps in registers: wgmma reads less shared memory; as measured, without a mask
HELD_COLUMNS = {64: 0, 128: 128, 256: 64}
CAUSAL_HELD_COLUMNS = {64: 0, 128: 64, 256: 128}  # the same where causal without a window, as the next two
FEW_HELD_COLUMNS = {64: 0, 128: 0, 256: 128}  # those of packed sequences, and of fewer keys than
HELD_KEYS = 1024  # that a query sees on average
PAIRED, WINDOW_PAIRED = (64, 256), (64,)  # head dims at which P is rounded in pairs, by hand
# without a window maxima are taken in several chains; where causal the producer places tiles for consumers
SHORT_WAITS = (64,)
# of `Schedule`, where consumers have key blocks of their own and nothing else is known
ANYWHERE = {"EDGES": "anywhere", "SKIPS": True, "HELD": 0, "TRACED": False, "STAGED": False, "PIECES": 1}
ANYWHERE |= dict.fromkeys(("WINDOWED", "SHIFTED", "WIDE", "PAIRED", "CHAINS", "PLACED", "ALL_SEE"), False)
PLAIN = Terms(None)
WHOLE = Seen((None, None))
NO_TENSORS = (None,) * 5  # of terms: sinks, slopes, O as a pointer, and where packed sequences begin
NO_NUMBERS = (None,) * 4
EARLY_KEYS = 1024  # of packed sequences on average: up to there the next tile is drawn before the last copies
COUNTERS = 1024  # filled at a time
COUNTER_BYTES = 16  # from one to the next: Triton compiles anew for a pointer that is no multiple of them


def flash3(
    q, k, v, call: Call, times: BlockTimes | None = None, terms: Terms | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `Algorithm.forward`, of what flash3 serves; the call's memory keeps the launch."""
    scale, memory = call.scale, call.memory
    if scale <= 0:  # the kernel scales after taking the maximum, which needs a positive scale
        q, scale = q * math.copysign(scale != 0, scale), -scale or 1.0
    out = torch.empty_like(q) if call.v_dim is None else output_like(q, v)
    alike = "flash3" if terms is None else terms.kind
    if times is None and memory and (known := memory.get(alike)):
        return out, known(q, k, v, out, *(() if terms is None else tensors_of(terms, out)))
    rows = tuple(q.shape[:3])
    lse = torch.empty(rows, dtype=torch.float32, device=q.device)
    if terms is None:
        again = _launch(q, k, v, out, lse, call.causal, call.window, scale, times)
    else:
        causal, window = plain_part(terms.seen)
        again = _launch(q, k, v, out, lse, causal, window, score_of(call, terms), times, terms)
    if again is not None and times is None:
        tails = tail_columns(call.head_dim, call.out_dim) is not None
        remember(memory, alike, _known(again, rows, tails))  # there may be as many as numbers of sequences
    return out, lse


def _known(launch: Relaunch, rows: tuple[int, ...], tails: bool) -> Callable:
    """What does a launch again: (q, k, v, out, *tensors of terms) -> lse."""

    def again(q, k, v, out, *others):
        lse = torch.empty(rows, dtype=torch.float32, device=q.device)
        _held, counter = next_counter(q.device)
        both = (k, v) if tails else ()
        launch(*map(address, (q, k, v, out, *both, lse)), counter, *map(address, others))
        return lse

    return again


def tensors_of(terms: Terms, out: torch.Tensor) -> list[torch.Tensor]:
    """Those that the kernel reads or, where sequences end within tiles, writes; in order, without None."""
    seen = terms.seen
    each = terms.sinks, terms.slopes, None if seen.starts is None else out, seen.starts, seen.key_starts
    return [tensor for tensor in each if tensor is not None]


def plain_part(seen: Seen) -> tuple[bool, int | None]:
    """causal and window as the kernel takes them, which knows of keys behind a query's own beside."""
    left, right = seen.sides
    return right is not None, None if left is None else left + 1


def tiling(head_dim: int, seq_q: int, seq_kv: int, causal: bool, window: int | None) -> dict:
    """The kernel's blocks, buffers and registers for a problem, window implying causal."""
    few = keys_seen(seq_q, seq_kv, causal, window) < FEW_KEYS
    head_dim = padded(head_dim)
    return (FEW_KEYS_TILING if few else {}).get(head_dim, TILING[head_dim])


def keys_seen(seq_q: int, seq_kv: int, causal: bool, window: int | None) -> int:
    """Keys that a query sees on average, about, window implying causal."""
    keys = seq_kv - min(seq_q, seq_kv) // 2 if causal else seq_kv
    return keys if window is None else min(keys, window)


def _launch(
    q, k, v, out, lse, causal, window, scale, times: BlockTimes | None = None, terms: Terms = PLAIN
) -> Relaunch | None:
    """Start one block of threads an SM, or one a tile if there are fewer; returns what does so again."""
    from kernels.hopper.forward import attention_kernel

    programs, descriptors, arguments = _prepared(q, k, v, out, causal, window, scale, terms)
    arguments["TRACED"] = times is not None
    tiles = arguments["batch_heads"] * arguments["query_blocks"]
    blocks = times and times.room("attention", tiles, q.device)
    seen = terms.seen or WHOLE
    others = None
    if arguments["OTHERS"]:
        packed = None if seen.starts is None else out
        others = (None, None, terms.sinks, terms.slopes, packed, seen.starts, seen.key_starts)
    tensors = (*descriptors, lse, zeroed_counter(q.device), blocks, others)
    return started(attention_kernel, programs, tensors, compiled_for(arguments))


def relaunched(memory: dict, name: str, first: Callable, tensors: tuple, others: tuple | None = ()) -> None:
    """Start what `first` starts and gives, kept by this name; from then on by the tensors' addresses alone.

    A counter stands between the tensors and the others, but where these are None.
    """
    if again := memory.get(name):
        if others is None:
            again(*map(address, tensors))
        else:
            _held, counter = next_counter(tensors[0].device)
            again(*map(address, tensors), counter, *map(address, others))
    else:
        memory[name] = first()


def compiled_for(arguments: dict) -> dict:
    """The arguments as a kernel in Gluon takes them: what it is compiled for, in capitals, as one record."""
    known = {name: value for name, value in arguments.items() if name.isupper()}
    others = {name: value for name, value in arguments.items() if name not in known}
    return {**others, "HOW": namedtuple("How", known)(**known)}


def started(
    kernel, programs: int, tensors: tuple, arguments: dict, num_warps=4, **options
) -> Relaunch | None:
    """Start a kernel by way of Triton; returns what does so again, None from a stand-in."""
    with on_device(getattr(tensors[0], "base", tensors[0]).device):
        compiled = kernel[(programs,)](*tensors, **arguments, num_warps=num_warps, **options)
    if compiled is None:
        return None
    return Relaunch(
        compiled, programs, tensors, [arguments[name] for name in kernel.arg_names[len(tensors) :]]
    )


def _prepared(q, k, v, out, causal, window, scale, terms: Terms = PLAIN) -> tuple[int, list, dict]:
    """Blocks of threads, descriptors of the tensors, and the kernel's named arguments."""
    from kernels.hopper.warp_group import ROWS

    batch, heads, seq_q, head_dim = q.shape
    kv_heads, seq_kv, v_dim = v.shape[1:]
    seen = terms.seen or WHOLE
    sequences = None if seen.starts is None else len(seen.starts) - 1
    rows, keys = (seq_q, seq_kv) if sequences is None else _typical(seen, seq_q, seq_kv)
    window = window if window is not None and window < seq_kv else None
    ahead = min(seen.sides[1] or 0, seq_q + seq_kv)
    if v_dim == head_dim:
        chosen = dict(tiling(head_dim, rows, keys, causal, window and window + ahead))
    else:
        chosen = dict(V_TILING[head_dim, v_dim])
    block_kv, pieces = chosen.pop("BLOCK_KV"), chosen.pop("PIECES", 1)
    heads_per_kv_head = heads // kv_heads
    bytes_of_keys = 2 * min(window or keys, keys) * head_dim * k.element_size()  # that a query sees
    block_q = ROWS.value * chosen["CONSUMERS"]
    # of packed sequences at most one is cut more for each of them and what follows, see `Schedule.placed`
    query_blocks = -(-seq_q // block_q) if sequences is None else seq_q // block_q + sequences + 1
    scale_log2, cap = (scale * math.log2(math.e), None) if terms.seen is None else scale
    ways = _ways(padded(head_dim), rows, keys, causal, window, block_kv, terms=terms, **chosen)
    if pieces > 1:  # as measured
        ways["PLACED"] = causal and not window and sequences is None
    prefix = None if seen.prefix is None else min(seen.prefix, seq_kv)
    out_strides = None if sequences is None else out.stride()
    columns = -(-head_dim // 16) * 16  # that products are of
    tail = tail_columns(head_dim, v_dim)
    while ways["HELD"] > (columns if pieces == 1 else 64):
        ways["HELD"] //= 2
    if tail and ways["HELD"]:
        ways |= _with_tail(padded(head_dim) // 2, tail, causal)
    arguments = {
        "batch_heads": batch * heads,
        "heads_per_kv_head": heads_per_kv_head,
        "heads_together": heads_together(batch * kv_heads, heads_per_kv_head, bytes_of_keys),
        "query_blocks": query_blocks,
        "window": window or 0,
        "score": (scale_log2, cap, None if terms.slopes is None else math.log2(math.e) / scale_log2),
        "parts": (None, None, None),
        "beyond": None if terms.seen is None else (ahead or None, prefix, sequences, out_strides),
        "OTHERS": terms.seen is not None,
        "EARLY": keys <= EARLY_KEYS,
        "COLUMNS": columns,
        "STAGED": pieces > 1,
        "V_COLUMNS": value_columns(v_dim, causal or tail is not None),
        "PIECES": pieces,
        **chosen,
        **ways,
    }
    first = 64 if pieces > 1 else padded(head_dim) // 2 if tail else None
    descriptors = [
        _descriptor(q, ROWS.value, 64 if pieces > 1 else None),
        _descriptor(k, block_kv, first),
        _descriptor(v, block_kv, first if tail else None),
        _descriptor(out, ROWS.value, v_dim // 2 if pieces > 1 else None),
        *([_descriptor(one, block_kv, tail) for one in (k, v)] if tail else (None, None)),
    ]
    return min(multiprocessors(q.device), batch * heads * query_blocks), descriptors, arguments


def _with_tail(half: int, tail: int, causal: bool) -> dict:
    """Ways that are another where all of O takes two products a key block, as measured without a window."""
    if half > 64:
        return {"PAIRED": False, "HELD": 64 if causal and tail == 64 else half}
    if causal:
        return {"PAIRED": tail == 16, "HELD": 32 if tail == 16 else 64}
    return {"PAIRED": True, "HELD": half, "CHAINS": tail == 16, "TURNS": True}


def _typical(seen: Seen, seq_q: int, seq_kv: int) -> tuple[int, int]:
    """Queries and keys of a sequence of the mean length: as many where they are packed alike."""
    sequences = max(len(seen.starts) - 1, 1)
    keys = max(seq_kv // sequences, 1)
    return keys if seen.starts is seen.key_starts else max(seq_q // sequences, 1), keys


def _ways(
    head_dim, seq_q, seq_kv, causal, window, block_kv, CONSUMERS, TURNS, terms: Terms = PLAIN, **_
) -> dict:
    """What `Schedule` and the kernel are compiled for: the mask, and ways to compute the same."""
    from kernels.hopper.warp_group import ROWS

    seen = terms.seen or WHOLE
    packed = seen.starts is not None
    # what is not known of packed sequences, and not worked out for keys behind a query's own
    known = not (seen.sides[1] or seen.prefix) and (not packed or seen.starts is seen.key_starts)
    ahead = seq_kv - seq_q
    wide = window is not None and window >= block_kv
    # not where a window is up to 64 keys longer than whole blocks: every second tile would take a block more
    shifted = TURNS and causal and wide and ahead >= 0 and (window - 1) % block_kv >= ROWS.value
    shifted = shifted and known and not packed
    aligned = not causal or (known and ahead % ROWS.value == 0)
    edges = _edges(seq_q, seq_kv, causal, window, block_kv, CONSUMERS, TURNS)
    if not known or (packed and TURNS):
        edges = "anywhere"
    own_blocks = shifted or edges == "anywhere"
    short_waits = own_blocks and head_dim in SHORT_WAITS
    held = HELD_COLUMNS
    if causal:
        few = packed or keys_seen(seq_q, seq_kv, True, window) < HELD_KEYS
        held = FEW_HELD_COLUMNS if few else CAUSAL_HELD_COLUMNS
    return {
        "CAUSAL": causal,
        "WINDOWED": window is not None,
        "ALIGNED": aligned or shifted,
        "EDGES": edges,
        "SHIFTED": shifted,
        "WIDE": causal and known and wide and (shifted or not TURNS),
        "HELD": 0 if window else held[head_dim],
        "SKIPS": own_blocks,
        "PAIRED": packed or (causal and own_blocks and head_dim in (WINDOW_PAIRED if window else PAIRED)),
        "CHAINS": short_waits and not window,
        "PLACED": short_waits and causal and (shifted or not window) and not packed,
        # not said where it made the code no faster, as measured
        "ALL_SEE": TURNS and causal and not window and aligned and ahead >= 0 and not packed,
    }


def _edges(seq_q, seq_kv, causal, window, block_kv, CONSUMERS, TURNS) -> str:
    """EDGES of `Schedule`; without a window turns want what consumers skip."""
    from kernels.hopper.warp_group import ROWS

    ahead = seq_kv - seq_q
    step = ROWS.value if TURNS else block_kv  # of tiles, against key blocks
    between = causal and ahead >= 0 and ahead % step == 0 and (window or 0) % block_kv == 0
    if not between or (window is None if TURNS else block_kv != CONSUMERS * ROWS.value):
        return "anywhere"
    few = window is None and keys_seen(seq_q, seq_kv, True, window) < FEW_KEYS
    return "halved" if few else "between"


def _descriptor(tensor: torch.Tensor, rows: int, columns: int | None = None):
    """A TMA descriptor of blocks of `rows` rows of one head, padded, or of so many columns of them."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    block = (1, 1, rows, columns or padded(tensor.shape[-1]))
    layout = _block_layout(block, tensor.dtype)
    return TensorDescriptor(tensor, list(tensor.shape), [*outer_strides(tensor), 1], list(block), layout)


@cache
def _block_layout(block: tuple[int, ...], dtype: torch.dtype):
    from triton.experimental.gluon import language as gl

    gluon_dtypes = {
        torch.float16: gl.float16,
        torch.bfloat16: gl.bfloat16,
        torch.float8_e4m3fn: gl.float8e4nv,
    }
    return gl.NVMMASharedLayout.get_default_for(list(block), gluon_dtypes[dtype])


_counters: dict[int, tuple[torch.Tensor, Iterator[int]]] = {}  # by device, and where the unused ones are


def zeroed_counter(device: torch.device) -> torch.Tensor:
    """An int32 of 0, for the one launch that goes by way of Triton."""
    return torch.zeros(1, dtype=torch.int32, device=device)


def next_counter(device: torch.device) -> tuple[torch.Tensor, int]:
    """An int32 of 0 that no other launch uses: what it lies in, to be held until the launch, and its address.

    They are filled by the thousand, as a fill is a launch of its own. Not so on streams of the user's: a CUDA
    graph has to replay the fill with the launch, and where torch.compile makes graphs, it lets nothing
    outlive a call on its stream.
    """
    if current_stream(device.index):
        counter = zeroed_counter(device)
        return counter, counter.data_ptr()
    counters, unused = _counters.get(device.index, (None, iter(())))
    if (counter := next(unused, None)) is None:
        counters = torch.zeros(COUNTERS * COUNTER_BYTES // 4, dtype=torch.int32, device=device)
        first = counters.data_ptr()
        unused = iter(range(first, first + COUNTERS * COUNTER_BYTES, COUNTER_BYTES))
        _counters[device.index], counter = (counters, unused), next(unused)
    return counters, counter
