"""python -m engine bench-kernels --models: calls as models make them, beside the peers that are installed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from engine.measuring.clock import Repeats, in_turns
from engine.measuring.libraries import kernels, torch

REPEATS = Repeats(10, 20, 0.05)
COPIED = 2**31  # bytes, of which a copy's rate is taken
CLOSE = 4 * 2**-7  # of the largest value: four of bfloat16's steps
BACKWARD = 2.5  # times the products of a forward pass


@dataclass(frozen=True)
class Case:
    """A call as a model makes it, of documents of these lengths packed end to end, if any.

    options of `kernels.attention`; sinks, where True, are drawn.
    """

    name: str
    heads: int
    kv_heads: int
    keys: int
    head_dim: int
    v_dim: int | None = None
    documents: tuple[int, ...] = ()
    options: dict = field(default_factory=dict)

    @property
    def sides(self) -> tuple[int | None, int | None]:
        """Keys before and after a query's own that it sees, None being without end."""
        window = self.options.get("window")
        if isinstance(window, tuple):
            return window
        return None if window is None else window - 1, 0 if window or self.options.get("causal") else None

    @property
    def flops(self) -> float:
        """Of the scores that the mask leaves."""
        left, right = self.sides
        pairs = 0
        for length in self.documents or (self.keys,):
            at = torch.arange(length, dtype=torch.float64)
            first = at * 0 if left is None else (at - left).clamp(min=0)
            last = at * 0 + length - 1 if right is None else (at + right).clamp(max=length - 1)
            pairs += (last - first + 1).sum().item()
        return 2 * self.heads * pairs * (self.head_dim + (self.v_dim or self.head_dim))


CAUSAL = {"causal": True}
CASES = (
    Case("plain, d 128", 16, 16, 16384, 128, options=CAUSAL),
    Case("plain, d 64, 64/8 heads", 64, 8, 8192, 64, options=CAUSAL),
    Case("plain, d 256", 16, 8, 8192, 256, options=CAUSAL),
    *(
        Case(f"{count} documents, d {d}{', both ways' * (not mask)}", 2048 // d, 2048 // d, keys, d,
             documents=(keys // count,) * count, options=mask)
        for count, keys in ((8, 16384), (64, 32768)) for d in (64, 128) for mask in (CAUSAL, {})
    ),
    *(Case(f"d {d}", 16, 16, 8192, d, options=CAUSAL) for d in (80, 96, 112)),
    Case("192/128", 16, 16, 8192, 192, 128, options=CAUSAL),
    Case("softcap 50, d 256", 16, 8, 8192, 256, options={**CAUSAL, "softcap": 50.0}),
    Case("softcap 30, d 128", 16, 16, 8192, 128, options={**CAUSAL, "softcap": 30.0}),
    Case("sinks, d 64", 64, 8, 8192, 64, options={**CAUSAL, "sinks": True}),
    Case("sinks, window 128", 64, 8, 8192, 64, options={"window": 128, "sinks": True}),
    Case("window 512 + 512", 32, 32, 16384, 64, options={"window": (512, 512)}),
)  # fmt: skip
LATENTS = tuple((batch, keys) for batch in (1, 16, 64, 128) for keys in (4096, 32768, 131072))
PAGED = tuple((batch, page) for batch in (1, 4, 32) for page in (16, 64, 256))
PAGED_KEYS = 65536


def ours(case: Case, q, k, v, options: dict) -> Callable:
    """The call that is judged."""
    documents = {"documents": list(case.documents)} if case.documents else {}
    return partial(kernels.attention, q, k, v, **options, **documents)


def sdpa(case: Case, q, k, v, options: dict) -> Callable:
    """PyTorch's own, by cuDNN."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if case.documents or not options.keys() <= {"causal"}:
        raise NotImplementedError("has a plain mask alone")

    def call():
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=bool(options.get("causal")), enable_gqa=case.heads != case.kv_heads
            )

    return call


def flex(case: Case, q, k, v, options: dict) -> Callable:
    """PyTorch's FlexAttention, compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    (left, right), softcap, sinks = case.sides, options.get("softcap"), options.get("sinks")
    lengths = torch.tensor(case.documents or (case.keys,), device=q.device)
    document = torch.repeat_interleave(torch.arange(len(lengths), device=q.device), lengths)

    def seen(_batch, _head, query, key):
        inside = document[query] == document[key]
        if left is not None:
            inside = inside & (key >= query - left)
        return inside if right is None else inside & (key <= query + right)

    def scored(score, *_places):
        return softcap * torch.tanh(score / softcap)

    mask = create_block_mask(seen, None, None, case.keys, case.keys, device=q.device)
    how = {"block_mask": mask, "enable_gqa": case.heads != case.kv_heads, "return_lse": sinks is not None}
    call = partial(torch.compile(flex_attention), q, k, v, score_mod=softcap and scored, **how)
    if sinks is None:
        return call

    def with_sinks():
        out, lse = call()
        return out * torch.sigmoid(lse - sinks[:, None])[..., None].to(out.dtype)

    return with_sinks


def dao_ailab(module: str, case: Case, q, k, v, options: dict) -> Callable:
    """FlashAttention by one of its packages, which name things alike."""
    library = import_module(module)
    q, k, v = (each[0].transpose(0, 1) for each in (q, k, v))
    endless = None if module == "flash_attn.cute" else -1
    sides = tuple(endless if side is None else side for side in case.sides)
    how = {"causal": bool(options.get("causal"))}
    if "window" in options:
        how["window_size"] = sides
    if "softcap" in options:
        how["softcap"] = options["softcap"]
    if "sinks" in options:
        if endless is not None:
            raise NotImplementedError("has no sinks")
        how["learnable_sink"] = options["sinks"].to(q.dtype)
    edges = torch.tensor((0, *case.documents or (case.keys,)), device=q.device).cumsum(0).int()
    longest = max(case.documents or (case.keys,))
    names = {"cu_seqlens_q": edges, "cu_seqlens_k": edges, "max_seqlen_q": longest, "max_seqlen_k": longest}
    call = partial(library.flash_attn_varlen_func, q, k, v, **names, **how)
    if not case.documents:
        call = partial(library.flash_attn_func, q[None], k[None], v[None], **how)

    def turned():
        out = call()
        out = out[0] if isinstance(out, tuple) else out
        return (out if out.dim() == 4 else out[None]).transpose(1, 2)

    return turned


PEERS = {
    "PyTorch, cuDNN": (sdpa, "torch"),
    "FlexAttention": (flex, "torch.nn.attention.flex_attention"),
    "FlashAttention-2": (partial(dao_ailab, "flash_attn"), "flash_attn_2_cuda"),
    "FlashAttention-3": (partial(dao_ailab, "flash_attn_interface"), "flash_attn_interface"),
    "FlashAttention-4": (partial(dao_ailab, "flash_attn.cute"), "flash_attn.cute"),
}


def installed() -> dict[str, Callable]:
    """The peers that are; says which are not."""
    found = {}
    for name, (prepare, module) in PEERS.items():
        try:
            here = find_spec(module) is not None
        except ModuleNotFoundError:
            here = False
        if here:
            found[name] = prepare
        else:
            print(f"not here: {name} ({module} is not installed)")
    return found


def drawn(case: Case, device: str, dtype) -> tuple:
    """q, k and v, and the options with sinks as a tensor."""
    heads = (case.heads, case.head_dim), (case.kv_heads, case.head_dim), (case.kv_heads, case.v_dim)
    q, k, v = (
        torch.randn(1, count, case.keys, columns or case.head_dim, device=device, dtype=dtype)
        for count, columns in heads
    )
    options = dict(case.options)
    if options.get("sinks"):
        options["sinks"] = torch.randn(case.heads, device=device)
    return q, k, v, options


def line(case: Case, peers: dict[str, Callable], device: str, dtype, repeats: Repeats) -> str:
    """Time a case: TFLOP/s of each, ours over the best peer, and our backward pass."""
    q, k, v, options = drawn(case, device, dtype)
    first = {**options, "sinks": options["sinks"][:1]} if "sinks" in options else options
    documents = {"documents": list(case.documents)} if case.documents else {}
    exact, _ = kernels.reference_attention(q[:, :1], k[:, :1], v[:, :1], **first, **documents)
    calls, left_out = {}, []
    for name, prepare in {"ours": ours, **peers}.items():
        try:
            call = prepare(case, q, k, v, options)
            error = (call()[:, :1].double() - exact).abs().max().item()
        except Exception as reason:  # of anybody's code, which may not serve a case: said in the line
            left_out.append(f"{name}: {' '.join(str(reason).split())[:60]}")
            continue
        if error <= CLOSE * v.abs().max().item():
            calls[name] = call
        else:
            left_out.append(f"{name}: {error:.3g} from float64")
    on_gpu = device == "cuda"
    times = {name: found.p50 for name, found in in_turns(calls, repeats, on_gpu).items()}
    rates = {name: case.flops / seconds / 1e12 for name, seconds in times.items()}
    best = max((rate for name, rate in rates.items() if name != "ours"), default=None)
    ratio = f"x{rates['ours'] / best:.2f}" if best and "ours" in rates else "no peer"
    leaves = [each.requires_grad_() for each in (q, k, v)]
    out = ours(case, *leaves, options)()
    gradient = torch.randn_like(out)
    back = {"back": lambda: torch.autograd.grad(out, leaves, gradient, retain_graph=True)}
    backward = BACKWARD * case.flops / in_turns(back, repeats, on_gpu)["back"].p50 / 1e12
    figures = [f"{name} {rate:.0f}" for name, rate in rates.items()] + [f"ours backward {backward:.0f}"]
    return f"{case.name:<28} {ratio:<8} {'  '.join([*figures, *left_out])}"


def copy_rate(repeats: Repeats) -> float:
    """Bytes read and written a second by a copy."""
    source = torch.empty(COPIED, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPIED / in_turns({"": lambda: target.copy_(source)}, repeats, True)[""].p50


def latent_call(batch: int, keys: int) -> tuple[Callable, int, float]:
    """Decoding over a latent of 128 heads: the call, its bytes and its FLOPs."""
    make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    q, latent = make(batch, 128, 1, 576), make(batch, 1, keys, 576)
    call = partial(kernels.attention, q, latent, latent[..., :512])
    return call, latent.nbytes, 2.0 * 128 * (576 + 512) * batch * keys


def paged_call(batch: int, page: int) -> tuple[Callable, int, float]:
    """Decoding of 32 heads on 8 over shuffled pages: the call, its bytes and its FLOPs."""
    make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    pool = [make(batch * PAGED_KEYS // page, page, 8, 128) for _ in range(2)]
    table = torch.randperm(len(pool[0]), device="cuda").int().view(batch, -1)
    held = torch.full((batch,), PAGED_KEYS, dtype=torch.int32, device="cuda")
    call = partial(kernels.attention_paged, make(batch, 32, 1, 128), *pool, table, held)
    return call, 2 * pool[0].nbytes, 4.0 * 32 * 128 * batch * PAGED_KEYS


def run(repeats: Repeats = REPEATS) -> int:
    """Print a line for each case and for decoding; 0."""
    print("TFLOP/s over the scores that the mask leaves, medians in turns; x: ours over the best peer")
    peers = installed()
    for case in CASES:
        print(line(case, peers, "cuda", torch.bfloat16, repeats), flush=True)
        torch.cuda.empty_cache()
    copied = copy_rate(repeats)
    print(f"decoding, of a copy's rate, {copied / 1e12:.2f} TB/s read and written")
    for what, make, sizes in (("latent, keys", latent_call, LATENTS), ("pages of", paged_call, PAGED)):
        for batch, size in sizes:
            call, moved, flops = make(batch, size)
            seconds = in_turns({"": call}, repeats, True)[""].p50
            rate = f"{moved / seconds / copied:.2f} of a copy, {flops / seconds / 1e12:.0f} TFLOP/s"
            print(f"batch {batch:<4} {what} {size:<7} {seconds * 1e6:8.1f} us  {rate}", flush=True)
    return 0
