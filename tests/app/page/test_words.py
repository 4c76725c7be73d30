"""What each page says of a scenario, and what it does not: a link, with folds that are open after a #."""

import re
from functools import cache
from urllib.parse import parse_qsl

import pytest

from tests.app.worker_page import html, opened, unfolded

pytestmark = pytest.mark.usefixtures("own_worker")  # with nothing asked of it
TAG = re.compile("<[^>]*>")
EDGE = "algorithm=flash3&heads=2&seq=98340&head_dim=64"  # of L2: there little decides what DRAM delivers
SAID = (
    ("across?heads=1", "gives 1 head on 1 KV head, head dimension 64"),
    ("agreement?seq=65536", "scaled down from the scenario's 65,536 and 65,536"),
    # P is N numbers per row against three statistics of four bytes
    ("backward?seq=1#backward costs", "kept in memory32 B192 B6× more"),
    ("backward?seq=65536&heads=8&kv_heads=2#backward check", "4 heads that share one KV head",
     "scaled down from the scenario's 65,536 and 65,536"),
    ("backward?seq=1048576&heads=16#backward costs",
     "P could not be stored here: it takes 35.2 TB, and an H200 has 150 GB."),
    # 1,024 keys of a window, 715 of the last of 7 documents of 5,000 keys; one block of 64 keys
    ("decoding?seq=4096&heads=8", "only 8 of the 132 SMs get any work"),
    ("decoding?seq=65536&head_dim=128&window=1024",
     "keys and values of the 1,024 tokens that the mask shows it", "Raise the number of splits."),
    ("decoding?seq=5000&documents=7", "keys and values of the 715 tokens that the mask shows it"),
    ("decoding?seq=64&heads=1", "all tokens before it, the KV cache. Without splitting, only 1 of the 132",
     "With so few keys, more splits are no faster."),
    ("decoding?heads=32&kv_heads=8&seq=1&seq_kv=65536&head_dim=128&causal=true#decoding merge",
     "this shows the 32 parts that the kernel chooses here"),
    ("decoding?heads=1#decoding heads",
     "One head has **nothing to share.** Set more heads in the sidebar."),
    *((f"decoding?heads=32&kv_heads={keys}&seq=1&seq_kv=65536&head_dim=128#decoding heads,decoding times",
       f"32 heads on {keys} KV heads, d 128, float16", "The dotted line is modelled with key blocks of 128;")
      for keys in (8, 32)),
    # two caches of 65,536 keys of 128 numbers of 2 bytes for 32, 8 and 1 heads
    ("decoding?heads=32&kv_heads=8&seq=1&seq_kv=65536&head_dim=128&causal=true#decoding heads",
     "**4 times fewer bytes**", "1.07 GB", "268 MB", "33.6 MB"),
    ("decoding?heads=6&kv_heads=1#decoding heads", "6 heads on 1 KV head: **6 times fewer bytes**"),
    ("decoding?head_dim=256&block_kv=1024&hardware=t4&dtype=float32#decoding merge",
     "The parts cannot be computed: a thread block needs "),
    # heads that need two blocks of rows have as many per split; 57 of 64 splits have no keys
    ("decoding?heads=128&kv_heads=1&batch=2&seq=1&seq_kv=100&block_kv=16&splits=64",
     "launches 2 KV heads × 64 splits × 2 blocks of their query heads = 256 thread blocks.", "28 of 132 SMs"),
    # Q twice, K and V twice: 6 tiles of 128 × 96 numbers of 4 bytes are 288 KiB; a T4 has 64 for a block
    ("flash3?seq=256&head_dim=96&dtype=float32&hardware=t4",
     "A block of it needs 288 KiB of shared memory, but a T4 allows 64 KiB per block:",
     "In float32 the products run on the float32 units, which stand here for tensor cores.",
     "The picture shows 2 of 2 key blocks of a tile, the last first"),
    ("flash3?seq=64", "The picture shows a tile's only key block, and the start of the next tile."),
    ("flash3?hardware=a100", "an A100 is none"),
    ("flash3?seq=4096&head_dim=128", "recorded on NVIDIA",
     "FlashAttention-1 is its paper's Algorithm 1 taken literally"),
    ("flash3?dtype=float32", "float32 is modelled only"),
    ("flash3?head_dim=100", "100 is modelled only"),
    ("gpu?seq=1048576&heads=64", "This shows N"),
    ("masks", "no window and a single document"),
    ("masks?documents=4", "Your scenario has no window, so"),
    ("masks?seq=1024", "A causal mask lets the kernel skip 47% of the tiles (1.88× less work)"),
    ("masks?seq=1000&documents=3", "3 of 333 or 334 keys"),
    ("masks?seq=1024&window=1", "Windowits own key"),
    ("masks?seq=1024&window=300", "Windowthe last 300 keys"),
    # 2^(-8 h / 4) falls by half every 4, 1 and 0.25 times ln 2 keys and more; of head 1's 16 x 16 tiles only
    # those within one of the diagonal hold a pair nearer than 28 keys
    ("masks?seq=1024&heads=4#alibi", "fade by half every 2.77 keys in head 1, and every 177 in head 4.",
     "slope 0.25", f"{1 - 46 / 256:.0%} of the tiles keep under 0.1%"),
    ("masks?seq=3&documents=3&window=1:1#alibi",
     "Documents, window3 of 1 key, 1 key before, 1 after"),
    ("masks?seq=1&heads=1024#alibi", "Head 1,024", "scenario's mask on 1 key."),
    ("masks?seq=500&window=499:499#masks", "Window: 499 keys before, 499 after, the scenario&#x27;s"),
    ("masks?seq=7", "an example: a window or documents of one key."),
    ("masks?seq=8", "an example: a window or documents of one eighth of the sequence."),
    ("softmax?seq=4096&block_kv=64", "256 of the 4,096 keys it sees, one key block of 64 per step"),
    ("softmax?seq=1048576&block_kv=1024&causal=true",
     "first head, scaled down to 4,096 keys, with 256 of the 2,049 keys it sees",
     "all in one step, as a key block has 1,024."),
    ("softmax?seq=777&window=200&block_kv=16",
     "with its 200 keys, one key block of 16 per step; score 0 is of key 176."),
    ("softmax?seq=1", "with its 1 key, one"),
    ("softmax?seq=777&seq_kv=333&causal=true", "with no keys, as it stands before the first one"),
    ("speed", "the same matrix products"),
    # 136 of 16 × 16 tiles under a causal mask; unfused attention skips nothing
    ("speed?seq=1024&causal=true",
     "skips hidden tiles: it computes 53% of unfused attention's products, and moves 16.9 times"),
    ("speed?seq=1048576&head_dim=64", "could not run here: it needs 70.4 TB, and an H200 has 150 GB."),
    # float32, and bfloat16 on a T4, are multiplied by the plain float32 units
    ("speed?dtype=float32&hardware=t4&head_dim=128&seq=4096",
     "**Bottleneck (modelled)**: matrix products, which run on the float32 units"),
    (f"speed?{EDGE}", "little decides"),
    ("traffic?seq=2&seq_kv=1&head_dim=256", "no less (modelled), because"),  # 1.003 times
    ("traffic?seq=4&head_dim=256", "1.01 times less (modelled)"),
    ("traffic?seq=48365", "Standard attention moves "),  # the last length that fits
    ("traffic?seq=48366", "Standard attention does not fit an H200; it would move "),
    ("traffic?seq=1000&seq_kv=1777", "Most keys that fit in 150 GB beside 1,000 queries: Standard "),
    ("traffic?seq=1&seq_kv=777", "With a single query, S and P are one row per", "beside a single query"),
    # a query and a key of one number each: 4 FLOP over 4 numbers and lse of 4 bytes
    ("traffic?seq=1&head_dim=1&dtype=float32", "FLOP per byte of HBM0.1250.1110.2"),
    ("traffic?seq=3000&head_dim=128", "**Nearest recorded scenario: FlashAttention-2, N "),
    ("traffic?seq=1048576&heads=1024&batch=4096&block_q=16&block_kv=16", "Longest sequence"),
)  # fmt: skip
NOT_SAID = (
    ("backward?seq=4096&heads=16#backward costs", "P could not be stored here"),
    ("flash3?seq=64", "as if it fitted", "float32 units"),
    ("masks?documents=4&window=9", "Your scenario has"),
    ("speed", "could not run", "little decides"),
    ("traffic", "little decides"),
)


@cache
def words(link: str) -> str:
    """All that a page says, without its tags."""
    address, _, folds = link.partition("#")
    name, _, query = address.partition("?")
    page = opened(name, **dict(parse_qsl(query)))
    if folds:
        unfolded(page, *folds.split(","))
    texts = (*page.header, *page.main.markdown, *page.caption, *page.main.text)
    numbers = (f"{metric.label}: {metric.value}" for metric in page.metric)
    return " ".join([*(text.value for text in texts), *numbers, TAG.sub("", html(page))])


@pytest.mark.parametrize(("link", "said"), [(link, said) for link, *said in SAID])
def test_a_page_says(link, said):
    for each in said:
        assert each in words(link)


@pytest.mark.parametrize(("link", "said"), [(link, said) for link, *said in NOT_SAID])
def test_a_page_does_not_say(link, said):
    for each in said:
        assert each not in words(link)
