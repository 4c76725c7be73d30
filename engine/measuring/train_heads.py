"""python -m engine train-heads: trains the small model on a text, by this project's kernels."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.measuring.machine import Library, kernels, torch
from engine.parser import Parser, to_write, whole
from engine.small.model import EPSILON, Shape, SmallModel, rotated
from engine.small.scores import scores
from engine.small.tokens import BEGIN, Tokens, trained

functional = Library("torch.nn.functional")
SEED = 0
HELD_OUT = 0.05  # of the text, on which the loss is measured
PASSAGE = 512  # tokens of its end, on which heads are scored
REPEATS, SHORTEST = 2, 4  # one sequence of so many is a piece of random tokens, again and again
WARM, RATE, DECAY, CLIP = 100, 3e-3, 0.1, 1.0  # steps; of AdamW
SAMPLED = 50  # steps between two losses that are kept
WRAPPED = re.compile(r"(?<!\n)\n(?!\n)")  # the end of a line within a paragraph


def main(arguments: list[str]) -> None:
    """Write the model and, beside it, its losses as JSON."""
    parser = Parser("engine train-heads", __doc__)
    parser.add_argument("--text", type=Path, required=True, help="what it learns from")
    parser.add_argument("--out", type=to_write, required=True, help="the .safetensors to write")
    parser.add_argument("--steps", type=whole, default=4200, help="default %(default)s")
    parser.add_argument("--batch", type=whole, default=16, help="sequences of a step; default %(default)s")
    parser.add_argument("--context", type=whole, default=1024, help="tokens of one; default %(default)s")
    given = parser.parse_args(arguments)
    try:
        text = WRAPPED.sub(" ", given.text.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"text is {str(given.text)!r:.60}, which cannot be read: {error}")
    shape = replace(Shape(), context=given.context)
    tokens = trained(text, shape.vocabulary)
    learns = np.array(tokens.encoded(text)[1:], np.int64)
    if len(learns) < 40 * shape.context:
        parser.error(f"text has {len(learns):,} tokens; it must have at least {40 * shape.context:,}")
    model, losses = learned(shape, tokens, learns, given.steps, given.batch)
    card = {"text": given.text.name, "tokens": len(learns), "batch": given.batch, "seed": SEED}
    card["scores"] = scores(model, learns[-PASSAGE:])
    given.out.write_bytes(model.packed())
    given.out.with_suffix(".json").write_text(json.dumps(card | losses) + "\n", "utf-8")
    print(f"{given.out}: loss {losses['held out'][-1]:.3f} on the text held out, {losses['seconds']:.0f} s")


def learned(
    shape: Shape, tokens: Tokens, learns: np.ndarray, steps: int, batch: int
) -> tuple[SmallModel, dict[str, Any]]:
    """A model and its losses: of some steps, on what they learnt from and on the text held out."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEED)
    weights = {
        name: torch.nn.Parameter(_begun(name, size, shape).to(device))
        for name, size in shape.matrices().items()
    }
    matrices = [each for each in weights.values() if each.ndim == 2]
    others = [each for each in weights.values() if each.ndim == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), fused=device == "cuda")
    last, generator = int(len(learns) * (1 - HELD_OUT)), np.random.default_rng(SEED)
    loss_of = partial(_loss, shape, weights, _turns(shape, device))
    starts = np.arange(last, len(learns) - shape.context, shape.context)[:batch]
    held_out = _on(device, learns[starts[:, None] + np.arange(shape.context)])
    said: dict[str, list] = {"step": [], "loss": [], "held out": []}
    began = time.perf_counter()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = _rate(step, steps)
        loss = loss_of(_on(device, _batch(learns[:last], shape.context, batch, generator)))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), CLIP)
        optimizer.step()
        if step % SAMPLED == 0 or step == steps - 1:
            with torch.no_grad():
                found = step, loss.item(), loss_of(held_out).item()
            for each, value in zip(said.values(), found, strict=True):
                each.append(round(value, 4))
    gpu = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    found = {name: each.detach().float().cpu().numpy() for name, each in weights.items()}
    said |= {"seconds": round(time.perf_counter() - began, 1), "gpu": gpu}
    return SmallModel(shape, found, tokens), said


def _batch(learns: np.ndarray, context: int, batch: int, generator: np.random.Generator) -> np.ndarray:
    """[batch, context] tokens: passages of the text, and pieces of random tokens that are repeated."""
    starts = generator.integers(0, len(learns) - context, batch)
    rows = learns[starts[:, None] + np.arange(context)]
    for row in rows[::REPEATS]:
        length = math.exp(generator.uniform(math.log(SHORTEST), math.log(context // 2)))
        row[:] = np.resize(generator.choice(learns, round(length)), context)
    return rows


def _on(device: str, rows: np.ndarray) -> Any:
    """[batch, 1 + context] on the GPU, BEGIN first."""
    return torch.from_numpy(np.pad(rows, ((0, 0), (1, 0)), constant_values=BEGIN)).to(device)


def _begun(name: str, size: tuple[int, ...], shape: Shape) -> Any:
    if len(size) == 1:
        return torch.zeros(size) if name.endswith("bias") else torch.ones(size)
    spread = 0.02 if name == "words" else size[1] ** -0.5
    through = name.endswith((".o", ".down"))
    return torch.randn(size) * (spread / math.sqrt(2 * shape.layers) if through else spread)


def _rate(step: int, steps: int) -> float:
    if step < WARM:
        return RATE * (step + 1) / WARM
    return RATE * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - WARM) / max(1, steps - WARM))))


def _turns(shape: Shape, device: str) -> tuple[Any, Any]:
    """Cosines and sines of every position: what `rotated` makes of ones."""
    one = np.zeros((1, shape.context, shape.head_dim), np.float32)
    one[..., : shape.head_dim // 2] = 1
    turned = torch.from_numpy(rotated(one, shape.base)[0]).to(device)
    return turned.chunk(2, -1)


def _loss(shape: Shape, weights: dict[str, Any], turns: tuple[Any, Any], rows: Any) -> Any:
    """Of every next token, in nats; matrices multiply in bfloat16 on a GPU, sums stay in float32."""
    low = torch.bfloat16 if rows.is_cuda else torch.float32
    lowered = {name: each.to(low) for name, each in weights.items()}
    x = functional.embedding(rows[:, :-1], weights["words"])
    for layer in range(shape.layers):
        normed = functional.rms_norm(x, (shape.width,), weights[f"{layer}.norm attention"], EPSILON)
        parts = normed.to(low) @ lowered[f"{layer}.qkv"].T + lowered[f"{layer}.qkv bias"]
        parts = parts.unflatten(-1, (-1, shape.head_dim)).transpose(1, 2)
        q, k, v = parts.split((shape.heads, shape.kv_heads, shape.kv_heads), 1)
        q, k = (_turned(each, turns) for each in (q, k))
        out = kernels.attention(q, k, v, causal=True, window=shape.window_of(layer))
        out = out.transpose(1, 2).flatten(2)
        x = x + out.to(low) @ lowered[f"{layer}.o"].T
        normed = functional.rms_norm(x, (shape.width,), weights[f"{layer}.norm mlp"], EPSILON)
        gate, up = (normed.to(low) @ lowered[f"{layer}.up"].T).chunk(2, -1)
        x = x + (functional.silu(gate) * up) @ lowered[f"{layer}.down"].T
    logits = functional.rms_norm(x, (shape.width,), weights["norm"], EPSILON).to(low) @ lowered["words"].T
    return functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


def _turned(x: Any, turns: tuple[Any, Any]) -> Any:
    cos, sin = (each.to(x.dtype) for each in turns)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
