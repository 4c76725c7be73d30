"""Bytes that DRAM delivered to calls that stand in no recording, by Nsight Compute, in MB.

A line: GPU, algorithm, head dim, blocks, mask, batch; then calls: heads, key heads, queries (x keys, where
they are others) and what was read, up to three times in two sessions, with the inputs elsewhere in memory
each time. All float16; counted from 23 to 26 November 2026 with torch 2.11 and Triton 3.6.
"""

from __future__ import annotations

from engine import Experiment

COUNTED = {
    # around L2's edge
    "scanned": """
        h200 flash3 64 own none 1: 1 1 98340 61.9; 2 2 98340 141.1; 4 4 98340 299.4; 1 1 101400 72
        h200 flash3 64 own none 1: 2 2 101400 145.5; 4 4 101400 276.1; 1 1 76224 29.5; 2 2 76224 77
        h200 flash3 64 own none 1: 4 4 76224 165.1; 1 1 85000 40.2; 2 2 85000 110.6; 4 4 85000 230.8
        h200 flash3 64 own none 1: 1 1 120000 141; 2 2 120000 311.4; 4 4 120000 604.1; 1 1 140000 227.5
        h200 flash3 64 own none 1: 2 2 140000 474.5; 4 4 140000 1062.7
        h200 flash3 64 own causal 1: 1 1 98340 38.3; 2 2 98340 75.9; 4 4 98340 152.5; 1 1 101400 39.3
        h200 flash3 64 own causal 1: 2 2 101400 78.7; 4 4 101400 157.7; 1 1 76224 29.4; 2 2 76224 58.6
        h200 flash3 64 own causal 1: 4 4 76224 117.4
        h200 flash3 128 own none 1: 1 1 36000 27.8; 2 2 36000 69.4; 1 1 42000 40.5; 2 2 42000 106
        h200 flash3 128 own none 1: 1 1 49170 58.4; 2 2 49170 145.4; 1 1 55000 94.4; 2 2 55000 210.7
        h200 flash3 128 own none 1: 1 1 60000 122.1; 2 2 60000 268.9; 1 1 70000 182.5; 2 2 70000 393
        h200 flash3 128 own none 1: 4 4 36000 151.7; 4 4 49170 313.1; 1 1 131072 570.6; 1 1 200000 1493.4
        h200 flash3 128 own none 1: 1 1 262144 4705.6; 1 1 393216 14190.1; 16 4 56000 1242
        h200 flash3 128 own causal 1: 1 1 70000 64.5; 1 1 131072 286.3; 1 1 262144 1129.8; 16 4 44000 306.7
        h200 flash3 256 own none 1: 1 1 18000 28.6; 4 4 18000 170.1; 1 1 24000 52.6; 4 4 24000 260.7
        h200 flash3 256 own none 1: 1 1 30000 76.1; 4 4 30000 400.8
        h200 flash3 256 own causal 1: 4 4 15090 93.3; 4 4 20000 123.8; 4 4 27000 167
        h200 flash2 128 128x64 none 1: 8 2 36000 168.1; 8 2 40000 192.9; 8 2 44000 294.1; 8 2 49152 431
        h200 flash2 128 128x64 none 1: 1 1 40000 31.9; 2 2 40000 95.8; 4 4 40000 213.7; 1 1 50000 61.1
        h200 flash2 128 128x64 none 1: 2 2 50000 161.8; 4 4 50000 358.9
        h200 flash2 64 128x64 none 1: 1 1 81287 31.9; 2 2 81287 83.6; 1 1 100000 54.1; 2 2 100000 163.8
        h200 flash2 64 128x64 none 1: 1 1 131072 153.6; 2 2 131072 435.2
        h200 flash2 64 128x32 none 1: 4 4 81287 192.1; 4 4 70000 131.9
        h200 flash2 64 64x64 none 1: 1 1 90000 37.1; 1 1 131072 183.6
        h200 flash2 128 128x64 causal 1: 2 2 40000 63.1; 2 2 56000 119.1
    """,
    # where K and V of the heads in use nearly fill L2, query heads sharing keys among them
    "grouped": """
        h200 flash2 64 64x64 none 1: 4 1 90000 138.4 93; 1 1 131072 188.4 187.8
        h200 flash2 64 128x32 none 1: 4 4 81287 202.8 196.9; 4 1 90000 101.1 126.9
        h200 flash2 64 128x64 none 1: 1 1 70000 27; 2 1 70000 36.6; 4 1 70000 57.8; 8 2 70000 118.6
        h200 flash2 64 128x64 none 1: 1 1 90000 41.4; 2 1 90000 60.4; 4 1 90000 95.7 101.4 144.3
        h200 flash2 64 128x64 none 1: 8 2 90000 240 252.1; 1 1 110000 78.9; 2 1 110000 163.8 176.3 159.4
        h200 flash2 64 128x64 none 1: 2 2 131072 446.5 444
        h200 flash2 64 128x128 none 1: 4 1 90000 177.9 180.1
        h200 flash2 80 64x64 none 1: 4 1 70527 113 162.6 149.2
        h200 flash2 80 64x64 causal 1: 4 1 70527 97.2 103.1 94.6; 8 2 70527 193.5 193.3
        h200 flash2 80 128x32 none 1: 4 1 70527 113.8 105.2 131.1
        h200 flash2 80 128x32 causal 1: 4 1 70527 99
        h200 flash2 80 128x64 none 1: 1 1 60000 28.8; 2 1 60000 39.8; 4 1 60000 60.7; 4 4 60000 186.8 187.5
        h200 flash2 80 128x64 none 1: 8 2 60000 151.8 133.8 129.4; 1 1 70527 43.2; 2 1 70527 54.7
        h200 flash2 80 128x64 none 1: 4 1 70527 112.5 159.3 153.4; 4 4 70527 281.9 248.6
        h200 flash2 80 128x64 none 1: 8 1 70527 198.8 187; 1 1 80000 74.1; 2 1 80000 123.5; 4 1 80000 203
        h200 flash2 96 128x64 none 1: 1 1 60000 46.6 48.4; 4 1 60000 118.7 117.1
        h200 flash2 128 64x64 none 1: 4 1 40000 77 78.6; 2 1 50000 114.4 115.2
        h200 flash2 128 128x64 none 1: 8 2 36000 168.5 164; 1 1 40000 31; 2 1 40000 53.1 49.3 49.1
        h200 flash2 128 128x64 none 1: 4 1 40000 89.3 77.9 80.9; 4 2 40000 134.2 143.4; 4 4 40000 212.7 213
        h200 flash2 128 128x64 none 1: 8 1 40000 138.9 135; 8 2 40000 210.8 193.6 189.3
        h200 flash2 128 128x64 none 1: 16 4 40000 403.8 423.5; 4 1 44000 140.5 125; 8 2 44000 252.1 254.4
        h200 flash2 128 128x64 none 1: 1 1 50000 63.1; 2 1 50000 120.3; 4 1 50000 212.8 224.6 229.6
        h200 flash2 128 128x64 none 1: 8 2 50000 469.9; 1 1 60000 118.3; 2 1 60000 237.4; 4 1 60000 453
        h200 flash2 128 128x64 causal 1: 8 2 40000 179.3 179.7
        h200 flash2 128 128x128 none 1: 4 1 40000 84.3 78.4
    """,
    # the same on a chip with less L2, once, twice and four times as many queries over the same keys
    "on an h100": """
        h100 flash2 80 128x32 none 1: 4 1 58772 103.3 97.6; 1 1 58737 29.4; 1 1 117474x58737 46
        h100 flash2 80 128x32 none 1: 1 1 234948x58737 101.2; 4 1 58737 102.3
        h100 flash2 128 64x64 none 1: 1 1 32329 25.1 25.2
        h100 flash2 128 128x64 none 1: 1 1 36710 33.8; 1 1 73420x36710 57.5; 1 1 146840x36710 106.6
        h100 flash2 128 128x64 none 1: 4 1 36710 106
        h100 flash2 256 64x64 none 1: 1 1 18624 34.6 34.5; 1 1 18672 40.7 40.5
        h100 flash2 256 64x64 causal 1: 1 1 18627 31.3 31.3
        h100 flash2 256 64x32 causal 1: 1 1 18627 30.2 30.2
        h100 flash3 128 own none 1: 8 8 35982 375.1 374.3; 1 1 36710 33.4; 1 1 73420x36710 57.2
        h100 flash3 128 own none 1: 1 1 146840x36710 101.4; 4 1 36710 100.8
        h100 flash3 128 own causal 1: 4 4 9600 29.6; 16 16 9600 129.9
    """,
    # one to three tiles of a head run at once, the rest after those of 10 to 600 other heads
    "short heads": """
        h200 flash3 64 own causal 32: 32 32 300 134.1; 16 16 209 42.2
        h200 flash3 64 own causal 64: 32 32 256 225.7
        h200 flash3 256 own causal 32: 16 16 287 250.6
        h200 flash3 64 own causal 4: 32 32 2711 151.9
        h100 flash3 64 own causal 4: 32 32 2711 177.5
    """,
    # the last tile of a head has few rows, ends early, and the next head begins out of step
    "out of step": """
        h200 flash3 64 own none 1: 4 4 76032 120.1; 4 4 76046 134.4; 4 4 76096 133.5; 4 4 65536 116.7
        h200 flash3 64 own none 1: 2 2 76046 68.6; 8 8 65536 237.2
    """,
    # rows that a block rewrites at every pass
    "rewritten": """
        h200 flash1 64 64x64 none 1: 16 16 4096 34.11; 4 4 16384 34.3 34.19; 64 64 1024 34.1
        h200 flash1 64 64x64 causal 1: 64 64 2048 70.25 71.8
        h200 flash1 128 64x64 none 1: 64 64 2048 2248.2; 8 8 5726 57.27
        h100 flash1 64 64x64 none 1: 16 16 4096 34.21; 4 4 16384 34.45; 64 64 1024 34.11
        h100 flash1 64 64x64 causal 1: 64 64 2048 79.8
        h100 flash1 64 64x32 none 1: 32 32 2839 47.43
        h100 flash1 128 32x64 none 4: 4 1 5643 3425.7
        h100 flash1 64 32x32 causal 4: 16 4 4099 3079.5
    """,
    # the same with words of a thread that find no register, 22 MB of all that run at once
    "spilled": """
        h200 flash1 256 128x64 none 128: 8 8 128 339.9
        h200 flash1 256 128x64 causal 128: 8 8 128 275.9
        h200 flash1 256 128x64 causal 64: 8 8 256 364.1
        h200 flash1 256 128x64 none 64: 8 8 256 731.5
    """,
}


def counted(name: str) -> list[tuple[Experiment, list[float]]]:
    """Every call of a set, and the bytes that each reading of it found."""
    return [
        _call(kernel.split(), *call.split())
        for line in COUNTED[name].strip().splitlines()
        for kernel, calls in [line.split(":")]
        for call in calls.split(";")
    ]


def _call(kernel: list[str], heads: str, kv_heads: str, length: str, *read: str):
    hardware, algorithm, head_dim, blocks, mask, batch = kernel
    seq, _, seq_kv = length.partition("x")
    one = Experiment.of(
        algorithm=algorithm, hardware=hardware, head_dim=int(head_dim), causal=mask == "causal",
        batch=int(batch), heads=int(heads), kv_heads=int(kv_heads), seq=int(seq), seq_kv=int(seq_kv or seq),
    )  # fmt: skip
    block_q, _, block_kv = blocks.partition("x")
    one = one.in_own_tiling() if blocks == "own" else one.changed(block_q=block_q, block_kv=block_kv)
    return one, [1e6 * float(each) for each in read]
