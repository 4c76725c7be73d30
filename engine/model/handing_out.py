"""In which order a launch's first blocks of threads go to SMs: GPC by GPC, read off traces of Hopper GPUs.

A turn gives every SM of one group a block. The groups are GPCs but for one, which is in two halves: one is
first, and its further turns come sooner than the others', three for 17 of theirs. All SMs get equally many in
such turns. Blocks that are left over go to that half, and what it has no SM for evenly to the parts of which
GPCs are made (CPCs), so that a group may leave its last SMs without. So did 298 traced launches on H100s and
H200s, but for what is left over by an SM or two per group; which group comes after that half differed from
launch to launch.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

SOONER = 8  # SMs of the half that is first
GROUPS = (
    (16, 3),
    (16, 3),
    (16, 3),
    (16, 3),
    (16, 3),
    (18, 3),
    (18, 3),
    (8, 2),
)  # the others: SMs, parts
SMS = SOONER + sum(sms for sms, _ in GROUPS)


@lru_cache(maxsize=256)
def first_sms(blocks: int, sms: int, start: int = 0) -> tuple[int, ...]:
    """[blocks] the SM of each of so many that all find a place at once; in turn where the GPU is another.

    start: the group that is first after the half.
    """
    if sms != SMS:
        return tuple(block % sms for block in range(blocks))
    rounds, rest = divmod(blocks, sms)
    found: list[int] = []
    sooner = 0
    for turn in range(rounds * len(GROUPS)):
        if sooner < rounds and turn == 17 * sooner // 3:
            found += range(SOONER)
            sooner += 1
        found += _of_group((start + turn) % len(GROUPS))
    found += range(min(rest, SOONER))
    shares = _shares(max(0, rest - SOONER))
    for group in (*range(start, len(GROUPS)), *range(start)):
        found += _of_group(group)[: shares[group]]
    return tuple(found)


def _of_group(group: int) -> range:
    first = SOONER + sum(sms for sms, _ in GROUPS[:group])
    return range(first, first + GROUPS[group][0])


def _shares(rest: int) -> list[int]:
    """[groups] of what is left over: one for each part in turn, while its group has SMs."""
    shares, waiting = [0] * len(GROUPS), deque()
    for part in range(max(parts for _, parts in GROUPS)):
        waiting.extend(group for group, (_, parts) in enumerate(GROUPS) if part < parts)
    while rest:
        group = waiting.popleft()
        if shares[group] < GROUPS[group][0]:
            shares[group] += 1
            rest -= 1
            waiting.append(group)
    return shares
