"""Mutants of the engine: wrong bytes from L1, L2 and DRAM, and asked for by TMA."""

from tests.mutants.mutant import Mutant
from tests.mutants.mutant import of_engine as _of

l2 = _of("model/l2.py", "l2")
occupancy = _of("model/occupancy.py", "l1")
l2_range = _of("model/l2_range.py", "l2_range")
rewritten = _of("model/l2_rewritten.py", "l2_rewritten")
crossing = _of("model/crossing.py", "crossing")
l1 = _of("model/l1.py", "l1", "against_the_chip")
memories = _of("model/memories.py", "memories")
boxes = _of("algorithms/flash3.py", "flash3_boxes")
nest = _of("schedule/nest.py", "flash3_boxes")
requests = _of("model/block_requests.py", "flash3_boxes")

MUTANTS: tuple[Mutant, ...] = (
    l2(
        "waves-from-the-cold-one",
        "(waves - 1) / max(1.0, reuse.walked / slots - 1)",
        "waves / max(1.0, reuse.walked / slots)",
        "later waves are taken to read as little again as the first, cold one",
    ),
    l2(
        "l2-keeps-what-is-put-aside",
        "kernel.blocks * aside * float(gone(passes).mean())",
        "0.0",
        "registers put aside are still in L2 after 46 MB of keys",
        "l1",
    ),
    occupancy(
        "padding-puts-nothing-aside",
        "(96, 128, 128)], (0, 44, 44, 0))",
        "(96, 128, 128)], (0, 0, 0, 0))",
        "where columns are padded all registers are there",
    ),
    l2(
        "l2-in-one-partition",
        "room = gpu.l2_bytes / gpu.l2_copies(taken.users or",
        "room = gpu.l2_bytes / gpu.l2_copies(0 and",
        "both copies of K and V count as one",
    ),
    l2(
        "l2-short-heads-in-both-partitions",
        "taken.users or len(running) / len(np.unique(running))",
        "taken.users or gpu.sms",
        "keys of heads of a few tiles lie in L2 as often as those that all SMs use",
    ),
    l2(
        "l2-heads-of-a-wave-alone",
        "between = max(slots, kernel.together)",
        "between = slots",
        "many short heads under way together are taken to fit L2, as those of a wave do",
    ),
    l2(
        "l2-gone-earlier",
        "GONE = 1.0 ",
        "GONE = 0.9 ",
        "bytes leave L2 too early",
        "l2",
        "against_the_chip",
    ),
    l2(
        "l2-softer",
        "= 0.04, 0.08, 0.03, 0.02, 0.04",
        "= 0.09, 0.08, 0.03, 0.02, 0.04",
        "bytes leave a cache just filled too gradually",
        "l2",
        "against_the_chip",
        "grouped_reads",
    ),
    l2(
        "l2-never-softer",
        "= 0.04, 0.08, 0.03, 0.02, 0.04",
        "= 0.04, 0.0, 0.03, 0.0, 0.04",
        "what is walked over for long leaves L2 no more gradually than at first",
        "l2",
        "grouped_reads",
    ),
    l2(
        "l2-own-bytes-once",
        "gpu.l2_copies(1) / gpu.l2_bytes",
        "1 / gpu.l2_bytes",
        "Q and O lie in one half of L2 alone",
        "l2",
        "grouped_reads",
    ),
    l2_range(
        "l2-range-as-narrow",
        "HALF = (0.9, 1.09)",
        "HALF = (0.95, 1.05)",
        "the range around DRAM bytes leaves out a third of what was read",
    ),
    l2_range(
        "l2-range-in-step",
        "APART = (0.01, 0.03)",
        "APART = (0.0, 0.0)",
        "over long passes the range has no SMs that lose step",
    ),
    l2(
        "l2-few-waves",
        "MOST_WAVES = 24 ",
        "MOST_WAVES = 8 ",
        "the wave in which SMs go over to the next key head is not followed",
        "grouped_reads",
    ),
    l2(
        "l2-blocks-in-step",
        "SPREADING = 0.6",
        "SPREADING = 0.0",
        "blocks of d 64 on one SM stay at the same keys",
        "grouped_reads",
    ),
    l2(
        "l2-blocks-spread-everywhere",
        "if launch.problem.head_dim <= BOUND_BY_SOFTMAX and not specialised",
        "if not specialised",
        "blocks whose products bind spread over their keys",
        "grouped_reads",
    ),
    l2(
        "l2-last-tile-as-long",
        "return seconds.min() / seconds",
        "return np.ones(len(outer))",
        "the last tile of a head, with few rows, takes as long as the others",
        "l2",
        "against_the_chip",
    ),
    l2(
        "l2-places-together",
        "abreast, places = gpu.sms, kernel.resident\n",
        "abreast, places = gpu.sms, 1\n",
        "one block runs on an SM, however many fit",
        "l2",
        "against_the_chip",
    ),
    crossing(
        "crossing-of-all-heads",
        "bytes_[steps] = spread * share / traffic.heads",
        "bytes_[steps] = spread * share",
        "one head's steps carry all heads' bytes",
    ),
    crossing(
        "crossing-first-touch-last",
        "at[tile[::-1]] = np.arange(len(steps))[::-1]",
        "at[tile] = np.arange(len(steps))",
        "a tile crosses when it is touched last",
    ),
    l1("l1-holds-all", "KEPT = 0.78", "KEPT = 1.0", "L1 answers more than it holds"),
    l1("l1-half-a-sector", "SECTOR = 32", "SECTOR = 16", "L2 gives half a sector"),
    l1(
        "l1-always-in-turn",
        "SETTLED = 0.45, 0.37, 10",
        "SETTLED = 0.01, 0.01, 10",
        "every tile goes to the SM whose turn it is",
    ),
    l1(
        "l1-one-warp-asks",
        "shared * (NARROW // WARP - 1) * ",
        "0 * ",
        "one warp asks for m and l of few rows",
        "l1",
    ),
    l1(
        "l1-beside-one-block",
        "needed = kernel.resident * each",
        "needed = each",
        "shared memory of one block alone is set aside",
    ),
    rewritten(
        "rewritten-one-copy",
        "1 + (parts - 1) * sms",
        "0 * sms + 1",
        "what one SM uses lies in L2 once",
    ),
    rewritten(
        "rewritten-as-a-queue",
        "row * others + keys / launch.problem.group",
        "row * others + keys / launch.problem.group * np.arange(1, 1 + len(seen))",
        "keys of all passes push out rows that are used at every pass",
    ),
    rewritten(
        "rewritten-even",
        "HALF, UNEVEN = 1.06, 0.123",
        "HALF, UNEVEN = 1.06, 0.25",
        "sets of L2 differ by twice as much",
    ),
    rewritten(
        "rewritten-other-copy",
        "gone * (1 + gone.sum(0) - gone) / parts",
        "gone",
        "DRAM answers where another partition still could",
    ),
    rewritten(
        "rewritten-sms-apart",
        "shares[0] += first",
        "shares += first / partitions",
        "the SMs of few blocks lie in both partitions alike",
    ),
    l1(
        "l1-nothing-put-aside",
        "kernel.blocks * put_aside(*spilled)",
        "0",
        "registers that spill around visits ask nothing of L2",
        "model_errors",
    ),
    l1(
        "l1-nothing-loaded-again",
        "visits * loaded_again(*spilled)",
        "0",
        "registers that spill within visits ask nothing of L2",
        "model_errors",
    ),
    memories(
        "memories-of-one-sm",
        "Memory(SHARED, gpu.sms * gpu.shared_bytes_sm, gpu.sms",
        "Memory(SHARED, gpu.shared_bytes_sm, gpu.sms",
        "the shared memory of one SM is shown for all",
    ),
    boxes(
        "boxes-on-the-grid",
        "boxes = _boxes(problem, tiling) if _begin_with_queries(problem, tiling) else None",
        "boxes = None",
        "key blocks of every window are taken to begin at multiples of 128",
    ),
    boxes(
        "boxes-before-the-first-key",
        "first = np.maximum(stands - problem.mask.window + 1, 0)",
        "first = stands - problem.mask.window + 1",
        "key blocks that lie wholly before the first key are asked for",
    ),
    boxes(
        "boxes-of-a-window-a-little-longer",
        "past_whole >= CONSUMER_ROWS",
        "past_whole >= 0",
        "windows up to 64 keys longer than whole blocks have blocks that begin with the queries too",
    ),
    nest(
        "boxes-at-every-visit",
        "* (inner == self.first[program])",
        "* (inner >= self.first[program])",
        "what a query block asks for beyond its visits counts at each of them",
    ),
    requests(
        "boxes-as-visits",
        "boxes = phase.visits if phase.boxes is None else phase.boxes",
        "boxes = phase.visits",
        "a block of threads asks for a box a visit",
    ),
)
