"""A transformer block whose scaled_dot_product_attention is replaced in one line trains as it did before."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

from kernels import attention

WIDTH, HEADS, TOKENS, WORDS = 32, 2, 24, 11
SIZES = {"qkv": (WIDTH, 3 * WIDTH), "project": (WIDTH, WIDTH), "widen": (WIDTH, 2 * WIDTH)}
SIZES |= {"narrow": (2 * WIDTH, WIDTH), "predict": (WIDTH, WORDS)}


def block(layers, attend, words):
    """What follows each word, by one layer of attention and one of two products."""
    x = layers["embed"](words)
    q, k, v = layers["qkv"](x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    x = x + layers["project"](attend(q, k, v).transpose(1, 2).flatten(2))
    return layers["predict"](x + layers["narrow"](gelu(layers["widen"](x))))


def losses(attend, device):
    """The loss of each of eight steps, and the gradients of the first."""
    torch.manual_seed(0)
    layers = nn.ModuleDict({"embed": nn.Embedding(WORDS, WIDTH)})
    layers.update({name: nn.Linear(*sizes) for name, sizes in SIZES.items()})
    words = (torch.arange(TOKENS + 1, device=device) ** 2 % WORDS).expand(2, -1)
    optimiser = torch.optim.Adam(layers.to(device).parameters(), lr=0.01)
    values, gradients = [], None
    for _ in range(8):
        loss = cross_entropy(block(layers, attend, words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        gradients = gradients or [parameter.grad.clone() for parameter in layers.parameters()]
        optimiser.step()
        values.append(loss.item())
    return values, gradients


def test_it_trains_as_with_pytorchs_attention(device):
    values, gradients = losses(lambda q, k, v: attention(q, k, v, causal=True), device)
    theirs = losses(lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True), device)
    for gradient, exact in zip(gradients, theirs[1], strict=True):
        torch.testing.assert_close(gradient, exact, rtol=1e-4, atol=1e-6)
    assert values == pytest.approx(theirs[0], rel=1e-3)
    assert values[-1] < values[0] / 2
