"""Every block of a kernel written down with its SM and its times; refused where there is no SM."""

from dataclasses import replace

import pytest
import torch
from attention_cases import Shape, random_qkv

from kernels import attention, interpreted, trace_attention

BLOCKS = {"block_q": 64, "block_kv": 64}
SHAPE = Shape("several-waves", 40, 40, 700, 700, 64, **BLOCKS)
PROGRAMS = {
    "standard": {"scores": 11 * 11 * 40, "softmax": 700 * 40 // 2, "output": 11 * 40},
    "flash1": {"attention": 40},
    "flash2": {"attention": 11 * 40},
    "flash3": {"attention": 6 * 40},
}

on_a_gpu = pytest.mark.skipif(interpreted(), reason="Triton's interpreter has no SMs and no GPU clock")


@on_a_gpu
@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"window": 100}], ids=["none", "causal", "window"])
@pytest.mark.parametrize("algorithm", PROGRAMS)
def test_every_block_has_an_sm_and_a_time_and_the_result_is_the_same(algorithm, mask):
    q, k, v = random_qkv(SHAPE, torch.float16, "cuda")
    if algorithm == "flash3" and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("needs a Hopper GPU")
    blocks = {} if algorithm == "flash3" else BLOCKS
    traced = trace_attention(q, k, v, algorithm=algorithm, **mask, **blocks)
    out, lse = attention(q, k, v, algorithm=algorithm, return_lse=True, **mask, **blocks)
    assert torch.equal(traced.out, out)
    assert torch.equal(traced.lse, lse)
    assert {name: len(each) for name, each in traced.blocks.items()} == PROGRAMS[algorithm]
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    for each in traced.blocks.values():
        sm, start, end = each.unbind(1)
        assert sm.min() >= 0
        assert sm.max() < processors
        assert (start < end).all()
        assert end.max() - start.min() < 10**9  # nanoseconds
    ends = [(int(each[:, 1].min()), int(each[:, 2].max())) for each in traced.blocks.values()]
    assert ends == sorted(ends)  # one kernel after another


@on_a_gpu
@pytest.mark.parametrize(
    ("given", "tiles"),
    [({"documents": [5, 395, 300]}, 1 + 4 + 3), ({"window": (90, 30), "softcap": 20.0}, 6)],
    ids=["documents", "terms"],
)
def test_tiles_of_masks_and_terms_are_those_that_there_are(given, tiles):
    """Tiles of 128 rows, which end where a document does."""
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("needs a Hopper GPU")
    q, k, v = random_qkv(replace(SHAPE, head_dim=128), torch.float16, "cuda")
    traced = trace_attention(q, k, v, algorithm="flash3", **given)
    assert torch.equal(traced.out, attention(q, k, v, algorithm="flash3", **given))
    assert len(traced.blocks["attention"]) == 40 * tiles


@on_a_gpu
def test_heaviest_blocks_start_first_unless_told_otherwise():
    q, k, v = random_qkv(SHAPE, torch.float16, "cuda")
    for heavy_first in (True, False):
        traced = trace_attention(q, k, v, causal=True, heavy_first=heavy_first, **BLOCKS)
        length = (traced.blocks["attention"][:, 2] - traced.blocks["attention"][:, 1]).view(40, 11).float()
        assert (length[:, 0].median() > length[:, -1].median()) == heavy_first
        assert torch.equal(traced.out, attention(q, k, v, causal=True, algorithm="flash2", **BLOCKS))


@pytest.mark.skipif(not interpreted(), reason="a GPU has SMs and a clock")
def test_the_interpreter_has_nothing_to_write_down():
    q, k, v = random_qkv(SHAPE, torch.float16, "cpu")
    with pytest.raises(RuntimeError, match="no SMs and no GPU clock"):
        trace_attention(q, k, v)


def test_what_cannot_be_traced_is_refused(device):
    q, k, v = random_qkv(SHAPE, torch.float16, device)
    with pytest.raises(ValueError, match="algorithm is 'split_kv'"):
        trace_attention(q, k, v, algorithm="split_kv")
