"""python -m engine train-heads: trains the small model on a text, by this project's kernels and PyTorch's."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.parser import Parser, to_write, whole
from engine.small.model import EPSILON, Shape, SmallModel, rotated
from engine.small.tokens import Merges, encoded, trained

OURS, PYTORCH = WAYS = ("kernels", "pytorch")
HELD_OUT = 0.05  # of the text, on which the loss is measured
WARM, RATE, DECAY, CLIP = 100, 3e-3, 0.1, 1.0  # steps; of AdamW
SAMPLED = 50  # steps between two losses that are kept


def main(arguments: list[str]) -> int:
    """Write the model and, beside it, its losses as JSON; returns the exit code."""
    parser = Parser("engine train-heads", __doc__)
    parser.add_argument("--text", type=Path, required=True, help="what it learns from")
    parser.add_argument("--out", type=to_write, required=True, help="the .safetensors to write")
    parser.add_argument("--steps", type=whole, default=1500, help="default %(default)s")
    parser.add_argument("--batch", type=whole, default=32, help="sequences of a step; default %(default)s")
    parser.add_argument("--context", type=whole, default=1024, help="tokens of one; default %(default)s")
    parser.add_argument("--seed", type=whole, default=0, help="default %(default)s")
    given = parser.parse_args(arguments)
    try:
        text = given.text.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"text is {str(given.text)!r:.60}, which cannot be read: {error}")
    shape = replace(Shape(), context=given.context)
    merges = trained(text[: 2**20], shape.vocabulary)
    tokens = np.array(encoded(text, merges), np.int32)
    if len(tokens) < 40 * shape.context:
        parser.error(f"text has {len(tokens):,} tokens; it must have at least {40 * shape.context:,}")
    card: dict[str, Any] = {
        "text": given.text.name,
        "tokens": len(tokens),
        "steps": given.steps,
        "batch": given.batch,
    }
    for way in reversed(WAYS):  # what is kept is trained by this project's kernels
        model, card[way] = learned(shape, merges, tokens, given.steps, given.batch, given.seed, way)
        print(f"{way}: {json.dumps(card[way])}", flush=True)
    given.out.write_bytes(model.packed())
    given.out.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n", "utf-8")
    return 0


def learned(
    shape: Shape, merges: Merges, tokens: np.ndarray, steps: int, batch: int, seed: int, way: str
) -> tuple[SmallModel, dict[str, Any]]:
    """A model and its losses: of the steps, and at last on the text that was held out."""
    import torch

    from kernels import attention  # before PyTorch: its interpreter must come before Triton does

    device = "cuda" if torch.cuda.is_available() else "cpu"
    attend = partial(attention, causal=True) if way == OURS else _attention
    torch.manual_seed(seed)
    weights = {
        name: torch.nn.Parameter(_begun(name, size, shape).to(device))
        for name, size in shape.matrices().items()
    }
    decayed = [each for each in weights.values() if each.ndim == 2]
    others = [each for each in weights.values() if each.ndim == 1]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), fused=device == "cuda")
    last = int(len(tokens) * (1 - HELD_OUT))
    text = torch.from_numpy(tokens.astype(np.int64)).to(device)
    turns = _turns(shape, device)
    generator, losses, began = np.random.default_rng(seed), [], time.perf_counter()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = _rate(step, steps)
        starts = generator.integers(0, last - shape.context - 1, batch)
        loss = _loss(shape, weights, text, starts, turns, attend)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), CLIP)
        optimizer.step()
        if step % SAMPLED == 0 or step == steps - 1:
            losses.append((step, round(loss.item(), 4)))
    with torch.no_grad():
        starts = np.arange(last, len(tokens) - shape.context - 1, shape.context)[:batch]
        held_out = _loss(shape, weights, text, starts, turns, attend).item()
    found = {name: each.detach().float().cpu().numpy() for name, each in weights.items()}
    said = {
        "losses": losses,
        "held_out": round(held_out, 4),
        "seconds": round(time.perf_counter() - began, 1),
    }
    return SmallModel(shape, found, merges), said | {"device": _named(device)}


def _named(device: str) -> str:
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def _begun(name: str, size: tuple[int, ...], shape: Shape) -> Any:
    import torch

    if len(size) == 1:
        return torch.ones(size)
    spread = 0.02 if name == "words" else size[1] ** -0.5
    through = name.endswith((".o", ".down"))
    return torch.randn(size) * (spread / math.sqrt(2 * shape.layers) if through else spread)


def _rate(step: int, steps: int) -> float:
    if step < WARM:
        return RATE * (step + 1) / WARM
    return RATE * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - WARM) / max(1, steps - WARM))))


def _turns(shape: Shape, device: str) -> tuple[Any, Any]:
    """Cosines and sines of every position: what `rotated` makes of ones."""
    import torch

    one = np.zeros((1, shape.context, shape.head_dim), np.float32)
    one[..., : shape.head_dim // 2] = 1
    turned = torch.from_numpy(rotated(one, shape.base)[0]).to(device)
    return turned.chunk(2, -1)


def _loss(
    shape: Shape,
    weights: dict[str, Any],
    text: Any,
    starts: np.ndarray,
    turns: tuple[Any, Any],
    attend: Callable,
) -> Any:
    import torch
    from torch.nn import functional as F  # noqa: N812

    places = torch.from_numpy(starts[:, None] + np.arange(shape.context + 1)).to(text.device)
    rows = text[places]
    x = F.embedding(rows[:, :-1], weights["words"])
    low = torch.bfloat16 if text.device.type == "cuda" else torch.float32
    for layer in range(shape.layers):
        named = {name.split(".")[1]: each for name, each in weights.items() if name.startswith(f"{layer}.")}
        normed = F.rms_norm(x, (shape.width,), named["norm attention"], EPSILON)
        parts = (normed.to(low) @ named["qkv"].to(low).T).unflatten(-1, (-1, shape.head_dim)).transpose(1, 2)
        q, k, v = parts.split((shape.heads, shape.kv_heads, shape.kv_heads), 1)
        q, k = (_turned(each, turns) for each in (q, k))
        out = attend(q, k, v, window=shape.window_of(layer)).transpose(1, 2).flatten(2)
        x = x + (out.to(low) @ named["o"].to(low).T).float()
        normed = F.rms_norm(x, (shape.width,), named["norm mlp"], EPSILON)
        gate, up = (normed.to(low) @ named["up"].to(low).T).chunk(2, -1)
        x = x + ((F.silu(gate) * up) @ named["down"].to(low).T).float()
    logits = F.rms_norm(x, (shape.width,), weights["norm"], EPSILON).to(low) @ weights["words"].to(low).T
    return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


def _turned(x: Any, turns: tuple[Any, Any]) -> Any:
    import torch

    cos, sin = (each.to(x.dtype) for each in turns)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def _attention(q: Any, k: Any, v: Any, window: int | None) -> Any:
    """PyTorch's own."""
    import torch

    attend = partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, enable_gqa=True)
    if window is None:
        return attend(is_causal=True)
    places = torch.arange(q.shape[2], device=q.device)
    distance = places[:, None] - places
    return attend(attn_mask=(distance >= 0) & (distance < window))
