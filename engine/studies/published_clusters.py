"""Figures that others published of attention over several GPUs, each beside what the model says of it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.cluster.fabric import HOST, LOSS, NETWORK, NETWORK_SHARE, SEND_LATENCY, SENT_SHARE
from engine.model.cluster.seconds import MERGING_SHARE, TAIL, Rounds, hidden_from

MODEL_405B = {"parameters": 405e9, "layers": 126, "heads": 128, "kv_heads": 8, "head_dim": 128}
CARD = NETWORK_SHARE * NETWORK  # bytes/s that a GPU gets through its network card


@dataclass(frozen=True)
class Published:
    """A published figure and the model's; `note` says what the model takes from the same source.

    Attributes:
        unit: "tokens", "share" (0 to 1) or "s".
        fitted: the model's rate was set from this figure.
    """

    what: str
    source: str
    published: float
    modelled: float
    unit: str
    note: str = ""
    fitted: bool = False

    @property
    def error(self) -> float:
        """By how much the model is above it, as a share of it."""
        return self.modelled / self.published - 1


def published() -> tuple[Published, ...]:
    """All of them."""
    return (*_ring_attention(), *_zigzag(), *_prefill(), _training())


def _ring_attention() -> list[Published]:
    """The tokens per GPU from which a ring hides its transfers, at peak rates."""
    source = "Ring Attention, arXiv 2310.01889, Table 2"
    links = {"A100, NVLink": (300e9, 1000), "A100, InfiniBand": (12.5e9, 24_500)}
    return [
        Published(f"tokens per GPU that hide transfers, {name}", source, tokens, hidden, "tokens")
        for name, (rate, tokens) in links.items()
        for hidden in [hidden_from(312e12, rate, 2, 1, 1, causal=False)]
    ]


def _zigzag() -> list[Published]:
    """8 H800s (NVLink, 200 GB/s in one direction), 8,192 tokens each, 32 heads on 8, d 128, causal."""
    source, note = "zhuzilin/ring-flash-attention, README", "kernel's own time taken from the same table"
    tokens, gpus, alone = 8192, 8, 1 / 591.5
    transfer = SEND_LATENCY + 2 * 8 * tokens * 128 * 2 / (SENT_SHARE * 200e9)
    merging = (gpus + 1) * tokens * 32 * 128 * 2 / (MERGING_SHARE * 3350e9)
    found = []
    for name, other, efficiency in (("plain", 2 * alone, 0.521), ("zigzag", alone, 0.852)):
        seconds = Rounds(gpus, alone, other, transfer, LOSS).seconds + gpus * TAIL + merging
        found.append(
            Published(
                f"efficiency, 8 H800s, {name}", source, efficiency, gpus * alone / seconds, "share", note
            )
        )
    return found


def _work(tokens: int) -> float:
    """FLOPs of a forward pass of the 405B model: its matrices, and causal attention."""
    attention = 4 * tokens**2 / 2 * MODEL_405B["heads"] * MODEL_405B["head_dim"] * MODEL_405B["layers"]
    return 2 * MODEL_405B["parameters"] * tokens + attention


def _prefill() -> list[Published]:
    """Llama 3 405B on hosts of 8 H100s, a ring of hosts for each eighth of the heads."""
    source = "Meta, arXiv 2411.01783"
    rows = [(2**17, 2, 21.04), (2**17, 4, 10.95), (2**17, 8, 5.85), (2**17, 16, 3.8), (2**20, 16, 77.0)]
    fitted_tokens, fitted_hosts, fitted_seconds = rows[0]
    rate = _work(fitted_tokens) / fitted_hosts / (fitted_seconds - _around(fitted_tokens, fitted_hosts))
    found = []
    for tokens, hosts, seconds in rows:
        said = _work(tokens) / hosts / rate + _around(tokens, hosts)
        what = f"prefill of {'1M' if tokens > 2**17 else '128k'} tokens, {hosts} hosts"
        fitted = (tokens, hosts) == (fitted_tokens, fitted_hosts)
        note = "rate set from this row" if fitted else "rate of the row of 2 hosts"
        found.append(Published(what, source, seconds, said, "s", note, fitted))
    return found


def _around(tokens: int, hosts: int) -> float:
    """Seconds of the rounds' ends, and what computing loses beside transfers, which all hide here."""
    block = 2 * tokens / hosts * MODEL_405B["kv_heads"] / HOST * MODEL_405B["head_dim"] * 2
    transfer = SEND_LATENCY + block / CARD
    return MODEL_405B["layers"] * (hosts * TAIL + (hosts - 1) * LOSS * transfer)


def _training() -> Published:
    """Llama 3 405B, 131,072 tokens over 16 GPUs by all-gather, of which nothing is hidden."""
    tokens, ranks, rate = 2**17, 16, 400e12
    keys = 2 * tokens * MODEL_405B["kv_heads"] / HOST * MODEL_405B["head_dim"] * 2
    gather = SEND_LATENCY + keys * (ranks - 1) / ranks / CARD
    computing = _work(tokens) / MODEL_405B["layers"] / ranks / HOST / rate
    return Published(
        "loss of rate by 16 GPUs per sequence, Llama 3 405B",
        "Llama 3, arXiv 2407.21783, Table 4: 400 to 380 TFLOP/s",
        1 - 380 / 400,
        gather / (gather + computing),
        "share",
        "rate of 8,192 tokens taken from the same table; other causes are not modelled",
    )
