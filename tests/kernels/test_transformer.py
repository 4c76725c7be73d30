"""A transformer block whose scaled_dot_product_attention is replaced in one line trains as it did before."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from kernels import attention

WIDTH, HEADS, TOKENS, WORDS = 32, 2, 24, 11


class Block(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attend = attend
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.predict = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.embed(words)
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.project(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return self.predict(x + self.mlp(x))


def ours(q, k, v):
    return attention(q, k, v, causal=True)


def pytorchs(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def losses(attend, device, steps):
    """The loss of each step, and the gradients of the first."""
    torch.manual_seed(0)
    block = Block(attend).to(device)
    words = (torch.arange(TOKENS + 1, device=device) ** 2 % WORDS).expand(2, -1)
    optimiser = torch.optim.Adam(block.parameters(), lr=0.01)
    values, gradients = [], None
    for _ in range(steps):
        loss = cross_entropy(block(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        gradients = gradients or [parameter.grad.clone() for parameter in block.parameters()]
        optimiser.step()
        values.append(loss.item())
    return values, gradients


def test_it_trains_as_with_pytorchs_attention(device):
    steps = 8
    values, gradients = losses(ours, device, steps)
    expected, expected_gradients = losses(pytorchs, device, steps)
    for gradient, exact in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, exact, rtol=1e-4, atol=1e-6)
    assert values == pytest.approx(expected, rel=1e-3)
    assert values[-1] < values[0] / 2
