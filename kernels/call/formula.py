"""Attention by its formula in PyTorch's own operations, with S held whole: float64's, and what is traced."""

import torch


def attention_by_formula(
    q, k, v, seen, distance, scale, softcap=None, slopes=None, sinks=None
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and natural lse in the dtype of q, k and v; 0 and -inf for queries that see no key and have no sink.

    seen and distance, of a query and a key, broadcast to [batch, heads, seq_q, seq_kv].
    """
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = scale * (q @ k.mT)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if slopes is not None:
        scores = scores - slopes[..., None, None] * distance
    scores = torch.where(seen, scores, -torch.inf)
    if sinks is not None:  # one more key, without a value
        sinks = sinks[:, None, None].expand(*scores.shape[:-1], 1)
        scores, v = torch.cat([scores, sinks], -1), torch.nn.functional.pad(v, (0, 0, 0, 1))
    largest = scores.detach().amax(-1, keepdim=True)
    largest = torch.where(largest == -torch.inf, 0.0, largest)  # a row that sees no key
    weights = torch.exp(scores - largest)
    total = weights.sum(-1, keepdim=True)
    out = (weights @ v) / torch.where(total == 0.0, 1.0, total)
    return out, (largest + torch.log(total)).squeeze(-1)
