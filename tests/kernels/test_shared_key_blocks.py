"""How key blocks are shared so that all SMs end together."""

import pytest

from kernels.backward.shared_key_blocks import Shares, key_block_at, shares_of


def in_shares(cut, visits):
    """The visits of each block of threads."""
    for key_blocks, shares in (
        (cut.whole, 1),
        (cut.coarse // cut.coarse_shares, cut.coarse_shares),
        (cut.fine // cut.fine_shares, cut.fine_shares),
    ):
        for _ in range(key_blocks):
            yield from ((part + 1) * visits // shares - part * visits // shares for part in range(shares))


@pytest.mark.parametrize(
    ("key_blocks", "visits", "cut"),
    [
        (2048, 64, Shares(1980, 132, 2, 64, 32)),  # 68 are left: 66 in halves, and two in 32
        (4096, 32, Shares(4092, 64, 16, 0, 1)),
        (8, 128, Shares(0, 128, 16, 0, 1)),
        (2046, 64, Shares(1980, 132, 2, 0, 1)),
        (1980, 64, None),  # none is left
        (2111, 64, None),  # nearly a round is left
        (4096, 1, None),
        (2048, 8, None),  # the sums of shares cost more than they save
    ],
)
def test_the_last_round_is_cut_where_that_pays(key_blocks, visits, cut):
    assert shares_of(key_blocks, visits, 1, 132) == cut


def test_a_kernel_that_is_slower_for_sharing_does_not_share_after_many_rounds():
    assert shares_of(4096, 32, 1, 132, 1.05) is None
    assert shares_of(4 + 8 * 132, 32, 1, 132, 1.05) == Shares(8 * 132, 64, 16, 0, 1)


@pytest.mark.parametrize("processors", [78, 114, 132])
@pytest.mark.parametrize("visits", [2, 7, 16, 64, 257])
def test_no_visit_is_lost_and_every_share_has_some(processors, visits):
    cuts = 0
    for key_blocks in [*range(1, 2 * processors, 7), 2048, 4096]:
        if cut := shares_of(key_blocks, visits, 1, processors):
            cuts += 1
            blocks = list(in_shares(cut, visits))
            assert len(blocks) == cut.whole + cut.count
            assert cut.key_blocks == key_blocks - cut.whole
            assert min(blocks) > 0
            assert sum(blocks) == key_blocks * visits
    assert cuts > 0 or visits == 2


@pytest.mark.parametrize(("batch_heads", "together", "key_blocks"), [(6, 4, 5), (3, 1, 7), (2, 8, 3)])
def test_every_key_block_has_a_number(batch_heads, together, key_blocks):
    places = [
        key_block_at(number, batch_heads, together, key_blocks) for number in range(batch_heads * key_blocks)
    ]
    assert sorted(places) == [(head, block) for head in range(batch_heads) for block in range(key_blocks)]
    first = min(together, batch_heads)
    assert places[:first] == [(head, 0) for head in range(first)]
