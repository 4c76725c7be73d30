"""Kernels to be watched: one that is right, and what to change in it for each bug."""

PLAIN = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(Q, K, V, Out, lse, seq, scale, BQ: tl.constexpr, BK: tl.constexpr, D: tl.constexpr,
           CAUSAL: tl.constexpr):
    block = tl.program_id(0)
    head = tl.program_id(1)
    start = head * seq * D
    rows = block * BQ + tl.arange(0, BQ)
    cols = tl.arange(0, D)
    q = tl.load(Q + start + rows[:, None] * D + cols[None, :], mask=rows[:, None] < seq, other=0.0)
    m = tl.full([BQ], float("-inf"), tl.float32)
    l = tl.zeros([BQ], tl.float32)
    acc = tl.zeros([BQ, D], tl.float32)
    stop = tl.cdiv(seq, BK)
    if CAUSAL:
        stop = tl.cdiv(tl.minimum(seq, (block + 1) * BQ), BK)
    for j in range(0, stop):
        keys = j * BK + tl.arange(0, BK)
        k = tl.load(K + start + keys[:, None] * D + cols[None, :], mask=keys[:, None] < seq, other=0.0)
        v = tl.load(V + start + keys[:, None] * D + cols[None, :], mask=keys[:, None] < seq, other=0.0)
        s = tl.dot(q, k.T) * scale
        seen = keys[None, :] < seq
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        s = tl.where(seen, s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(s - new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v.dtype), v)
        m = new
    out = acc / l[:, None]
    tl.store(Out + start + rows[:, None] * D + cols[None, :],
             out.to(Out.dtype.element_ty), mask=rows[:, None] < seq)
    tl.store(lse + head * seq + rows, m + tl.log(l), mask=rows < seq)


def attention(q, k, v, scale, block_q, block_kv, causal):
    out = torch.empty_like(q)
    b, h, n, d = q.shape
    lse = torch.empty((b, h, n), dtype=torch.float32)
    kernel[(triton.cdiv(n, block_q), b * h)](q, k, v, out, lse, n, scale, block_q, block_kv, d, causal)
    return out
"""
KEYS = "mask=keys[:, None] < seq, other=0.0)"
# by name: the kinds of its findings, whether causal, heads, keys, and what is replaced by what
OUT = "Out + start + rows[:, None] * D + cols[None, :]"
INSIDE = "out.to(Out.dtype.element_ty), mask=rows[:, None] < seq)"
SKIP = ("        stop = tl.cdiv(tl.minimum", "        tl.cdiv(tl.minimum")
RESCALE = ("        acc = acc * alpha[:, None]\n", "")
BUGS = {
    "K is loaded without a mask": (
        {"out_of_bounds", "ragged_end"}, False, 2, 24,
        [("k = tl.load(K + start + keys[:, None] * D + cols[None, :], " + KEYS,
          "k = tl.load(K + start + keys[:, None] * D + cols[None, :])")],
    ),
    "Q is loaded without a mask": (
        {"out_of_bounds", "ragged_end"}, False, 2, 24,
        [("cols[None, :], mask=rows[:, None] < seq, other=0.0)", "cols[None, :])")],
    ),
    "O is stored without a mask": (
        {"out_of_bounds", "race"}, False, 2, 24, [(INSIDE, "out.to(Out.dtype.element_ty))")],
    ),
    "hidden tiles are visited": ({"extra_tile"}, True, 1, 32, [SKIP]),
    "the first tile is left out": ({"missing_tile"}, False, 1, 32, [("range(0, stop)", "range(1, stop)")]),
    "the diagonal is left out": (
        {"missing_tile"}, True, 1, 32, [("(block + 1) * BQ), BK)", "(block + 1) * BQ), BK) - (block > 0)")],
    ),
    "a tile is visited twice": (
        {"repeated_tile", "loaded_again"}, False, 1, 32,
        [("range(0, stop)", "range(0, stop + 1)"), ("keys = j * BK", "keys = tl.minimum(j, stop - 1) * BK")],
    ),
    "P meets other rows of V": (
        {"wrong_rows"}, False, 1, 32,
        [("V + start + keys[:, None]", "V + start + ((stop - 1 - j) * BK + tl.arange(0, BK))[:, None]")],
    ),
    "K has another stride": (
        {"wrong_stride"}, False, 2, 32, [("K + start + keys[:, None] * D", "K + start + keys[:, None] * 24")],
    ),
    "V is taken to be twice as wide": (
        {"wrong_stride"}, False, 2, 32, [("V + start + keys[:, None] * D", "V + start + keys[:, None] * 32")],
    ),
    "acc is not rescaled": ({"missing_rescale"}, False, 1, 32, [RESCALE]),
    "l is not rescaled": ({"missing_rescale"}, True, 1, 32, [("l = l * alpha + ", "l = l + ")]),
    "the scale is forgotten": ({"missing_scale"}, True, 1, 32, [(" * scale\n", "\n")]),
    "V is of another head": ({"wrong_head"}, False, 2, 32, [("V + start", "V + 0 * start")]),
    "K is of another head": ({"wrong_head"}, False, 2, 32, [("K + start", "K + 0 * start")]),
    "two programs write one block": (
        {"race", "repeated_tile"}, False, 1, 32,
        [("block = tl.program_id(0)", "block = tl.program_id(0) // 2"),
         ("kernel[(triton.cdiv(n, block_q),", "kernel[(2 * triton.cdiv(n, block_q),")],
    ),
    "O is read before it is written": (
        {"read_before_written"}, False, 1, 32,
        [("acc = tl.zeros([BQ, D], tl.float32)", f"acc = tl.load({OUT}).to(tl.float32)")],
    ),
    "the ragged block is left out": (
        {"unwritten", "missing_tile"}, False, 1, 24, [("triton.cdiv(n, block_q), b", "n // block_q, b")],
    ),
    "lse is returned in base 2": (
        {"lse_base"}, False, 1, 32,
        [("m + tl.log(l)", "(m + tl.log(l)) * 1.44269504"), ("return out", "return out, lse")],
    ),
    "a query does not see itself": (
        {"wrong_mask"}, True, 1, 32, [("keys[None, :] <= rows", "keys[None, :] < tl.maximum(rows, 1)")],
    ),
    "a query sees one key more": (
        {"wrong_mask"}, True, 1, 32, [("keys[None, :] <= rows", "keys[None, :] <= 1 + rows")],
    ),
    "keys past the end count": (
        {"ragged_end"}, False, 1, 24, [("keys[None, :] < seq", "keys[None, :] >= 0")],
    ),
    "Q is loaded in the loop": (
        {"loaded_again"}, False, 1, 32,
        [("        s = tl.dot", f"        q = tl.load({OUT.replace('Out', 'Q')})\n        s = tl.dot")],
    ),
    "the mask is forgotten": (
        {"missing_mask", "extra_tile"}, True, 1, 32,
        [("seen & (keys[None, :] <= rows[:, None])", "seen"), SKIP],
    ),
    "exponentials are of base 2": (
        {"wrong_base"}, False, 1, 32, [("tl.exp(m - new)", "tl.exp2(m - new)"), ("tl.exp(s", "tl.exp2(s")],
    ),
    "O is not divided by l": ({"missing_division"}, False, 1, 32, [("acc / l[:, None]", "acc")]),
}  # fmt: skip


def planted(name: str) -> str:
    """The kernel with a bug."""
    text = PLAIN
    for old, new in BUGS[name][4]:
        assert old in text, (name, old)
        text = text.replace(old, new)
    return text
