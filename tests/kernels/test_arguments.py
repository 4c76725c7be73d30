"""What cannot be served is refused in one sentence: the argument, the value, what it must be."""

import ast
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import zeros
from triton.runtime.errors import OutOfResources

from kernels import OutOfSharedMemoryError, attention, interpreted, probe_attention, reference_attention
from kernels.call.options import DEFAULTS, Options
from kernels.dispatch.dispatch import checked
from kernels.distributed.job import described
from kernels.launch.launch import launch

SHAPE = (1, 2, 16, 16)


def refused(message, **changed):
    return pytest.param(changed, message, id=re.sub(r"\W+", "-", message)[:60])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        refused("q is a list, it must be a torch.Tensor", q=[1.0]),
        refused("q has shape (2, 16, 16), it must be [batch, heads, sequence, head_dim]", q=zeros(2, 16, 16)),
        refused("k has shape (1, 2, 0, 16), every size must be at least 1", k=zeros(1, 2, 0, 16)),
        refused("q is int64, it must be float32, float16, bfloat16", q=zeros(SHAPE, dtype=torch.int64)),
        refused("q is float64, it must be float32, float16, bfloat16", q=zeros(SHAPE, dtype=torch.float64)),
        refused("k has head_dim 257, it must be at most 256", k=zeros(1, 2, 16, 257)),
        refused("k is float16 and q is float32, they must be alike", k=zeros(SHAPE, dtype=torch.float16)),
        refused("v is on meta and q on cpu, they must be on one device", v=zeros(SHAPE, device="meta")),
        refused(
            "k has shape (2, 2, 16, 16), its batch and head_dim must be q's, 1 and 16", k=zeros(2, 2, 16, 16)
        ),
        refused(
            "v has shape (1, 2, 17, 16), it must be [1, 2, 16, head_dim] as k has", v=zeros(1, 2, 17, 16)
        ),
        refused("q has 3 heads, which must be a multiple of the 2 heads of k and v", q=zeros(1, 3, 16, 16)),
        refused("q is sparse or nested, it must be a tensor", q=zeros(SHAPE).to_sparse()),
        refused("causal is 'False', it must be True or False", causal="False"),
        refused("causal is array([1, 0]), it must be True or False", causal=np.array([1, 0])),
        refused("scale is a Tensor, it must be a finite number above 0", scale=zeros(SHAPE)),
        refused("window is 0, it must be None or a whole number of keys, at least 1", window=0),
        refused("window is 2.5, it must be None or a whole number of keys, at least 1", window=2.5),
        refused("window is True, it must be None or a whole number of keys, at least 1", window=True),
        refused("scale is 0, it must be a finite number above 0", scale=0),
        refused("scale is nan, it must be a finite number above 0", scale=float("nan")),
        refused("scale is '1', it must be a finite number above 0", scale="1"),
        refused("block_q is 48, it must be a power of two from 16 to 1024", block_q=48),
        refused("block_q is 8, it must be a power of two from 16 to 1024", block_q=8),
        refused("block_kv is 2048, it must be a power of two from 16 to 1024", block_kv=2048),
        refused("block_kv is 64.0, it must be a power of two from 16 to 1024", block_kv=64.0),
        refused(
            "algorithm is 'flash9', it must be one of auto, standard, flash1, flash2, flash3, fp8, split_kv",
            algorithm="flash9",
        ),
    ],
)
@pytest.mark.parametrize("function", [attention, probe_attention])
def test_a_bad_argument_is_named(function, changed, message, device):
    tensors = {name: zeros(SHAPE, device=device) for name in "qkv"}
    for name, value in changed.items():
        is_local = isinstance(value, torch.Tensor) and value.device.type == "cpu"
        tensors[name] = value.to(device) if is_local else value
    with pytest.raises((ValueError, TypeError)) as refusal:
        function(**tensors)
    assert message.replace("on cpu", f"on {zeros(0, device=device).device}") in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_what_numpy_says_is_true_is_true(device):
    q = torch.randn(SHAPE, device=device)
    assert torch.equal(attention(q, q, q, causal=np.bool_(True)), attention(q, q, q, causal=True))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        refused("q is an int, it must be a torch.Tensor", q=1),
        refused("v has shape (2, 2), it must be numbers [batch, heads,", v=zeros(2, 2)),
        refused("q, k and v have shapes (1, 2, 16, 16), (1, 2, 16, 8), (1, 2,", k=zeros(1, 2, 16, 8)),
        refused("documents is [3], it must be a list of lengths that add up to k's 16", documents=[3]),
        refused("window is 'x', it must be None or a whole number", window="x"),
    ],
)
def test_the_reference_names_a_bad_argument(changed, message):
    tensors = {name: zeros(SHAPE) for name in "qkv"}
    with pytest.raises((ValueError, TypeError)) as refusal:
        reference_attention(**{**tensors, **changed})
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("function", "name"),
    [(attention, "sofcap"), (probe_attention, "splits"), (reference_attention, "splits")],
)
def test_an_option_that_a_function_does_not_take_is_named(function, name):
    q = zeros(SHAPE)
    with pytest.raises(
        TypeError, match=rf"^{name} is no option here, it must be one of causal, window, scale, "
    ):
        function(q, q, q, **{name: 3})


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


def test_a_row_too_long_for_standard_is_refused(device):
    long = zeros(1, 1, 1, 16, device=device).expand(1, 1, 65537, 16)
    with pytest.raises(
        ValueError, match="k has 65537 keys, standard holds a row of S whole and takes at most 65536"
    ):
        attention(long[:, :, :1], long, long, algorithm="standard")


def test_a_cpu_tensor_needs_the_interpreter(monkeypatch):
    tensor = zeros(SHAPE)
    monkeypatch.setattr("kernels.dispatch.dispatch.interpreted", lambda: False)
    with pytest.raises(ValueError, match=r"^q is on the CPU, it must be on a GPU, or TRITON_INTERPRET=1"):
        checked(tensor, tensor, tensor)


def test_a_device_without_kernels_is_named():
    tensor = zeros(SHAPE, device="meta")
    with pytest.raises(ValueError, match="q is on meta, it must be on a CUDA device"):
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
def test_a_window_of_two_sides_is_refused_over_gpus():
    q = torch.randn(1, 1, 8, 16)
    said = described(q, q, q, False, (3, 0), None, "auto", False)
    assert said["error"] == "window is (3, 0), over GPUs it must be None or a number of keys"
