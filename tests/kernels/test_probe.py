"""The probe shows the online softmax of the kernel that ran, tile by tile, and which tiles it visited."""

from itertools import product

import pytest
import torch
from attention_cases import MASKS, SHAPES, Shape, online_softmax, random_qkv

from kernels import attention, probe_attention

FLASH = ["flash1", "flash2"]
PROBED = [shape for shape in SHAPES if shape.seq_kv > 1]
RELATIVE = 64 * torch.finfo(torch.float32).eps


def close(ours, exact):
    """NaN in the same places, infinities equal, the rest within 64 float32 roundings."""
    ours = ours.cpu().double()
    assert torch.equal(ours.isnan(), exact.isnan())
    difference = torch.where(ours == exact, 0.0, (ours - exact).abs()).nan_to_num(0.0)
    assert (difference <= RELATIVE * (1 + exact.abs().nan_to_num(0.0, 0.0, 0.0))).all()


def grid():
    """All of shapes x masks, by either algorithm in turn."""
    for (s, shape), (m, mask) in product(enumerate(PROBED), enumerate(MASKS)):
        algorithm = FLASH[(s + m) % 2]
        yield pytest.param(algorithm, shape, MASKS[mask], id=f"{algorithm}-{shape.name}-{mask}")


@pytest.mark.parametrize(("algorithm", "shape", "mask"), list(grid()))
def test_m_l_and_alpha_of_every_tile(algorithm, shape, mask, device):
    q, k, v = random_qkv(shape, torch.float16, device)
    probed = probe_attention(q, k, v, **mask, algorithm=algorithm, **shape.blocks)
    for ours, exact in zip(
        (probed.m, probed.l, probed.alpha), online_softmax(q, k, shape, **mask), strict=True
    ):
        close(ours, exact)


def test_standard_takes_a_row_at_once(device):
    shape = Shape("", 4, 2, 37, 50, 24, 16, 16, batch=2)
    q, k, v = random_qkv(shape, torch.float32, device)
    probed = probe_attention(q, k, v, window=9, algorithm="standard", **shape.blocks)
    whole = Shape("", 4, 2, 37, 50, 24, 16, 64, batch=2)
    m, l, alpha = online_softmax(q, k, whole, window=9)  # noqa: E741
    close(probed.m, m)
    close(probed.l, l)
    assert probed.alpha.shape == alpha.shape
    assert probed.alpha.isnan().all()


@pytest.mark.parametrize("algorithm", ["standard", *FLASH])
def test_the_probe_changes_no_result(algorithm, device):
    shape = Shape("", 2, 2, 37, 50, 24, 16, 32)
    q, k, v = random_qkv(shape, torch.bfloat16, device)
    probed = probe_attention(q, k, v, causal=True, algorithm=algorithm, **shape.blocks)
    out, lse = attention(q, k, v, causal=True, algorithm=algorithm, **shape.blocks, return_lse=True)
    assert torch.equal(probed.out, out)
    assert torch.equal(probed.lse, lse)
