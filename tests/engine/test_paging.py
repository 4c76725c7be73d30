"""A cache in pages: who has which page and what lies unused, against slots counted one by one."""

from itertools import pairwise

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.studies.paging import MOST_ROOM, PAGE_SIZES, SEQUENCES, lengths_of, paging_of

LONG = Experiment.of(heads=32, kv_heads=8, seq=1, seq_kv=65536, head_dim=128)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("sequences", SEQUENCES[::3])
def test_every_key_has_a_slot_of_its_own(sequences, page_size):
    paging = paging_of(LONG.problem, sequences, page_size)
    pool = np.full((paging.pages, page_size), -1)
    for sequence, (pages, length) in enumerate(zip(paging.table, paging.lengths, strict=True)):
        for key in range(length):
            slot = pages[key // page_size], key % page_size
            assert pool[slot] == -1
            pool[slot] = sequence
    taken = (pool >= 0).any(1)
    assert (pool >= 0).sum() == sum(lengths_of(sequences, MOST_ROOM))
    assert paging.taken == taken.sum() == sum(-(-length // page_size) for length in paging.lengths)
    assert sum(paging.unused) == paging.unused_slots == (pool[taken] < 0).sum()
    assert (paging.taken_slots, paging.idle_slots) == (pool[taken].size, (pool < 0).sum())
    assert paging.shares == pytest.approx(((pool[taken] < 0).mean(), (pool < 0).mean()), rel=1e-9)
    assert paging.table_bytes == 4 * taken.sum()
    assert np.array_equal(paging.owners[:, 0], pool[:, 0])  # a page is filled from its first slot on
    assert np.array_equal(paging.owners[:, 1], (pool >= 0).sum(1))
    free = paging.pages - taken.sum()
    average = taken.sum() / sequences
    assert paging.more * average <= free < (paging.more + 1) * average


def test_prompts_lie_together_and_what_is_generated_takes_turns():
    first, second = paging_of(LONG.problem, 2, 16).table
    prompt = -(-(paging_of(LONG.problem, 2, 16).lengths[0] // 2) // 16)
    assert first[:prompt] == tuple(range(prompt))
    assert second[0] == prompt
    assert any(after - before > 1 for before, after in pairwise(first))


def test_a_slot_is_as_large_as_k_and_v_of_a_key():
    """8 KV heads of 128 numbers of 2 bytes, twice; 4 bytes in float32."""
    assert paging_of(LONG.problem, 2, 16).key_bytes == 2 * 8 * 128 * 2
    assert paging_of(LONG.changed(dtype="float32").problem, 2, 16).key_bytes == 2 * 8 * 128 * 4


@pytest.mark.parametrize(("keys", "room"), [(1, 256), (700, 512), (2048, 2048), (65536, MOST_ROOM)])
def test_the_room_is_the_scenarios_as_far_as_it_is_drawn(keys, room):
    paging = paging_of(LONG.changed(seq_kv=keys).problem, 8, 256)
    assert paging.room == room
    assert max(paging.lengths) <= room
    assert paging.taken <= paging.pages == 8 * room // 256
