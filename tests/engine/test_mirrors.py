"""What the engine knows of the kernels is what the kernels do: every constant and choice that it mirrors."""

from dataclasses import replace

import pytest

from engine import Experiment
from engine.algorithms import flash2, flash3
from engine.algorithms.backward import own_tilings
from engine.algorithms.split_kv import own_blocks
from engine.model.cluster.spread import Spread
from engine.model.launch import HEAVY_FIRST, launch
from engine.model.occupancy import threads_of, tiles_in_flight
from engine.problem.hardware import GPUS
from engine.problem.problem import Mask, Problem

torch = pytest.importorskip("torch")
LONG = {"algorithm": "flash2", "seq": 4096, "heads": 32, "causal": True, "hardware": "h200"}
pytest.importorskip("kernels.interpreter", exc_type=ImportError)  # not where there is no Triton


def call_of(experiment: Experiment):
    """The kernels' own view of a problem, nothing chosen for them, K and V copied by TMA."""
    from kernels.dispatch.dispatch import checked

    problem = experiment.problem
    dtype = getattr(torch, problem.dtype)
    q = torch.empty(1, problem.heads, problem.seq_q, problem.head_dim, dtype=dtype)
    return checked(q, q, q, problem.mask.causal, problem.mask.window, stand_in=True)


def kernels_of(monkeypatch, one: Experiment) -> list[tuple[int, int, int, int]]:
    """Query and key rows, warps and stages that an experiment's kernels choose on its GPU."""
    from kernels.algorithms import flash2
    from kernels.backward.backward import tilings
    from kernels.call import device
    from kernels.call.call import Call, split_blocks
    from kernels.launch.launch import MOST_STAGES, stages
    from kernels.tilings.flash2 import warps

    problem, its = one.problem, one.gpu.device
    monkeypatch.setattr(device, "WITHOUT_GPU", its)
    dtype = getattr(torch, problem.dtype)
    q = torch.empty(1, problem.heads, problem.seq_q, problem.head_dim, dtype=dtype)
    sizes = problem.batch, problem.heads, problem.kv_heads, problem.seq_q, problem.seq_kv, problem.head_dim
    if one.algorithm == "backward":
        call = Call(*sizes, False, None, 1.0, "flash2", 64, 64, None)
        tilings.cache_clear()
        ways = [(way.call, way.warps, way.stages) for way in tilings(call, dtype, None, None)]
    else:
        call = call_of(one)
        if one.algorithm == "split_kv":
            rows, keys = split_blocks(problem.group, problem.head_dim, dtype)
            call = replace(call, block_q=rows, block_kv=keys)
        elif its.tma and flash2.served_by_tma(call, q, q, q):
            call = flash2.with_tma(call, q)
        *own, own_warps, most = flash2.own_tiling(call, q) if call.tma else (0, 0, 0, 0)
        if own != [call.block_q, call.block_kv]:
            own_warps, most = warps(call.block_q, call.out_dim), MOST_STAGES
        ways = [(call, own_warps, most)]
    pair, found = 2 * call.padded_head_dim, []
    for index, (way, own_warps, most) in enumerate(ways):
        blocks = way.block_q, way.block_kv
        stay, stream = blocks if index or one.algorithm != "backward" else blocks[::-1]
        resident = stay * (pair if one.algorithm == "backward" else pair // 2)
        in_flight = min(most, stages(q, stream * pair, resident))
        found.append((*blocks, its.warps(own_warps, call.widest), in_flight))
    return found


def modelled(one: Experiment) -> list[tuple[int, int, int, int]]:
    """The same as the engine has it."""
    if one.algorithm == "backward":
        tilings = own_tilings(one.problem, one.gpu.device)
        tried = [(name, one.changed(block_q=each[0], block_kv=each[1])) for name, each in tilings.items()]
    elif one.algorithm == "split_kv":
        rows, keys = own_blocks(one.problem, one.gpu)
        tried = [("split", one.changed(block_q=rows, block_kv=keys, splits=2))]
    else:
        tried = [("attention", one.in_own_tiling())]
    found = []
    for name, each in tried:
        run = launch(each)
        (phase,) = (kernel.phase for kernel in run.kernels if kernel.phase.name == name)
        warps = threads_of(run.schedule, phase) // each.gpu.device.threads
        stages = tiles_in_flight(run.algorithm, run.schedule, phase, each.gpu)
        found.append((each.tiling.block_q, each.tiling.block_kv, warps, stages))
    return found


@pytest.mark.parametrize("hardware", GPUS)
@pytest.mark.parametrize("algorithm", ["flash2", "split_kv", "backward"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_blocks_warps_and_stages_are_the_kernels_own_on_each_gpu(algorithm, dtype, hardware, monkeypatch):
    for head_dim in (16, 64, 80, 96, 128, 192, 256):
        for seq, kv_heads in ((512, 16), (4096, 4)):
            shape = {"head_dim": head_dim, "kv_heads": kv_heads, "dtype": dtype, "hardware": hardware}
            one = Experiment.of(algorithm=algorithm, seq=seq, **shape)
            assert modelled(one) == kernels_of(monkeypatch, one), shape


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("seq", [1024, 2048])
@pytest.mark.parametrize("window", [None, 100])
def test_as_many_heads_start_together_as_in_the_kernel(head_dim, seq, window):
    from kernels.algorithms.flash2 import heads_together

    experiment = Experiment.of(**LONG | {"seq": seq, "head_dim": head_dim, "window": window})
    own = experiment.in_own_tiling()
    assert flash2.heads_together(own.problem, own.tiling) == heads_together(replace(call_of(own), tma=True))
    assert flash2.heads_together(experiment.problem, experiment.tiling) == 1  # in blocks that were given


def test_the_heaviest_blocks_of_those_heads_are_launched_first():
    run = launch(Experiment.of(**LONG, head_dim=128).in_own_tiling())
    (kernel,) = run.kernels
    head, block = kernel.launched(HEAVY_FIRST, 0, 10)
    assert (kernel.together, kernel.count) == (8, 32)
    assert head.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]
    assert block.tolist() == [31] * 8 + [30] * 2


@pytest.mark.parametrize(("head_dim", "blocks"), [(64, 3), (80, 1), (128, 1), (256, 1)])
def test_an_sm_holds_as_many_blocks_of_flash2s_own_tiling_as_its_stages_leave_room_for(head_dim, blocks):
    """d 80 in tiles of 128 columns: 32 KiB of Q and 3 of 32 KiB of K and V."""
    run = launch(Experiment.of(**LONG, head_dim=head_dim).in_own_tiling())
    assert [kernel.resident for kernel in run.kernels] == [blocks]


def test_a_kernel_keeps_its_own_tiling_until_it_is_given_blocks():
    own = Experiment.of(**LONG, head_dim=128).in_own_tiling()
    assert own.changed(causal=False).tiling == own.tiling
    assert own.changed(block_q=32).tiling.block_q == 32
    assert own.changed(algorithm="flash1").tiling.block_q == 64  # as asked: flash1 has no other


@pytest.mark.parametrize(("window", "together"), [(None, 8), (100, 32), (4096, 8), (4095, 8)])
def test_flash3_starts_as_many_heads_together_as_its_kernel(monkeypatch, window, together):
    """2 query heads share a KV head, of 16; 5 whole ones have room, and 4 make sets of equal size."""
    from kernels.algorithms.flash3.forward import _prepared

    monkeypatch.setattr("kernels.tilings.flash3.L2_FOR_KEYS", 5 * 4096 * 4 * 64)
    experiment = Experiment.of(**LONG | {"algorithm": "flash3", "kv_heads": 16, "window": window})
    q, k = (torch.empty(1, heads, 4096, 64, dtype=torch.float16) for heads in (32, 16))
    _, _, arguments = _prepared(q, k, k, q, True, window, 0.1)
    assert arguments["heads_together"] == together
    assert flash3.heads_together(experiment.problem, experiment.tiling) == together


@pytest.mark.parametrize("method", ["ring", "ring_send", "all_gather"])
@pytest.mark.parametrize("kv_heads", [4, 16])
def test_heads_travel_between_gpus_in_as_many_groups_as_are_modelled(method, kv_heads):
    from kernels.call.call import Call
    from kernels.distributed.choice import group_count
    from kernels.distributed.layout import Layout

    for tokens, ranks, causal in ((8192, 4, True), (131072, 4, True), (32768, 2, False), (2**20, 16, True)):
        problem = Problem(1, 16, kv_heads, tokens, tokens, 128, "float16", Mask(causal))
        spread = Spread(problem, ranks, method, causal)
        call = Call(1, 16, kv_heads, tokens, tokens, 128, causal, None, 1.0, "flash2", 64, 64, None)
        if spread.unserved is None:
            assert spread.groups == group_count(method, Layout(tokens, ranks, causal), call, 2)
