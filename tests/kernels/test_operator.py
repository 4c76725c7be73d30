"""PyTorch knows attention as one operator: fake tensors, torch.compile and autograd see through the call."""

import pytest
import torch
from attention_cases import Shape, largest_difference, random_qkv
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from kernels import attention

SMALL = Shape("small", 2, 1, 20, 30, 16, 16, 16)
BLOCKS = {"block_q": 16, "block_kv": 16}
OPTIONS = (*[None] * 4, True, None, None, "auto", 16, 16, None)  # of the operator: no terms, causal


@pytest.fixture
def tensors(device):
    return [tensor.requires_grad_() for tensor in random_qkv(SMALL, torch.float32, device)]


def fake(device, heads, rows):
    return torch.empty(2, heads, rows, 64, dtype=torch.bfloat16, device=device)


@pytest.mark.parametrize("documents", [None, [12, 8]])
def test_fake_tensors_give_shapes_and_strides(documents, device):
    """What torch.compile sees of both operators and of their gradients."""
    with FakeTensorMode():
        q, k, v = (
            torch.empty(2, 20, *size, dtype=torch.bfloat16, device=device).transpose(1, 2).requires_grad_()
            for size in ((4, 16), (2, 16), (2, 24))
        )
        out, lse = attention(q, k, v, causal=True, documents=documents, return_lse=True)
        grads = torch.autograd.grad(out.sum() + lse.sum(), (q, k, v))
    assert (out.dtype, lse.shape, lse.dtype) == (q.dtype, q.shape[:3], torch.float32)
    assert (out.shape, out.stride()) == ((2, 4, 20, 24), (1920, 24, 96, 1))  # laid out as q is
    assert [grad.shape for grad in grads] == [q.shape, k.shape, v.shape]


def test_fake_tensors_are_checked(device):
    sentence = "^q has 3 heads, which must be a multiple of the 2 heads of k and v$"
    with FakeTensorMode(), pytest.raises(ValueError, match=sentence):
        attention(fake(device, 3, 8), fake(device, 2, 8), fake(device, 2, 8))


# torch 2.11 on Python 3.12 warns of itself when its compiler is first imported
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("backend", "dynamic", "mask"),
    [
        ("aot_eager", True, {"causal": True}),
        ("aot_eager", False, {"documents": [18, 12], "softcap": 3.0}),
    ],
)
def test_compiled_in_one_graph(backend, dynamic, mask, tensors):
    leaves = [*tensors, torch.zeros(2, device=tensors[0].device, requires_grad=True)]

    def block(q, k, v, sinks):
        mask_and_sinks = mask | ({"sinks": sinks} if "softcap" in mask else {})
        out, lse = attention(2.0 * q, k, v, **mask_and_sinks, **BLOCKS, return_lse=True)
        return out.sin().sum() + lse[..., 5:].sum() + sinks.sum()

    compiled = torch.compile(block, fullgraph=True, backend=backend, dynamic=dynamic)
    expected = torch.autograd.grad(block(*leaves), leaves)
    for ours, eager in zip(torch.autograd.grad(compiled(*leaves), leaves), expected, strict=True):
        assert largest_difference(ours, eager.double()) < 1e-5
    torch.compiler.reset()


def test_the_operator_is_registered_as_pytorch_asks(tensors):
    operator = torch.ops.attention_tiles.attention.default
    torch.library.opcheck(operator, (*tensors, *OPTIONS))


def test_a_bad_option_is_named_while_pytorch_traces(device):
    with FakeTensorMode():
        with pytest.raises(ValueError, match=r"^window is 0, it must be None or a whole number"):
            attention(*(fake(device, 2, 8) for _ in range(3)), window=0)
        with pytest.raises(ValueError, match=r"^algorithm is 'flash1' and q, k or v requires grad"):
            attention(*(fake(device, 2, 8).requires_grad_() for _ in range(3)), algorithm="flash1")


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        self.operators = [*getattr(self, "operators", ()), str(operator)]
        return operator(*arguments, **(options or {}))


def by_operator(q, k, v):
    return torch.ops.attention_tiles.attention(q, k, v, *OPTIONS)[0]


def by_autograd(q, k, v):
    return attention(q, k, v, causal=True, **BLOCKS)


def by_ranges(q, k, v):
    return attention(q, k, v, window=(9, 2), **BLOCKS)


@pytest.mark.parametrize("attend", [by_operator, by_autograd, by_ranges])
def test_a_dispatch_mode_sees_the_operator_with_gradients_and_without(attend, tensors):
    """Where none looks on, it is called without a second dispatch, or not at all."""
    expected = torch.autograd.grad(attend(*tensors).sum(), tensors)
    with Seen() as seen:
        attend(*(tensor.detach() for tensor in tensors))
        gradients = torch.autograd.grad(attend(*tensors).sum(), tensors)
    assert seen.operators.count("attention_tiles.attention.default") == 2
    assert seen.operators.count("attention_tiles.attention_backward.default") == 1
    assert all(torch.equal(*pair) for pair in zip(gradients, expected, strict=True))


@pytest.mark.parametrize("attend", [by_operator, by_autograd, by_ranges])
def test_a_second_derivative_is_refused_in_a_sentence(attend, tensors):
    (d_q,) = torch.autograd.grad(attend(*tensors).square().sum(), tensors[:1], create_graph=True)
    plain = torch.autograd.grad(attend(*tensors).square().sum(), tensors[:1])
    assert torch.equal(d_q, plain[0])
    with pytest.raises(NotImplementedError, match=r"^attention has a first derivative only: for a second"):
        d_q.sum().backward()


@pytest.mark.parametrize("attend", [by_autograd, by_ranges])
def test_what_torch_func_leaves_behind_is_served(attend, tensors):
    q, k, v = (tensor.detach() for tensor in tensors)
    left = []
    torch.func.grad(lambda k: (left.append(k), k.sum())[1])(k)
    assert torch.equal(attend(tensors[0], left[0], v), attend(q, k, v))
