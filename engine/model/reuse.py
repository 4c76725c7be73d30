"""How much of a cache is used between two uses of the same bytes, as programs walk over what they share.

Programs start in launch order where a slot falls free, and each uses one chunk of its stream, say a head's K
and V, at a step of time. Programs that stand at the same chunk use it together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.problem.kept import give_way

AT_ONCE = 8  # steps, some milliseconds
DRIFT = 0.2  # of several blocks on an SM the last runs so much slower than the first, fitted to an H200
STRIDE = 0.618  # spreads the speeds of any number of SMs evenly, neighbours far apart


@dataclass(frozen=True)
class Programs:
    """Programs in launch order; arrays are [programs].

    Attributes:
        stream: what each walks over, counted from 0; equal numbers share it.
        first, stop: the chunks that it visits, first to stop - 1.
        reverse: whether it visits them from the last to the first.
        around: what each moves alone, half of it when it starts and half when it ends.
        visit: what each moves alone at every chunk.
        pace: chunks that each gets through in a step, at most 1.
    """

    stream: np.ndarray
    first: np.ndarray
    stop: np.ndarray
    reverse: bool
    around: float
    visit: float
    pace: np.ndarray


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


def walk(
    programs: Programs, sizes: np.ndarray, sms: int, places: int, most_steps: int, apart: float = 0.0
) -> Reuse:
    """Follow programs for so many steps at most.

    sizes is [chunks], of a stream's chunks; sms * places programs run at once, place after place. The
    slowest SM is slower than the fastest by apart, a share.
    """
    stream = programs.stream
    visits = np.maximum(programs.stop - programs.first, 1)
    ends = stream * len(sizes) + (programs.stop - 1 if programs.reverse else programs.first)
    ahead = -1 if programs.reverse else 1
    count, every = len(stream), np.tile(sizes, stream.max() + 1)
    slots = min(sms * places, count)
    speed = 1 - DRIFT * (np.arange(slots) // sms) / max(1, places - 1)
    speed *= 1 - apart * (np.arange(slots) % sms * STRIDE % 1)
    progress, waiting = np.zeros(slots), slots
    # of the programs that run
    begun, length, pace = ends[:slots].copy(), visits[:slots].copy(), programs.pace[:slots].copy()
    last = np.full(len(every), -1)  # step at which a chunk was last used
    here = np.zeros(len(every), bool)
    used = np.zeros(most_steps + 1)  # by the step of its last use
    used[0] = slots * programs.around / 2
    found: list[tuple[np.ndarray, np.ndarray]] = []
    step, ended = 0, 0
    while len(begun) and step < most_steps:
        if step % AT_ONCE == 0:
            give_way()
        here[begun + ahead * progress.astype(np.int64)] = True
        chunks = here.nonzero()[0]
        here[chunks] = False
        before, size = last[chunks], every[chunks]
        known = (before >= 0).nonzero()[0]
        if len(known):
            before, again = before[known], size[known]
            until = used[step::-1].cumsum()  # from each step to this one, the latest first
            found.append((again, until[step - 1 - before]))
            np.subtract.at(used, before, again)
        used[step] += size.sum() + len(begun) * programs.visit
        last[chunks] = step
        progress += speed * pace
        free = (progress >= length).nonzero()[0]
        step += 1
        if len(free):
            ended += len(free)
            started = min(len(free), count - waiting)
            now, new = free[:started], slice(waiting, waiting + started)
            begun[now], length[now], pace[now] = ends[new], visits[new], programs.pace[new]
            progress[now] = 0
            waiting += started
            used[step - 1] += len(free) * programs.around / 2
            used[step] += started * programs.around / 2
            if started < len(free):
                kept = np.ones(len(begun), bool)
                kept[free[started:]] = False
                begun, length, progress = begun[kept], length[kept], progress[kept]
                speed, pace = speed[kept], pace[kept]
    columns = zip(*found, strict=True) if found else ((np.zeros(0),),) * 2
    on_their_way = float((progress / length).sum())
    return Reuse(*(np.concatenate(column) for column in columns), ended + on_their_way)
