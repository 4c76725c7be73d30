"""How much of a cache is used between two uses of the same bytes, as programs walk over what they share.

Programs start in launch order where a slot falls free, and each uses one chunk of its stream, say a head's K
and V, at a step of time. Programs that stand at the same chunk use it together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DRIFT = 0.2  # of several blocks on an SM the last runs so much slower than the first, fitted to an H200


@dataclass(frozen=True)
class Programs:
    """Programs in launch order; arrays are [programs].

    Attributes:
        stream: what each walks over; equal numbers share it.
        first, stop: the chunks that it visits, first to stop - 1.
        reverse: whether it visits them from the last to the first.
        around: what each moves alone, half of it when it starts and half when it ends.
        visit: what each moves alone at every chunk.
    """

    stream: np.ndarray
    first: np.ndarray
    stop: np.ndarray
    reverse: bool
    around: float
    visit: float


@dataclass(frozen=True)
class Reuse:
    """Chunks that were used before: arrays are [uses].

    Attributes:
        size: of the chunk.
        since: of what else was used in between, each once.
        walked: programs that were followed; a fraction where some were left on their way.
    """

    size: np.ndarray
    since: np.ndarray
    walked: float


def walk(programs: Programs, sizes: np.ndarray, sms: int, places: int, most_steps: int) -> Reuse:
    """Follow programs for so many steps at most.

    sizes is [chunks], of a stream's chunks; sms * places programs run at once, place after place.
    """
    names, stream = np.unique(programs.stream, return_inverse=True)
    base, count = stream * len(sizes), len(stream)
    visits = np.maximum(programs.stop - programs.first, 1)
    slots = min(sms * places, count)
    place = np.arange(slots) // sms
    speed = 1 - DRIFT * place / max(1, places - 1)
    running, progress, waiting = np.arange(slots), np.zeros(slots), slots
    last = np.full(len(names) * len(sizes), -1)  # step at which a chunk was last used
    used = np.zeros(most_steps + 1)  # by the step of its last use
    used[0] = slots * programs.around / 2
    found: list[tuple[np.ndarray, np.ndarray]] = []
    step, ended = 0, 0
    while len(running) and step < most_steps:
        at = np.minimum(progress.astype(np.int64), visits[running] - 1)
        at = programs.stop[running] - 1 - at if programs.reverse else programs.first[running] + at
        here = np.zeros(len(last), bool)
        here[base[running] + at] = True
        chunks = here.nonzero()[0]
        before, size = last[chunks], sizes[chunks % len(sizes)]
        known = before >= 0
        if known.any():
            until = used[step::-1].cumsum()  # from each step to this one, the latest first
            found.append((size[known], until[step - 1 - before[known]]))
            np.subtract.at(used, before[known], size[known])
        used[step] += size.sum() + len(running) * programs.visit
        last[chunks] = step
        progress += speed
        done = progress >= visits[running]
        step += 1
        if done.any():
            free = np.flatnonzero(done)
            ended += len(free)
            started = min(len(free), count - waiting)
            running[free[:started]] = np.arange(waiting, waiting + started)
            progress[free[:started]] = 0
            waiting += started
            used[step - 1] += len(free) * programs.around / 2
            used[step] += started * programs.around / 2
            if started < len(free):
                kept = np.ones(len(running), bool)
                kept[free[started:]] = False
                running, progress, speed = running[kept], progress[kept], speed[kept]
    columns = zip(*found, strict=True) if found else ((np.zeros(0),),) * 2
    on_their_way = float((progress / visits[running]).sum())
    return Reuse(*(np.concatenate(column) for column in columns), ended + on_their_way)
