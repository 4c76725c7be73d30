"""Which recorded rows set the model's constants: the others judge it.

They stand in `engine.model.rates`, `pipeline`, `l2`, `l2_rewritten`, `reuse`, `Gpu.l2_effective_bytes`. Those
of a visit of flash2 were set on d 64 alone. Of those of flash3 and of L2 nobody wrote down which rows were
looked at: all calls in usual blocks are taken for them, so that none of these counts as left out. A kernel's
instructions were counted in compiled code, and the clock that power leaves is the counted one: no time set
either. Starts and a window's registers were set on 90 calls that are in no recording, how long warp groups
and loops of flash2 wait on 93 more beside the rows below, with its counted calls in sight, what padded rows
take on those of d 80 and 96, what L1 keeps on 97 more of flash1, and how far unfused tiles stray on recorded
reads from L2 too. How long kernels of unfused attention wait beside their instructions was set on those of
its calls that were counted, and on 37 calls that are in no recording, most of them of lengths that are no
multiple of 16. How much sooner a tile of flash3 with rows for fewer warp groups ends was read off traces of
calls that are in no recording, and a kernel's bytes of instructions off compiled code: no counter set either.
How fast blocks of d 64 on an SM spread was set on recorded rows and on 156 calls of three scans. What
`l2_range` varies was set on the same. One of the scans has calls around the worst of those drawn by lot, and
its very shape: flash2 of 70,527 keys of d 80, of which it was found that an SM holds one block in 128 x 32,
not two. The whole recording was made anew after that, of the same calls: these readings themselves set
nothing. After the third set of calls drawn by lot was opened, blocks of flash1 on an SM came to wait at the
same time. After the fourth, rows of flash1 came to leave L2 before it is full, its loads of K and V to be
waited for, HBM to work meanwhile, and registers that flash2 spills to come from L2; how uneven the sets of L2
are and how long a visit of flash1 waits were set on the rows below, with the errors of all four sets in
sight. Then what one SM uses alone came to lie in 1.5 halves of L2, and the room for the rest to be L2's own:
nothing is fitted there. How gradually bytes leave it, and how far SMs drift apart, was set anew on the rows
below, on two scans, and on 21 calls on an H100 that are in no recording, with the errors of all four sets in
sight. After the fifth, on an H100, was opened, how long a visit of flash1 waits and works was set anew on the
rows below and on 182 calls on an H200 that are in no recording; the recorded ones had 16 heads for the most
part, of which some run alone in their GPC, as traces showed. How times of flash2 and of what it asks HBM for
add was set anew on the rows below. The errors of all five sets were in sight. The sixth and
the seventh, of an H200 and of an H100, were opened after that. Since then rows of flash1 leave L2 when they
were not used for longest, and first from the partition of one GPC; nothing was set for that, but a call of
the seventh showed it. After that, how products and softmax of flash3 add and what its tiles wait for was set
anew on the rows below and on 138 calls on an H200, most of them drawn by lot with seeds of their own; that
blocks of one SM end together, and where the next ones go, was read off traces of an H200, and what finds no
register in a visit of flash1 off compiled code. Then 135 calls on an H100, drawn likewise, were looked at.
What two of them showed was set on calls on an H200: how long a warp group of flash2 that copies for itself
waits alone, and that rows of flash1 have a little more room than L2 has. The errors of all seven sets were in
sight. The eighth and the ninth, of an H200 and of an H100, were opened after that. A call of the ninth showed
that a launch's first blocks go to SMs in another order than in turn, which was read off traces of both GPUs.
Then 145 calls drawn with other seeds, on either chip, and 33 of flash1 around the edge of L2 on an H200 were
looked at, all nine sets in sight. How long warp groups and loops of flash2 wait was set anew on the rows
below, on the 95 of such calls of flash2 that ran on H200s, and on traces of 140 there. That keys of short
heads lie in L2 once or twice, and that flash2 puts registers aside where columns are padded, set nothing. A
visit of flash1 came to wait for the last of the lines that come from DRAM, which set nothing either, and its
few rows to take flash2's instructions; how long they wait beside these, and how far blocks of flash1 on an SM
are in one another's way, was set anew on the rows below and on those of these calls that ran on H200s.
What a visit of flash3 takes as its loop is compiled, what its tiles wait for and what the first of them ask
HBM for were set anew on the rows below, on 115 of these calls and others that ran on H200s, and on traces of
53 on an H200 that read the SM's clock inside each tile; 112 that ran on H100s judged it. The tenth to the
thirteenth, of H100s and H200s in turns, were opened after that; the last two were counted three times.
What the power limit leaves of the clock in long calls, and from when, was set on one GPU's rows of the two
recordings of several H200s; what NVLink costs on forward passes on 4 of them, see `recorded_clusters`.
"""

from __future__ import annotations

from dataclasses import dataclass

FITTED_ON = "h200"  # the preset whose recording was looked at; of any other GPU every row is left out
TIMED, SWEPT, COUNTED, DRAM = "timed", "swept", "counted", "dram"  # kinds of recorded rows
# of calls drawn by lot, which set nothing: seconds, bytes read from DRAM, bytes from L2 to the SMs, and what
# tiles request, where the share of L1 was counted
DRAWN_TIMES, DRAWN_DRAM, DRAWN_L2, DRAWN_REQUESTS = DRAWN = (
    "drawn times",
    "drawn dram",
    "drawn l2",
    "drawn requests",
)


@dataclass(frozen=True)
class Fit:
    """Rows that constants were set on.

    Attributes:
        algorithm: whose rows.
        rows: which kind: TIMED in its kernel's own blocks, SWEPT over sizes of blocks, COUNTED (timed under
            the profiler), DRAM (the profiler's counter of bytes read).
        head_dims: of the rows; None: of every one, or of some that nobody wrote down.
        constants: what was set, in words.
    """

    algorithm: str
    rows: str
    head_dims: tuple[int, ...] | None
    constants: str


FITS = (
    Fit("standard", COUNTED, None, "how long kernels wait beside their instructions"),
    Fit("flash1", SWEPT, (64,), "how long a visit waits and works"),
    Fit("flash1", TIMED, None, "how long a visit waits and works"),
    Fit("flash1", COUNTED, None, "how long a visit waits and works"),
    Fit("flash2", SWEPT, (64,), "how long warp groups wait beside their instructions"),
    Fit("flash2", SWEPT, (64,), "how long warps with few rows wait for their instructions"),
    Fit("flash2", TIMED, (64,), "how long warp groups wait beside their instructions"),
    Fit("flash2", TIMED, (256,), "how much longer where registers are full"),
    Fit("flash2", TIMED, (64, 256), "how long a loop waits for its first keys, and for HBM"),
    Fit("flash3", TIMED, None, "how times of products and softmax add, and what tiles wait for"),
    Fit("flash3", COUNTED, None, "how times of products and softmax add, and what tiles wait for"),
    *(
        Fit(name, DRAM, None, "what L2 keeps, and how gradually bytes leave it")
        for name in ("standard", "flash1", "flash2", "flash3")
    ),
)


def fitted(hardware: str, algorithm: str, rows: str, head_dim: int) -> bool:
    """Whether a row recorded on a GPU is one that constants were set on."""
    return hardware == FITTED_ON and any(
        (fit.algorithm, fit.rows) == (algorithm, rows)
        and (fit.head_dims is None or head_dim in fit.head_dims)
        for fit in FITS
    )
