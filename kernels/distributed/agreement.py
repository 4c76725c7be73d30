"""What the ranks must agree on before a first transfer, and the sentences that say where they do not."""

import torch

from kernels.call.arguments import check_options, check_tensors
from kernels.call.device import device_of
from kernels.dispatch.dispatch import algorithms
from kernels.distributed.layout import Layout
from kernels.distributed.team import Team
from kernels.launch.launch import interpreted


def described(q, k, v, causal, window, scale, method, gradient: bool, methods: tuple[str, ...]) -> dict:
    """This rank's call for the others to compare; {"error": sentence} for one that no ranks could make."""
    try:
        check_tensors(q, k, v, interpreted())
        if (found := device_of(q.device)).amd:
            raise ValueError(
                f"q is on an AMD GPU ({found.architecture}), over several GPUs it must be NVIDIA's"
            )
        check_options(window, scale, "auto", None, None, None, algorithms())
        if isinstance(window, tuple | list):
            raise ValueError(f"window is {window!r}, over GPUs it must be None or a number of keys")
        if q.shape[2] != k.shape[2]:
            raise ValueError(f"k has {k.shape[2]} tokens and q {q.shape[2]}, they must be the same tokens")
        if v.shape[3] != q.shape[3]:
            raise ValueError(f"v has head_dim {v.shape[3]} and q {q.shape[3]}, over GPUs they must be alike")
        if method not in methods:
            raise ValueError(f"method is {method!r}, it must be one of {', '.join(methods)}")
    except (TypeError, ValueError) as error:
        return {"error": str(error), "kind": type(error).__name__}
    return {
        "device": q.device.type,
        "batch": q.shape[0],
        "heads": q.shape[1],
        "kv_heads": k.shape[1],
        "head_dim": q.shape[3],
        "tokens": q.shape[2],
        "dtype": str(q.dtype).removeprefix("torch."),
        "causal": bool(causal),
        "window": window,
        "scale": scale,
        "method": method,
        "gradient": gradient,
    }


def agreed(team: Team, own: dict) -> Layout:
    """The layout that all ranks' calls make; on every rank the same error where they make none.

    Every rank calls it. ValueError or TypeError names the ranks and what each of them has.
    """
    every = team.exchange(own)
    for rank, said in enumerate(every):
        if "error" in said:
            kind = TypeError if said["kind"] == "TypeError" else ValueError
            raise kind(said["error"] if team.size == 1 else f"rank {rank}: {said['error']}")
    for name in own:
        sentence = name != "tokens" and difference(name, [said[name] for said in every])
        if sentence:
            raise ValueError(sentence)
    layout = Layout(sum(said["tokens"] for said in every), team.size, own["causal"])
    for rank, said in enumerate(every):
        if layout.tokens < layout.chunks or said["tokens"] != layout.rows(rank):
            raise ValueError(_uneven(layout, rank, said["tokens"]))
    return layout


def difference(name: str, values: list) -> str | None:
    """Which ranks have which value, where they differ."""
    ranks: dict = {}
    for rank, value in enumerate(values):
        ranks.setdefault(str(value), []).append(rank)
    if len(ranks) == 1:
        return None
    said = "; ".join(f"{value} on {_named(which)}" for value, which in ranks.items())
    name = "whether a gradient is asked for" if name == "gradient" else name
    return f"the ranks differ in {name}: {said}; it must be the same on all"


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _uneven(layout: Layout, rank: int, tokens: int) -> str:
    order = f"{'zigzag' if layout.zigzag else 'plain'} order on {layout.ranks} ranks"
    if layout.tokens < layout.chunks:
        return f"the ranks hold {layout.tokens} tokens together, {order} needs at least {layout.chunks}"
    return (
        f"rank {rank} holds {tokens} of {layout.tokens} tokens, it must hold {layout.rows(rank)} in {order},"
        f" as shard(t, causal={layout.zigzag}) gives them"
    )


def differentiated(*tensors: torch.Tensor) -> bool:
    """Whether a gradient is asked for."""
    return torch.is_grad_enabled() and any(getattr(each, "requires_grad", False) for each in tensors)
