"""How the GPUs of a cluster are joined, and what of a link's peak a transfer reaches.

Shares and latencies are what transfers between 2 and 4 H200s took, and are taken to hold for other links; the
network's share is assumed.
"""

from dataclasses import dataclass

from engine.problem.hardware import LINKS

COPIED_SHARE, SENT_SHARE = 0.7778, 0.53  # of NVLink's peak: copy engines, NCCL
NETWORK_SHARE = 0.9  # of a network card's peak, assumed
COPY_LATENCY, SEND_LATENCY = 15e-6, 20e-6  # seconds before a transfer's first byte, its barrier included
HOST = 8  # GPUs that share NVLink
NVLINK, NETWORK = LINKS["NVLink 4"], LINKS["InfiniBand, 400 Gbit/s"]


@dataclass(frozen=True)
class Fabric:
    """GPUs in hosts: every two of a host joined at full speed (NVSwitch), hosts by a network card per GPU."""

    peak: float = NVLINK  # of a GPU's links within its host, bytes/s in one direction
    host: int = HOST  # GPUs of a host
    network: float = NETWORK  # peak of a GPU's network card, bytes/s in one direction

    def hosts(self, gpus: int) -> int:
        """Hosts that so many GPUs fill."""
        return -(-gpus // self.host)


USUAL = Fabric()


@dataclass(frozen=True)
class Way:
    """How bytes come into a GPU: bytes/s, seconds before the first, and whether a call runs meanwhile.

    NCCL's kernels take SMs, which a call that fills the GPU leaves only as it ends.
    """

    rate: float
    latency: float
    beside: bool

    def seconds(self, amount: float) -> float:
        """Of one transfer of so many bytes."""
        return self.latency + amount / self.rate

    def round(self, computing: float, transfer: float) -> float:
        """Seconds of a call and of the transfer of what the next one needs."""
        return max(computing, transfer) if self.beside else computing + transfer


def way(fabric: Fabric, gpus: int, copies: bool) -> Way:
    """Within a host by copy engines or by NCCL; of more GPUs than a host has, by the network, over NCCL."""
    if gpus > fabric.host:
        return Way(NETWORK_SHARE * fabric.network, SEND_LATENCY, False)
    if copies:
        return Way(COPIED_SHARE * fabric.peak, COPY_LATENCY, True)
    return Way(SENT_SHARE * fabric.peak, SEND_LATENCY, False)
