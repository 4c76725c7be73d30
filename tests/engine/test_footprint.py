"""What a tiling keeps on the chip and the tensors in memory."""

from dataclasses import replace

import pytest

from engine import Experiment
from engine.model.device_memory import largest_context, memory_bytes, memory_parts
from engine.model.footprint import Footprint, footprint
from engine.model.launch import launch
from engine.problem.hardware import GPUS, KIB
from engine.recordings.file import recordings
from engine.schedule.step import Tensor
from engine.studies.survey import roofline


def footprint_of(experiment: Experiment) -> Footprint:
    return footprint(launch(experiment))


def test_a_64_by_64_tile_of_flash2_by_hand():
    found = footprint_of(Experiment.of(head_dim=64, block_q=64, block_kv=64, hardware="h200"))
    assert [(part.label, part.bytes) for part in found.parts] == [
        ("Q", 8 * KIB), ("K", 8 * KIB), ("V", 8 * KIB), ("S", 16 * KIB), ("O", 16 * KIB), ("m, l", 512),
    ]  # fmt: skip
    assert found.sram_bytes == 56.5 * KIB
    assert found.shared_bytes == 24 * KIB
    assert found.register_bytes == 32.5 * KIB
    assert found.sentence == (
        "Fits: 24 KiB of 227 KiB of shared memory. 4 thread blocks fit on each SM: 256 run at once, of "
        "256 in all."
    )
    for values, said in (
        ({"heads": 64}, "4 thread blocks fit on each SM: 528 run at once, of 1,024 in all."),
        ({"algorithm": "flash1"}, "2 thread blocks fit on each SM, but only 16 are launched: 16 of 132 SMs"),
        ({"algorithm": "flash1", "heads": 1}, "2 thread blocks fit on each SM, but only 1 is launched: 1 of"),
    ):
        assert footprint_of(Experiment.of(head_dim=64, **values)).consequence.startswith(said)


def test_blocks_that_do_not_fit_say_so():
    found = footprint_of(Experiment.of(head_dim=256, block_q=128, block_kv=128, hardware="a100"))
    assert not found.fits
    assert found.blocks_per_sm == 0
    assert found.sentence == (
        "Does not fit: needs 192 KiB of shared memory. These tiles are too big for an A100: one thread block "
        "may use 163 KiB. Choose smaller blocks, a smaller head dimension or another GPU."
    )


def test_sums_that_no_registers_hold_are_said_to_spill():
    """Of 256 x 256 at d 128: S 256 KiB and O 128 KiB, m and l 2 KiB; 256 threads of 255 registers."""
    large = footprint_of(Experiment.of(head_dim=128, block_q=256, block_kv=256))
    assert large.register_bytes == 386 * KIB
    assert large.threads_bytes == 256 * 255 * 4
    assert "take 386 KiB and a block has 255 KiB of registers, so some spill" in large.sentence
    assert not footprint_of(Experiment.of(head_dim=128, block_q=128, block_kv=128)).spilled


def test_every_recorded_tiling_fits_that_ran_and_no_other():
    ran = {}
    for row in recordings()[0].sweep:
        key = row.algorithm, row.problem, row.block_q, row.block_kv
        ran[key] = ran.get(key, False) or row.times is not None
    assert len(ran) == 150
    assert sum(not each for each in ran.values()) == 3
    for (algorithm, problem, rows, keys), did in ran.items():
        sized = Experiment(problem=problem).changed(algorithm=algorithm, block_q=rows, block_kv=keys)
        assert footprint_of(sized).fits == did, (algorithm, problem.head_dim, rows, keys)


@pytest.mark.parametrize(("seq", "kernel"), [(256, "scores"), (2**15, "softmax")])
def test_the_largest_of_the_unfused_kernels_counts(seq, kernel):
    experiment = Experiment.of(algorithm="standard", seq=seq)
    found = footprint_of(experiment)
    assert found.kernel == kernel
    sizes = [sum(part.bytes for part in parts) for parts in launch(experiment).parts.values()]
    assert found.sram_bytes == max(sizes)


def test_small_tiles_are_limited_by_registers_and_a_launch_that_stays_is_by_itself():
    """A T4's 65,536: its kernels have 8 warps. Shared memory would hold 8 blocks, 64 KB of 8 each."""
    small = Experiment.of(head_dim=32, block_q=16, block_kv=16, hardware="t4")
    assert footprint_of(small).blocks_per_sm == 65_536 // (8 * 32 * 35)
    assert footprint_of(Experiment.of(algorithm="flash3")).blocks_per_sm == 1


def test_tensors_in_memory_are_a_key_heads_once_and_scores_of_unfused_attention_alone():
    parts = memory_parts(Experiment.of(batch=2, heads=8, kv_heads=2, seq=1024, head_dim=64))
    assert parts[Tensor.Q] == 4 * parts[Tensor.K] == 2 * 8 * 1024 * 64 * 2
    assert Tensor.S not in parts
    unfused = memory_parts(Experiment.of(algorithm="standard", heads=1, seq=4096))
    assert unfused[Tensor.S] == unfused[Tensor.P] == 2 * 4096**2
    assert unfused[Tensor.LSE] == 4 * 4096  # which its kernel writes, asked for or not


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2"])
@pytest.mark.parametrize("hardware", list(GPUS))
def test_the_largest_context_fits_and_one_more_key_does_not(algorithm, hardware):
    most = largest_context(Experiment.of(algorithm=algorithm, hardware=hardware))

    def needed(keys):
        longer = Experiment.of(algorithm=algorithm, hardware=hardware)
        problem = replace(longer.problem, seq_q=keys, seq_kv=keys)
        object.__setattr__(longer, "problem", problem)  # longer than the sliders go
        return memory_bytes(longer)

    assert needed(most) <= GPUS[hardware].memory_bytes < needed(most + 1)


def test_the_context_of_decoding_grows_with_its_keys_only():
    decoding = Experiment.of(seq=1, seq_kv=8192)
    assert 1.9 < largest_context(decoding) / largest_context(Experiment.of(seq=8192)) < 2.1


def test_the_roofline_bends_at_its_ridge():
    line = roofline(GPUS["a100"], "float16")
    assert line.ridge == pytest.approx(312e12 / 2039e9)
    assert line.attainable(line.ridge / 2) == pytest.approx(line.peak_flops / 2)
    assert line.attainable([1e9]).tolist() == [line.peak_flops]
