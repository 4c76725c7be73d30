"""What bytes over time add up to, how many cross at the peak, and the waves in which a call fetches."""

from dataclasses import dataclass

import numpy as np

from engine.studies.hbm_over_time import Flow

SHORTEST = 4e-6  # seconds over which a rate is told, and of a long call
SHARE = 64  # this part of it
CLEAR = 2.0  # times the mean rate of reads, over which a wave begins; it ends below the mean


@dataclass(frozen=True)
class Outline:
    """A call's bytes over time in a few numbers."""

    total: float  # bytes read and written, with those that are left in L2 at the end
    peak: float  # read and written together, bytes per second
    waves: tuple[float, ...]  # when each begins, shares of the call


def outline(flow: Flow) -> Outline:
    """Of a call, modelled or sampled.

    >>> outline(Flow(4e-6, np.array([9, 0, 0, 9, 0, 0]), np.zeros(6), left=0.0)).waves
    (0.0, 0.5)
    """
    read, both = flow.read, flow.read + flow.written
    over = np.ones(max(1, round(SHORTEST / flow.interval), len(read) // SHARE))  # intervals
    reads, rates = (np.convolve(bytes_, over, "same") / len(over) for bytes_ in (read, both))
    waves, within = [], False
    for at, rate in enumerate(reads):
        if not within and rate > CLEAR * read.mean():
            waves.append(at / len(reads))
        within = rate > (1 if within else CLEAR) * read.mean()
    return Outline(float(both.sum() + flow.left), float(rates.max()) / flow.interval, tuple(waves))
