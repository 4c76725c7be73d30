"""Mutants of the modelled time: tiles of flash3, blocks of few rows, last rounds, registers that spill."""

from tests.mutants.mutant import Mutant
from tests.mutants.mutant import of_engine as _of

flash3 = _of("algorithms/flash3.py", "modelled")
around = _of("model/around.py", "modelled")
block = _of("model/block_seconds.py", "modelled")
l1 = _of("model/l1.py", "returning")
l2 = _of("model/l2.py", "modelled")
occupancy = _of("model/occupancy.py", "instructions")
consumers = _of("model/consumers.py", "consumers")
handing_out = _of("model/handing_out.py", "handing_out")
tiles = _of("model/tiles.py", "modelled")
placement = _of("model/placement.py", "placement")
rates = _of("model/rates.py", "modelled")
returned = _of("model/l2_rewritten.py", "l1", "l2_rewritten")
visit = _of("model/visit.py", "instructions")
work = _of("model/work.py", "simulated", "modelled")
lanes = _of("model/cluster/lanes.py", "cluster")

MUTANTS: tuple[Mutant, ...] = (
    work(
        "work-without-limit-of-power",
        "return work._stretched(sustained(seconds) / seconds)",
        "return work",
        "a long call runs at its first clock to its end",
        "power",
    ),
    rates(
        "rates-power-leaves-more",
        "SUSTAINED_FROM, SUSTAINED_CLOCK = 0.03, 0.85",
        "SUSTAINED_FROM, SUSTAINED_CLOCK = 0.03, 0.95",
        "a long call loses a third of the clock that it does lose",
        "power",
    ),
    rates(
        "rates-power-from-3-ms",
        "SUSTAINED_FROM, SUSTAINED_CLOCK = 0.03, 0.85",
        "SUSTAINED_FROM, SUSTAINED_CLOCK = 0.003, 0.85",
        "calls of a few ms are slowed as long ones are",
        "power",
    ),
    lanes(
        "lanes-at-the-first-clock",
        "spread, longer(spread, backward)",
        "spread, 2.85 if backward else 1",
        "what a GPU's lane draws is shorter than its rounds are, in long calls",
        "power",
    ),
    handing_out(
        "handing-out-in-turn",
        "turn == 17 * sooner // 3",
        "turn == 8 * sooner",
        "the half that is first waits for all other groups before it is given more",
    ),
    handing_out(
        "handing-out-fills-groups",
        "            waiting.append(group)",
        "            waiting.appendleft(group)",
        "what is left over fills one group after another",
    ),
    placement(
        "placement-begins-in-turn",
        "in enumerate(_first(min(len(seconds), sms * places), sms))",
        "in enumerate(range(sms * places))",
        "a launch's first blocks go to SMs in turn",
        "model_errors",
    ),
    placement(
        "placement-one-for-each",
        "ONE_MORE = 4 ",
        "ONE_MORE = 1000 ",
        "of a last round no SM takes two blocks before all have one",
    ),
    block(
        "block-out-of-step",
        "in_step = launch.problem.head_dim > BOUND_BY_SOFTMAX",
        "in_step = False",
        "blocks of d 96 on one SM end apart",
        "model_errors",
        "model_errors",
    ),
    tiles(
        "tiles-find-keys-that-were-read",
        "seconds += COLD_VISIT * visits",
        "seconds += 0.0 * visits",
        "the first tiles find keys in L2 that nobody read before",
        "model_errors",
    ),
    tiles(
        "tiles-share-no-first-keys",
        "-(-running // (kernel.count * group)) * each / 2",
        "running * each / 2",
        "tiles of a head that begin at the same keys each ask HBM for them",
    ),
    block(
        "block-memory-free-at-once",
        "elif pipeline.specialised and waits_for_buffer(launch, kernel):",
        "elif False:",
        "HBM never holds up tiles whose Q is not copied ahead",
    ),
    consumers(
        "consumers-see-what-tiles-see",
        "if not launch.algorithm.skips(launch.problem, launch.tiling):",
        "if True:",
        "every consumer visits all key blocks of its tile",
    ),
    consumers(
        "consumers-mask-the-tiles-edge",
        "whole_low, end = visible_keys(problem, np.minimum(row + WARP_GROUP_ROWS, problem.seq_q) - 1)",
        "whole_low, end = visible_keys(problem, np.minimum(tiles + tiling.block_q, problem.seq_q) - 1)",
        "a consumer masks whatever the mask cuts of its tile",
    ),
    consumers(
        "consumers-begin-at-once",
        "return visits - (ended[-1] > ended[0])",
        "return visits - 0",
        "a tile whose last keys one consumer sees begins as slowly as another",
    ),
    block(
        "block-full-to-the-end",
        "if pipeline.specialised else 1.0\n    lengths = Lengths",
        "if False else 1.0\n    lengths = Lengths",
        "a tile of one row takes as long as a full one",
    ),
    work(
        "work-mean-of-full-blocks",
        "return mean - (1 / self.last - 1) * last / self.count",
        "return mean",
        "a head's last block counts as full on average",
    ),
    rates(
        "rates-exponentials-as-alone",
        "UNDER_PRODUCTS, BARE_OF_TWO = 1.32, 1.23",
        "UNDER_PRODUCTS, BARE_OF_TWO = 1.0, 1.23",
        "exponentials take no longer under products",
    ),
    rates(
        "rates-two-groups-as-three",
        "UNDER_PRODUCTS, BARE_OF_TWO = 1.32, 1.23",
        "UNDER_PRODUCTS, BARE_OF_TWO = 1.32, 1.0",
        "two warp groups without turns hide as much as three",
    ),
    rates(
        "rates-tiles-wait-alike",
        "TRIPS_SPARED, TRIPS_OF_TURNS, TRIPS_OF_A_DRAW = 0.6, 1.5, 1.0",
        "TRIPS_SPARED, TRIPS_OF_TURNS, TRIPS_OF_A_DRAW = 0, 1.5, 1.0",
        "a tile that starts while O leaves waits as long as one that does not",
    ),
    rates(
        "rates-draws-for-nothing",
        "TRIPS_SPARED, TRIPS_OF_TURNS, TRIPS_OF_A_DRAW = 0.6, 1.5, 1.0",
        "TRIPS_SPARED, TRIPS_OF_TURNS, TRIPS_OF_A_DRAW = 0.6, 1.5, 0",
        "a tile that is drawn late does not wait for the draw",
    ),
    rates(
        "rates-copies-waited-for",
        "WAITS_COPYING, COPYING_CYCLES = 0.65, 200",
        "WAITS_COPYING, COPYING_CYCLES = 0.65, 0",
        "a warp group alone does not wait for what it copied",
    ),
    flash3(
        "flash3-computes-both-halves",
        "return 1 / 2, 3 / 4 if few else 1.0",
        "return 1.0, 1.0",
        "the first consumer computes the half that it does not see",
    ),
    visit(
        "visit-few-rows-in-every-warp",
        "/ (threads // WARP)",
        "/ 1",
        "each of four warps multiplies all keys",
    ),
    occupancy(
        "occupancy-a-tile-more",
        "tiles, streamed = (tiles - 1, streamed) if tiles > 1 else (1, streamed // 2)",
        "tiles, streamed = (tiles, streamed) if tiles > 1 else (1, streamed // 2)",
        "a block of few rows keeps in shared memory what it has in registers",
    ),
    l1(
        "l1-spills-take-no-room",
        "row = asked + spilled_bytes(launch.schedule, phase) / tiling.block_q",
        "row = asked",
        "rows stay in L1 beside all that spills",
        "l1",
    ),
    returned(
        "l2-spills-take-no-room",
        " + spilled_bytes(schedule, kernel.phase))",
        ")",
        "rows stay in L2 beside all that spills",
    ),
)
