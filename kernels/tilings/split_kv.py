"""How keys are split and their parts combined, where the algorithm leaves a choice."""

COMBINED = 16  # rows that a program combines together
FEWEST_COLUMNS = 128  # of O that a program combines, for it to have few of them
AT_ONCE = 64  # partial results of so many columns that it asks for together
SMALL_PAGE = 64  # keys: of smaller pages a sequence alone takes blocks of as many, as measured on an H200
LATENT_OVERHEAD = 4  # blocks of a latent's keys that take as long as the start and the end of a part
LATENT_COMBINED = 26  # parts of a latent that are combined in as long as a block takes


def page_block(block_kv: int, batch: int, page_size: int) -> int:
    """Keys of a block over pages, of block_kv without them.

    >>> page_block(128, 1, 16), page_block(128, 2, 16)
    (64, 128)
    """
    return min(block_kv, SMALL_PAGE) if batch == 1 and page_size < SMALL_PAGE else block_kv


def latent_splits(tiles: int, key_blocks: int, processors: int, most: int) -> int:
    """Parts of the keys of a latent: as many as are combined first, each SM having one at a time.

    >>> latent_splits(2, 64, 132, 1024)
    32
    """

    def time(splits: int) -> float:
        combined = tiles * splits / LATENT_COMBINED if splits > 1 else 0
        rounds = -(-tiles * splits // processors)
        return rounds * (-(-key_blocks // splits) + LATENT_OVERHEAD) + combined

    return min(range(1, min(most, key_blocks, 2 * processors) + 1), key=time)
