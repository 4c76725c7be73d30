"""Which algorithm serves a call and why, and the forward and backward pass it runs; records decide."""

import torch

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.record import PLAIN, Algorithm, Asked, Backward
from kernels.backward.backward import backward
from kernels.call.arguments import check_options, check_tensors, check_terms
from kernels.call.call import Call
from kernels.call.device import TMA_ALIGNMENT
from kernels.call.options import Options
from kernels.call.terms import Terms
from kernels.call.value_checks import check_untransformed, flag, must, python_int, remember, resolved
from kernels.launch.launch import POINTER_ALIGNMENT, fitting, interpreted, multiprocessors, options_given

BLOCK_Q = 4  # its place among options, before block_kv's
_CHOSEN: dict[tuple, tuple[Call, str]] = {}  # by layout of the tensors and options


def algorithms() -> dict[str, int]:
    """What `algorithm` may be, with the most splits of the keys that may be asked for."""
    return {"auto": 0, **{key: record.most_splits for key, record in ALGORITHMS.items()}}


def fallback() -> Algorithm:
    """What runs where nothing is faster, and where blocks are given."""
    return next(record for record in ALGORITHMS.values() if record.fallback)


def check(q, k, v, options: Options) -> None:
    """ValueError or TypeError with one sentence for what no algorithm serves, mask and terms too."""
    check_tensors(q, k, v, torch.compiler.is_compiling() or interpreted())  # the operator's fake asks again
    check_options(options.window, *options.how, algorithms())
    check_terms(q, k, options)


def chosen(
    q, k, v, causal, window, scale, algorithm="auto", block_q=None, block_kv=None, splits=None, features=PLAIN
) -> tuple[Call, str]:
    """The checked call with the algorithm that runs, and why; features: of `record.FEATURES`."""
    options = (causal, window, scale, algorithm, block_q, block_kv, splits, features)
    try:
        aligned = (q.data_ptr() | k.data_ptr() | v.data_ptr()) % TMA_ALIGNMENT == 0
        alike = (  # all that `_choose` looks at, in one tuple: nested ones take longer
            q.shape, q.stride(), q.dtype, q.device,
            k.shape, k.stride(), k.dtype, k.device,
            v.shape, v.stride(), v.dtype, v.device,
            aligned or tuple(each.data_ptr() % TMA_ALIGNMENT for each in (q, k, v)),
            k.data_ptr() == v.data_ptr(),  # a latent
            causal, window, scale, algorithm, block_q, block_kv, splits, features,
            type(window), type(scale), type(block_q), type(block_kv), type(splits),  # True equals 1
        )  # fmt: skip
        found = _CHOSEN.get(alike)
    except (AttributeError, TypeError, RuntimeError):  # of no tensors with strides, or unhashable: refused
        check_untransformed(q, k, v)
        return _choose(q, k, v, *options)
    if found is None:
        found = _choose(q, k, v, *options)
        remember(_CHOSEN, alike, found)
    return found


def _choose(
    q, k, v, causal, window, scale, algorithm, block_q, block_kv, splits, features
) -> tuple[Call, str]:
    call = checked(q, k, v, causal, window, scale, algorithm, block_q, block_kv, splits)
    own_blocks = block_q is None and block_kv is None
    record = ALGORITHMS[call.algorithm]
    if algorithm != "auto":
        for name, block in (("block_q", block_q), ("block_kv", block_kv)):
            own = block is None or not record.chooses_blocks
            must(own, name, block, f"None with algorithm {record.key!r}: its blocks are its own")
        if reason := unserved(record, q, k, v, call, features):
            raise ValueError(f"algorithm is {record.key!r}, which does not serve this call: {reason}")
        processors = multiprocessors(q.device)
        return record.prepared(call, own_blocks, (q, k, v), processors), record.reason
    if not own_blocks:
        return call, f"with blocks given, auto is {record.key}"
    return _fastest(call, q, k, v, (causal, window, scale), features)


def checked(
    q, k, v, causal=False, window=None, scale=None, algorithm="auto", block_q=None, block_kv=None,
    splits=None, stand_in: bool = False,
) -> Call:  # fmt: skip
    """The call these arguments make, or a sentence; stand_in: the CPU's tensors stand for a GPU's."""
    check_tensors(q, k, v, stand_in or interpreted())
    check_options(window, scale, algorithm, block_q, block_kv, splits, algorithms())
    record = ALGORITHMS.get(algorithm) or fallback()
    batch, heads, seq_q, head_dim = q.shape
    kv_heads, seq_kv, v_dim = v.shape[1:]
    if record.most_keys is not None and seq_kv > record.most_keys[0]:
        most, why = record.most_keys
        raise ValueError(f"k has {seq_kv} keys, {record.key} {why} and takes at most {most}")
    blocks = record.blocks(heads // kv_heads * seq_q, max(head_dim, v_dim), q.dtype, q.device)
    window, block_q, block_kv, splits = map(python_int, (window, block_q, block_kv, splits))
    return Call(
        *(batch, heads, kv_heads, seq_q, seq_kv, head_dim),
        causal=flag("causal", causal) or window is not None,
        window=None if window is None or window >= seq_kv else window,
        scale=head_dim**-0.5 if scale is None else float(scale),
        algorithm=record.key,
        block_q=blocks[0] if block_q is None else block_q,
        block_kv=blocks[1] if block_kv is None else block_kv,
        splits=splits,
        v_dim=None if v_dim == head_dim else v_dim,
    )


def _fastest(call: Call, q, k, v, plain: tuple, features: frozenset) -> tuple[Call, str]:
    """What auto takes: the first offer of an algorithm that serves the call, else the fallback."""
    tensors, processors = (q, k, v), multiprocessors(q.device)
    running = ALGORITHMS[call.algorithm].prepared(call, True, tensors, processors)
    asked = Asked(call, running, processors, q.is_cuda, features)
    reason = f"auto knows nothing faster than {call.algorithm}"
    offers = [(rank, record) for record in ALGORITHMS.values() for rank in record.offers]
    for rank, record in sorted(offers, key=lambda each: each[0]):
        found = unserved(record, q, k, v, call, features)
        if found is None:
            own = checked(q, k, v, *plain, record.key)
            found = record.offers[rank](record.prepared(own, True, tensors, processors), asked)
        if isinstance(found, tuple):
            return found
        reason = found or reason
    return running, reason


def unserved(record: Algorithm, q, k, v, call: Call, features: frozenset = PLAIN) -> str | None:
    """One sentence on why an algorithm does not serve a call, or None where it does."""
    plain = {"causal": call.causal, "window": call.window is not None}
    features = features | {name for name, asked in plain.items() if asked}
    return record.unserved(q, k, v, features, interpreted())


def run(q, k, v, options: tuple, terms: Terms | None = None) -> tuple[torch.Tensor, torch.Tensor, Call]:
    """O, lse, and the call that ran; options of `chosen`, to splits; terms: what is beyond a plain mask."""
    features = PLAIN if terms is None else terms.features(q.shape[2])
    call, _ = chosen(q, k, v, *options, features=features)
    if q.is_neg() or k.is_neg() or v.is_neg():
        return run(*resolved(q, k, v), options, terms)
    record = ALGORITHMS[call.algorithm]
    given = {} if terms is None else {"terms": terms if record.takes_seen else terms.ranged()}
    if record.chooses_blocks or any(options[BLOCK_Q : BLOCK_Q + 2]):
        return *record.forward(q, k, v, call, **given), call
    return *fitting(lambda call: record.forward(q, k, v, call, **given), call), call


def again(q, k, v, options: tuple, terms: Terms, given: dict):
    """What does a call's launch again; None if tensors that were given were converted for it."""
    for own, name in ((terms.sinks, "sinks"), (terms.slopes, "alibi_slopes")):
        if own is not None and (
            own.data_ptr() != given[name].data_ptr() or own.numel() != given[name].numel()
        ):
            return None
    call, _ = chosen(q, k, v, *options, features=terms.features(q.shape[2]))
    return ALGORITHMS[call.algorithm].again(call, terms)


def launched_again(again, starts, q, k, v, given: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, lse) by what `again` gave, of other tensors; starts: where packed sequences begin."""
    out = torch.empty_like(q)
    own = [given[name] for name in ("sinks", "alibi_slopes") if given.get(name) is not None]
    return out, again(q, k, v, out, *own, *((out, *starts) if starts else ()))


def forward(q, k, v, *options) -> tuple[torch.Tensor, torch.Tensor]:
    """O and lse of a call without terms, as `run`."""
    return run(q, k, v, options)[:2]


def gradients(
    q, k, v, out, lse, d_out, d_lse, causal, window, scale, algorithm="auto", block_q=None, block_kv=None,
    memory=None, terms: Terms | None = None,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """dQ, dK and dV like q, k and v, and of the sinks, or None, from any algorithm's out and lse.

    d_out and d_lse may be None. memory: of the forward pass's call, where what is worked out here is kept;
    autograd's hooks may have laid the saved tensors out anew since.
    """
    of_results = (d_out is not None and d_out.is_neg()) or (d_lse is not None and d_lse.is_neg())
    if of_results or q.is_neg() or k.is_neg() or v.is_neg():
        q, k, v, d_out, d_lse = resolved(q, k, v, d_out, d_lse)
    if d_out is None:
        d_out = torch.zeros_like(out)
    elif d_out.stride(-1) != 1:  # such as the expanded gradient of a sum: slower to read than to copy
        d_out = d_out.contiguous()
    if d_lse is not None:
        d_lse = d_lse.contiguous()
    features = kind = PLAIN
    if terms is not None:
        terms = Terms(*(each.contiguous() if isinstance(each, torch.Tensor) else each for each in terms))
        features, kind = terms.features(q.shape[2]), terms.kind
    if memory is None:
        memory = chosen(q, k, v, causal, window, scale, fallback().key, block_q, block_kv)[0].memory
    lse = lse.contiguous()
    pointers = q.data_ptr() | k.data_ptr() | v.data_ptr() | out.data_ptr() | lse.data_ptr() | d_out.data_ptr()
    if d_lse is not None:
        pointers |= d_lse.data_ptr()
    aligned = pointers % POINTER_ALIGNMENT == 0
    if not aligned:  # kernels are compiled for which of them are
        tensors = (q, k, v, out, lse, d_out) if d_lse is None else (q, k, v, out, lse, d_out, d_lse)
        aligned = tuple(each.data_ptr() % POINTER_ALIGNMENT for each in tensors)
    strides = q.stride(), k.stride(), v.stride(), out.stride(), d_out.stride()
    alike = algorithm, strides, aligned, d_lse is None, kind, torch.are_deterministic_algorithms_enabled()
    again = None if options_given() else memory.get(alike)
    if again is None and not options_given():
        again = {}
        remember(memory, alike, again)  # there may be as many as numbers of sequences
    if again:
        return again["gradients"](q, k, v, out, lse, d_out, d_lse, terms)
    call, _ = chosen(q, k, v, causal, window, scale, fallback().key, block_q, block_kv)
    block_q, block_kv = python_int(block_q), python_int(block_kv)
    own = None if block_q or block_kv else own_backward(call, algorithm, q, k, v, features)
    if own is not None:
        return own.run(q, k, v, out, lse, d_out, d_lse, call, terms, again)
    terms = terms and terms.ranged()
    return backward(q, k, v, out, lse, d_out, d_lse, call, block_q, block_kv, terms, again)


def own_backward(call: Call, algorithm: str, q, k, v, features: frozenset = PLAIN) -> Backward | None:
    """The backward pass of its own that an algorithm's result has, or None where it is the shared one."""
    for record in ALGORITHMS.values():
        own = record.backward
        if own is None or algorithm not in ("auto", record.key) or not features <= own.serves:
            continue
        if not (unserved(record, q, k, v, call, features) or own.unserved(call)) and (
            algorithm == record.key or own.pays(call, multiprocessors(q.device))
        ):
            return own
    return None


def differentiated(algorithm: str, q, k, v, sinks=None) -> bool:
    """Whether a gradient of one of these tensors is asked for; ValueError where the algorithm has none."""
    if torch.is_grad_enabled():
        for name, each in (("q", q), ("k", k), ("v", v), ("sinks", sinks)):
            if getattr(each, "requires_grad", False):
                check_differentiable(algorithm, name)
                return True
    return False


def check_differentiable(algorithm: str, leaf: str) -> None:
    """ValueError where an algorithm has no gradient, and a leaf of this name asks for one."""
    if algorithm != "auto" and not ALGORITHMS[algorithm].differentiable:
        names = ", ".join(key for key, record in ALGORITHMS.items() if record.differentiable)
        raise ValueError(
            f"algorithm is {algorithm!r} and {leaf} requires grad, it must be one of"
            f" auto, {names}, or called under torch.no_grad()"
        )
