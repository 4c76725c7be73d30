"""How much of a cache is used between two uses of the same bytes, as programs walk over what they share.

Programs start in launch order where a slot falls free, and each uses one chunk of its stream, say a head's K
and V, at a step of time. Programs that stand at the same chunk use it together.
"""

from dataclasses import dataclass

import numpy as np

AT_ONCE = 64  # steps, a fraction of a millisecond
ROUNDING = 1e-9  # of a step: so close to its end a program has ended
GROUPS = 8  # of SMs that are equally fast, as many as an H200 has GPCs


@dataclass(frozen=True)
class Programs:
    """Programs in launch order; arrays are [programs]."""

    stream: np.ndarray  # what each walks over, counted from 0; equal numbers share it
    # first, stop: the chunks that it visits, first to stop - 1
    first: np.ndarray
    stop: np.ndarray
    reverse: bool  # whether it visits them from the last to the first
    around: float  # what each moves alone, half of it when it starts and half when it ends
    visit: float  # what each moves alone at every chunk
    pace: np.ndarray  # chunks that each gets through in a step, at most 1


@dataclass(frozen=True)
class _Launched:
    """When programs run and how fast, in launch order; arrays are [launched]: those that were reached."""

    start: np.ndarray  # step at which each starts
    lasts: np.ndarray  # steps that it takes
    rate: np.ndarray  # chunks that it gets through in a step

    stop = property(lambda self: self.start + self.lasts, doc="The step after its last.")


@dataclass(frozen=True)
class Reuse:
    """Chunks that were used before, long ago: arrays are [uses]."""

    size: np.ndarray  # of the chunk
    since: np.ndarray  # of what else was used in between, each once
    walked: float  # programs that were followed; a fraction where some were left on their way


def walk(
    programs: Programs,
    sizes: np.ndarray,
    sms: int,
    places: int,
    most_steps: int,
    apart: float = 0.0,
    spreading: float = 0.0,
    least: float = 0.0,
) -> Reuse:
    """Follow programs for so many steps at most.

    sizes is [chunks], of a stream's chunks; sms * places programs run at once, place after place. The
    slowest group of SMs is slower than the fastest by apart, a share. Those on an SM begin in step; in every
    turn a share, spreading, of what is missing to even distances between them is made up. Where less than
    least was used in between, a use is left out.

    Two programs walk over the same three chunks one after the other, and use two others between two uses:

    >>> none, three = np.zeros(2, int), np.full(2, 3)
    >>> two = Programs(none, none, three, reverse=False, around=0.0, visit=0.0, pace=np.ones(2))
    >>> walk(two, np.ones(3), sms=1, places=1, most_steps=10).since.tolist()
    [2.0, 2.0, 2.0]
    """
    slots = np.arange(min(sms * places, len(programs.stream)))
    speed, behind = 1 - apart * (slots % sms % GROUPS) / (GROUPS - 1), slots // sms / places
    run = _launched(programs, speed, behind, spreading, most_steps)
    steps = min(most_steps, int(run.stop.max()))
    step, chunk = _uses(programs, len(sizes), run, steps)
    size = sizes[chunk % len(sizes)]
    started = np.bincount(run.start, minlength=steps)
    ended = np.bincount(run.stop - 1, minlength=steps)[:steps]
    running = started.cumsum() - ended.cumsum() + ended
    used = (started + ended) * programs.around / 2 + running * programs.visit + np.bincount(step, size, steps)
    again = (chunk[1:] == chunk[:-1]).nonzero()[0]
    again = again[np.argsort(step[1:][again].astype(np.uint16), kind="stable")]  # 16 bits: by radix, fast
    before, step, size = step[again], step[again + 1], size[again]
    until = np.append(0.0, used.cumsum())
    # some of it may be used twice
    long = until[step] - until[before + 1] + (used[before] + used[step]) / 2 >= least
    since, size = _since(step, before, size, used, long), size[long]
    walked = float(np.minimum((steps - run.start) / run.lasts, 1).sum())
    return Reuse(size[since >= least], since[since >= least], walked)


def _launched(
    programs: Programs, speed: np.ndarray, behind: np.ndarray, spreading: float, most_steps: int
) -> _Launched:
    """Programs as they take, in launch order, the slots [slots] of some speeds, in the end so far behind."""
    count, visits = len(programs.stream), np.maximum(programs.stop - programs.first, 1)
    if count and np.ptp(visits) == np.ptp(programs.pace) == 0:
        start, stop = _runs(
            visits[0] / programs.pace[0], speed, spreading * behind, spreading, most_steps, count
        )
        return _Launched(start, stop - start, visits[0] / (stop - start))
    start, stop = np.zeros(count, np.int64), np.zeros(count, np.int64)
    free, due = np.zeros(len(speed)), np.zeros(len(speed), np.int64)  # when slots fall free, and their step
    later, launched = spreading * behind, 0  # of a program's time, by which it ends later
    while launched < count and due.min() < most_steps:
        slots = np.argsort(due, kind="stable")[: count - launched]
        slots = slots[due[slots] < most_steps]
        new = slice(launched, launched + len(slots))
        ends = free[slots] + visits[new] * (1 + later[slots]) / (speed[slots] * programs.pace[new])
        stops, begins = (ends + ROUNDING).astype(np.int64), due[slots]
        # those whose slots all fall free before any that another of them takes
        together = np.append(True, begins[1:] < np.minimum.accumulate(stops)[:-1])
        many = len(slots) if together.all() else int(together.argmin())
        slots, new = slots[:many], slice(launched, launched + many)
        start[new], stop[new] = begins[:many], stops[:many]
        free[slots], due[slots] = ends[:many], stops[:many]
        later[slots] *= 1 - spreading
        launched += many
    start, lasts = start[:launched], (stop - start)[:launched]
    return _Launched(start, lasts, visits[:launched] / lasts)


def _runs(
    takes: float, speed: np.ndarray, later: np.ndarray, spreading: float, most_steps: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Steps at which programs start and stop that all take as long, so that any may be a slot's next."""
    enough = -(-count // len(speed))  # runs of each slot, by whose end as many programs have started
    rounds = int(min(most_steps / takes, enough * (1 + later.max()) / speed.min())) + 2
    lasts = (1 + np.outer(later, (1 - spreading) ** np.arange(rounds))) * (takes / speed)[:, None]
    stop = (lasts.cumsum(1) + ROUNDING).astype(np.int64)
    start = np.hstack([np.zeros((len(speed), 1), np.int64), stop[:, :-1]]).ravel()
    order = np.argsort(start, kind="stable")  # of several at a step that of the first slot
    order = order[start[order] < most_steps][:count]
    return start[order], stop.ravel()[order]


def _uses(programs: Programs, chunks: int, run: _Launched, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(step, chunk), each [uses], by chunk and step; a chunk's number has its stream's in it."""
    launched = len(run.start)
    stream, ahead = programs.stream[:launched], -1 if programs.reverse else 1
    begun = stream * chunks + (programs.stop - 1 if programs.reverse else programs.first)[:launched]
    visits = np.rint(run.rate * run.lasts).astype(np.int64)
    # of programs that walk together one is enough
    longest = int(run.lasts.max()) + 1
    alike = ((begun * (steps + 1) + run.start) * longest + run.lasts) * (chunks + 1) + visits
    order = np.argsort(alike)
    one = order[_first(alike[order])]
    lasts = np.minimum(run.stop[one], steps) - run.start[one]
    walked = np.arange(lasts.sum()) - np.repeat(lasts.cumsum() - lasts, lasts)
    passed = (walked * np.repeat(run.rate[one], lasts) + ROUNDING).astype(np.int64)
    step, chunk = np.repeat(run.start[one], lasts) + walked, np.repeat(begun[one], lasts) + ahead * passed
    places = np.sort(chunk * steps + step)
    chunk, step = np.divmod(places[_first(places)], steps)
    return step, chunk


def _first(ordered: np.ndarray) -> np.ndarray:
    """Which of the values are the first of their kind; np.unique hashes them, 20 times as long."""
    return np.append(True, ordered[1:] != ordered[:-1])


def _since(
    step: np.ndarray, before: np.ndarray, size: np.ndarray, used: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """[asked uses] of what was used in between, each once: uses of one step come in any order.

    So it is all that is used after the step before and ahead of this one, half of what else these two use,
    and three quarters of what both do. Uses are by step; asked is [uses], whether to say it of each; used is
    [steps], of all that a step uses.
    """
    since, last = np.zeros(len(step)), used.copy()  # by the step of its last use so far
    edges = np.searchsorted(step, np.arange(0, len(used) + AT_ONCE, AT_ONCE)).tolist()
    for first, begin, end in zip(range(0, len(used), AT_ONCE), edges, edges[1:], strict=False):
        some, stop = np.arange(begin, end), min(first + AT_ONCE, len(used))
        if len(far := some[asked[begin:end]]):
            oldest = before[far].min()
            young = some[before[begin:end] >= oldest]
            steps = stop - oldest
            # [steps from the first, steps]: what is used again by each step, by the step of its use before
            places = (step[young] - first + 1) * steps + before[young] - oldest
            gone = np.bincount(places, size[young], (AT_ONCE + 1) * steps).reshape(-1, steps)
            until = np.zeros((AT_ONCE + 1, steps + 1))
            np.cumsum(last[oldest:stop] - gone.cumsum(0), axis=1, out=until[:, 1:])
            now, begun, ended = step[far] - first, before[far] - oldest, step[far] - oldest
            apart = until[now, ended] - until[now, begun + 1]
            together = until[now + 1, ended + 1] - until[now + 1, begun] - size[far]
            both = used[before[far]] + used[step[far]] - together - 2 * size[far]  # in steps side by side
            since[far] = (apart + together) / 2 + (step[far] == before[far] + 1) * both / 4
        last -= np.bincount(before[begin:end], size[begin:end], len(used))
    return since[asked]
