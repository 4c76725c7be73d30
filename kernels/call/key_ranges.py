"""The keys that every query sees, as the kernels take them: int32 [batch, 3, queries], see `tile.scores`.

All masks end here. A query belongs to a document, a run of keys, and stands at a key position; of its
document it sees the keys from `left` before its position to `right` after it, None being without end.
Everything is computed on the tensors' device, so that lengths which lie there are never waited for.
"""

from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from kernels.call.arguments import check_window
from kernels.call.options import BEYOND_PLAIN, Options, Side, Window
from kernels.call.value_checks import flag, remember

Sides = tuple[Side, Side]  # keys before and after a query's own, None without end
FIRST_TERM = Options._fields.index(BEYOND_PLAIN[0])  # they stand side by side
ENDLESS = 2**40  # keys: more than there are
END_OF_TERMS = FIRST_TERM + len(BEYOND_PLAIN)
_RANGES: dict[tuple, torch.Tensor] = {}


class Seen(NamedTuple):
    """What queries see, in so few numbers that a kernel makes of them what every query sees.

    sides as `window_sides` gives them; prefix: the first keys, which all see. With starts and key_starts
    sequences are packed end to end: where each begins among the queries and among the keys, and the last
    one's end, [sequences + 1].
    """

    sides: Sides
    prefix: int | None = None
    starts: torch.Tensor | None = None
    key_starts: torch.Tensor | None = None


def window_sides(causal: bool, window: Window) -> Sides:
    """(left, right): the keys before and after a query's position that it sees, None without end."""
    if window is None:
        return None, 0 if causal else None
    if not isinstance(window, tuple | list):
        return int(window) - 1, 0
    left, right = window
    return None if left is None else int(left), 0 if causal else None if right is None else int(right)


def plain_mask(options: Options) -> tuple | None:
    """(causal, window) that say all that is asked for, or None where it takes ranges, or any of the terms."""
    causal, window = options.causal, options.window
    if not isinstance(causal, int):
        causal = flag("causal", causal)
    for term in options[FIRST_TERM:END_OF_TERMS]:  # a generator would take longer than all else here
        if term is not None:
            return None
    if not isinstance(window, tuple | list):
        return bool(causal), window
    check_window(window)
    left, right = window_sides(causal, window)
    if right == 0:
        return True, None if left is None else left + 1
    return (False, None) if left is right is None else None


def late_see_more(options: Options) -> bool:
    """Whether late queries see more keys than early ones."""
    return window_sides(options.causal, options.window)[1] == 0


def ranges_for(q, k, options: Options, traced: bool = False) -> torch.Tensor:
    """What every query sees; the options are checked. traced: by PyTorch, which must see their making."""
    documents = None if options.documents is None else tuple(map(int, options.documents))
    sides = window_sides(options.causal, options.window)
    known = q.shape[2], k.shape[2], sides, documents, options.prefix, q.device
    ranges = ranges_of(*known) if traced else _remembered(ranges_of, *known)
    return ranges.expand(q.shape[0], -1, -1).contiguous()


def _remembered(make: Callable[..., torch.Tensor], *arguments) -> torch.Tensor:
    """Made once for a stream; what a CUDA graph makes or torch.func wraps is not kept."""
    *_, device = arguments
    on_gpu = device.type == "cuda"
    alike = make, *arguments, on_gpu and torch.cuda.current_stream(device).cuda_stream
    found = _RANGES.get(alike)
    if found is None:
        with torch.inference_mode(False):  # a tensor made in that mode would not serve training later
            found = make(*arguments)
        capturing = on_gpu and torch.cuda.is_current_stream_capturing()
        if not capturing and not is_functorch_wrapped_tensor(found):
            remember(_RANGES, alike, found)
    return found


def seen_of(q, k, options: Options) -> Seen:
    """What the queries of a call see; the options are checked."""
    starts = None, None
    if options.documents is not None:
        documents = tuple(map(int, options.documents))
        rows = _remembered(_starts_of, q.shape[2], k.shape[2], documents, q.device).unbind()
        starts = rows[0], rows[-1]
    return Seen(window_sides(options.causal, options.window), options.prefix, *starts)


def _starts_of(seq_q: int, seq_kv: int, documents: tuple[int, ...], device) -> torch.Tensor:
    """Where documents begin among the queries and among the keys; one row where both are the same."""
    edges = _edges(documents, device)
    if seq_q == seq_kv:
        return edges[None]
    # queries before the first key belong to the first document
    return torch.stack([torch.where(edges > 0, (edges - (seq_kv - seq_q)).clamp(0, seq_q), 0), edges])


def ranges_of(
    seq_q: int, seq_kv: int, sides: Sides, documents: tuple[int, ...] | None, prefix: int | None, device
) -> torch.Tensor:
    """Of one sequence, whose last query stands at its last key, cut into documents of so many keys if any."""
    position = torch.arange(seq_kv - seq_q, seq_kv, device=device)
    begin, end = 0, seq_kv
    if documents is not None:
        edges = _edges(documents, device)
        document = torch.searchsorted(edges, position.clamp(0, seq_kv - 1), right=True)
        begin, end = edges[document - 1], edges[document]
    first, stop = _within(position, sides, begin, end)
    if prefix is not None:
        stop = stop.clamp(min=min(prefix, seq_kv))
    return torch.stack([first, stop, position])[None].int()


def ranges_of_packed(
    cu_seqlens_q, cu_seqlens_k, total_q: int, total_k: int, sides: Sides, told: bool = False
) -> torch.Tensor:
    """Of sequences packed end to end: where each begins among the queries and among the keys, and the total.

    The last query of each stands at its last key. Queries past the last sequence see nothing; where they are
    `told`, their first key lies behind their end.
    """
    query = torch.arange(total_q, device=cu_seqlens_q.device)
    # what lies on a GPU may be anything: it must not lead out of the keys
    edges = torch.stack([cu_seqlens_q, cu_seqlens_k.clamp(0, total_k)]).long()
    sequence = torch.searchsorted(edges[0], query, right=True)
    edges = torch.cat([edges, edges[:, -1:]], 1)
    begin, (stop, end) = edges[1][sequence - 1], edges[:, sequence]
    position = end - stop + query
    first, stop = _within(position, sides, begin, end)
    if told:
        first = first + (query >= edges[0, -1])
    return torch.stack([first, stop, position])[None].int()


def _edges(documents: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """[documents + 1] where each begins, and where the last ends."""
    edges = [0, *accumulate(documents)]
    capturing = device.type == "cuda" and not torch.compiler.is_compiling()
    if not (capturing and torch.cuda.is_current_stream_capturing()):
        return torch.tensor(edges, device=device)
    filled = torch.empty(len(edges), dtype=torch.long, device=device)  # a graph takes no copy from the host
    for place, edge in zip(filled, edges, strict=True):
        place.fill_(edge)
    return filled


def _within(position, sides: Sides, begin, end) -> list[torch.Tensor]:
    """The first key and the end of what queries at these positions see of their documents' keys."""
    left, right = (ENDLESS if side is None else side for side in sides)
    return [keys.clamp(begin, end) for keys in (position - left, position + (right + 1))]
