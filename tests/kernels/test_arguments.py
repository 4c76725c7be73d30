"""What cannot be served is refused in one sentence: the argument, the value, what it must be."""

import ast
import inspect
import re
from pathlib import Path

import pytest
import torch
from torch import zeros
from triton.runtime.errors import OutOfResources

from kernels import OutOfSharedMemoryError, attention, interpreted
from kernels.call.options import DEFAULTS, Options
from kernels.dispatch.dispatch import checked
from kernels.distributed.job import described
from kernels.launch.launch import launch

SHAPE = (1, 2, 16, 16)


def test_a_signature_shows_every_option_by_its_name_and_default():
    shown = inspect.signature(attention).parameters
    named = {name: each.default for name, each in shown.items() if each.kind is each.KEYWORD_ONLY}
    assert list(shown) == ["q", "k", "v", *named]
    assert tuple(named) == Options._fields
    assert {name: each for name, each in named.items() if each is not None} == DEFAULTS


def test_kernels_take_fewer_than_twenty_parameters():
    """Strides, terms and what a kernel is compiled for come as tuples, sizes one by one."""
    counts = {}
    for path in (Path(__file__).resolve().parents[2] / "kernels").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.endswith("_kernel") and node.decorator_list:
                counts[node.name, path.name] = len(node.args.args)
    assert len(counts) > 15
    assert max(counts.values()) < 20


def test_a_cpu_tensor_needs_the_interpreter(monkeypatch):
    tensor = zeros(SHAPE)
    monkeypatch.setattr("kernels.dispatch.dispatch.interpreted", lambda: False)
    with pytest.raises(ValueError, match=r"^q is on the CPU, it must be on a GPU, or TRITON_INTERPRET=1"):
        checked(tensor, tensor, tensor)


def test_a_kernel_that_does_not_fit_says_what_it_needs():
    class Kernel:
        def __getitem__(self, grid):
            def run(*tensors, **arguments):
                raise OutOfResources(294912, 232448, "shared memory")

            return run

    tensor = zeros(SHAPE)
    call = checked(tensor, tensor, tensor, block_q=256, block_kv=256, stand_in=True)
    sentence = (
        "flash2 with 256 x 256 blocks at head_dim 16 needs 294912 bytes of shared memory a block, "
        "this GPU has 232448: choose smaller blocks"
    )
    with pytest.raises(OutOfSharedMemoryError, match=f"^{re.escape(sentence)}$") as failure:
        launch(Kernel(), 1, call, (tensor,), num_warps=4, num_stages=1)
    assert (failure.value.required, failure.value.limit) == (294912, 232448)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_blocks_that_do_not_fit_the_gpu():
    tensor = zeros(1, 1, 256, 256, dtype=torch.float16, device="cuda")
    sentence = r"^flash2 with 128 x 256 blocks at head_dim 256 needs \d+ bytes of shared memory a block, "
    with pytest.raises(OutOfSharedMemoryError, match=sentence):
        attention(tensor, tensor, tensor, algorithm="flash2", block_q=128, block_kv=256)


@pytest.mark.skipif(not interpreted(), reason="the tensors are on the CPU")
def test_a_window_of_two_sides_and_a_head_dim_of_v_are_refused_over_gpus():
    q = torch.randn(1, 1, 8, 16)
    said = described(q, q, q, False, (3, 0), None, "auto", False)
    assert str(said) == "window is (3, 0), over GPUs it must be None or a number of keys"
    said = described(q, q, torch.randn(1, 1, 8, 24), False, None, None, "auto", False)
    assert str(said) == "v has head_dim 24 and q 16, over GPUs they must be alike"
