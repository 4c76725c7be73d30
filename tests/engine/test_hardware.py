"""The presets against what follows from other figures, and what was published of their rates."""

import pytest

from engine import Experiment, simulate
from engine.problem.gpu import Gpu, Reached
from engine.problem.hardware import GPUS, KIB, MIB, gpu_named
from engine.recordings.file import recordings
from engine.studies.calibrated import HBM, L2, REGISTERS, SHARED, memories
from engine.studies.model_errors import medians, published

# by compute capability (CUDA C++ Programming Guide, technical specifications; the last row AMD's): cores per
# SM, tensor FLOP per clock and SM in 16 bits, blocks per SM, KiB of shared memory of an SM and a block,
# KiB of registers, exponentials per clock
ARCHITECTURES = {
    "7.5": (64, 1024, 16, 64, 64, 256, 16),
    "8.0": (64, 2048, 32, 164, 163, 256, 16),
    "8.6": (128, 1024, 16, 100, 99, 256, 16),
    "8.6 GeForce": (128, 512, 16, 100, 99, 256, 16),
    "8.9": (128, 1024, 24, 100, 99, 256, 16),
    "8.9 GeForce": (128, 512, 24, 100, 99, 256, 16),
    "9.0": (128, 4096, 32, 228, 227, 256, 16),
    "10.0": (128, 8192, 32, 228, 227, 256, 16),
    "10.3": (128, 8192, 32, 228, 227, 256, 32),
    "12.0 GeForce": (128, 512, 24, 100, 99, 256, 16),
    "CDNA 3": (128, 2048, 32, 64, 64, 512, 16),
}
# architecture, cores, GHz of tensor and of float32 peaks, bus bits, Gbit/s per pin, MiB by the driver, MiB of
# L2 and of what serves all SMs, bytes per clock from L2
CHIPS = {
    "t4": ("7.5", 2560, 1.59, 1.59, 256, 10.0, 15_360, 4, 4, None),
    "a10": ("8.6", 9216, 1.695, 1.695, 384, 12.5, 23_028, 6, 6, None),
    "a5000": ("8.6", 8192, 1.695, 1.695, 384, 16.0, 24_564, 6, 6, None),
    "a100-40gb": ("8.0", 6912, 1.41, 1.41, 5120, 2.43, 40_960, 40, 20, 5120),
    "a100": ("8.0", 6912, 1.41, 1.41, 5120, 3.186, 81_920, 40, 20, 5120),
    "rtx3090": ("8.6 GeForce", 10_496, 1.695, 1.695, 384, 19.5, 24_576, 6, 6, None),
    "rtx4090": ("8.9 GeForce", 16_384, 2.52, 2.52, 384, 21.0, 24_564, 72, 72, None),
    "l4": ("8.9", 7424, 2.04, 2.04, 192, 12.5, 23_034, 48, 48, None),
    "l40s": ("8.9", 18_176, 2.52, 2.52, 384, 18.0, 46_068, 96, 96, None),
    "h100": ("9.0", 16_896, 1.83, 1.98, 5120, 5.234, 85_017_493_504 / 2**20, 50, 25, 13.5e12 / 1.83e9),
    "h200": ("9.0", 16_896, 1.83, 1.98, 6144, 6.25, 143_155.9375, 60, 30, 13.5e12 / 1.83e9),
    "gh200": ("9.0", 16_896, 1.83, 1.98, 6144, 5.21, 97_871, 60, 30, 13.5e12 / 1.83e9),
    "b200": ("10.0", 18_944, 1.86, 1.98, 8192, 7.8125, 183_359, 126, 63, None),
    "b300": ("10.3", 18_944, 1.86, 1.98, 7680, 7.992, 275_040, 126, 63, None),
    "rtx5090": ("12.0 GeForce", 21_760, 2.407, 2.407, 512, 28.0, 32_607, 96, 96, None),
    "mi300x": ("CDNA 3", 38_912, 2.1, 2.1, 8192, 5.2, 206_141_652_992 / 2**20, 256, 256, 8192),
}  # AMD prints 19,456 cores, each of which makes two operations per clock in float32


def mistakes(gpu: Gpu) -> list[str]:
    """What of a preset does not follow from the tables above."""
    family, cores, tensor, vector, bits, pin, mib, l2, shared_l2, clock = CHIPS[gpu.key]
    lanes, products, blocks, sm, block, registers, exponentials = ARCHITECTURES[family]
    expected = {
        "sms": cores / lanes,
        "blocks_sm": blocks,
        "shared_bytes_sm": sm * KIB,
        "shared_bytes_block": block * KIB,
        "register_bytes_sm": registers * KIB,
        "exponentials_per_clock": exponentials,
        "shared_bytes_per_clock": 64 if gpu.key == "t4" else 32 * 4,
        "l2_bytes": l2 * MIB,
        "l2_effective_bytes": shared_l2 * MIB,
        "l2_bytes_per_clock": clock or 13.5e12 / 1.83e9 / 132 * cores / lanes,
        "memory_bytes": mib * MIB,
        "clock_hz": tensor * 1e9,
        "scheduled": 64 if family == "CDNA 3" else 128,
    }
    rounded = {
        "memory_bytes_per_second": bits * pin / 8 * 1e9,
        "float16": cores / lanes * products * tensor * 1e9,
        "bfloat16": cores / lanes * products * tensor * 1e9,
        "float32": 2 * cores * vector * 1e9,
    }
    if gpu.key == "t4":
        rounded["bfloat16"] = rounded["float32"]
    found = {**vars(gpu), **gpu.matrix_flops}
    numbers = {name for name, value in found.items() if isinstance(value, (int, float))}
    assert numbers == expected.keys() | rounded.keys()  # each is held to something
    wrong = [name for name, value in expected.items() if abs(found[name] / value - 1) > 1e-9]
    return wrong + [name for name, value in rounded.items() if abs(found[name] / value - 1) > 0.006]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.key)
def test_every_figure_follows_from_others(gpu):
    assert mistakes(gpu) == []


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.key)
def test_every_preset_says_where_its_figures_are_from(gpu):
    groups = {"SMs, clock, peaks, bandwidth", "blocks and shared memory", "memory", "L2 to SMs"}
    assert gpu.sources.keys() - {"what it reaches"} == {*groups, "L2 for what all SMs share"}
    assert ("what it reaches" in gpu.sources) == (gpu.reached != Reached())
    assert all(len(source) > 10 for source in gpu.sources.values())
    mib, memory = gpu.memory_bytes / MIB, gpu.sources["memory"]
    assert memory.startswith(f"{mib:,.0f} MiB, ")
    assert any(word in memory for word in ("printed in", "Modal", "aiconfigurator", "in the recording"))


def test_rates_that_follow_from_clocks():
    """Public: 7.2 TB/s of an A100's L2, 17.2 of an MI300X's cache; measured: 13.5 into the SMs of an H200."""
    assert GPUS["a100"].cache_bytes_per_second == pytest.approx(7.2e12, rel=0.005)
    assert GPUS["h200"].cache_bytes_per_second == pytest.approx(13.5e12, rel=0.005)
    assert GPUS["mi300x"].cache_bytes_per_second == pytest.approx(17.2e12, rel=0.005)
    assert GPUS["h200"].exponentials_per_second == pytest.approx(16 * 132 * 1.83e9)
    assert GPUS["b300"].exponentials_per_second == 2 * GPUS["b200"].exponentials_per_second
    for recording in recordings():  # and memory is what was recorded
        assert gpu_named(recording.device.gpu).memory_bytes == recording.device.memory_bytes


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA RTX A5000", "a5000"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 5090", "rtx5090"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA L40", None),
        ("NVIDIA A10G", None),
    ],
)
def test_a_drivers_name_finds_its_preset(name, key):
    assert gpu_named(name) is (GPUS[key] if key else None)


def of(hardware: str) -> dict:
    return {memory.name: memory for memory in memories(GPUS[hardware])}


def test_the_hierarchies_are_those_of_flashattentions_papers():
    """arXiv 2205.14135, section 2.1: an A100's SRAM of about 19 TB/s beside HBM of 1.5 to 2.0 TB/s.

    arXiv 2407.08608, table 1: registers 256 KiB, shared memory 228 KiB an SM at 31 TB/s, L2 50 MiB.
    """
    a100, h100 = of("a100"), of("h100")
    assert a100[SHARED].bytes_per_second == pytest.approx(19e12, rel=0.03)
    assert a100[HBM].bytes_per_second == pytest.approx(2.0e12, rel=0.03)
    assert (h100[REGISTERS].each, h100[SHARED].each) == (256 * 1024, 228 * 1024)
    assert h100[SHARED].bytes_per_second == pytest.approx(31e12, rel=0.01)
    assert h100[L2].bytes == 50 * 2**20
    assert h100[L2].bytes_per_second == GPUS["h100"].cache_bytes_per_second
    assert of("h200")[L2].reached == pytest.approx(12.4e12, rel=0.02)  # where 64 blocks walk the same keys
    assert h100[HBM].bytes == pytest.approx(80 * 2**30, rel=0.012)  # what the driver leaves of it
    assert h100[HBM].bytes_per_second == pytest.approx(3.35e12)


@pytest.mark.parametrize("hardware", GPUS)
def test_the_nearer_a_memory_the_smaller_and_faster_it_is(hardware):
    shared, l2, hbm = (of(hardware)[name] for name in (SHARED, L2, HBM))
    assert shared.bytes_per_second >= l2.bytes_per_second > hbm.bytes_per_second
    assert shared.each < l2.bytes < hbm.bytes


def test_published_rates_are_met_in_the_median_of_all_and_of_each_gpu():
    """On an RTX A5000 FlashAttention-2 is a quarter faster than Triton is modelled to be."""
    rows = published()
    assert len(rows) >= 20
    assert len(medians()) == 10
    assert all(one.source.startswith(("https://", "FlashAttention-3, arXiv")) for one in rows)
    for name, ratio in medians().items():
        assert (0.75 if name == "RTX A5000" else 0.8) <= ratio <= 1.25, name


def test_a_row_is_flops_over_seconds_and_causal_ones_count_half():
    asked = Experiment.of(batch=8, heads=16, seq=2048, head_dim=128, hardware="rtx4090").in_own_tiling()
    of = {row.experiment: row for row in published()}
    for row, share in ((of[asked], 1), (of[asked.changed(causal=True)], 2)):
        flops = 4 * 8 * 16 * 2048 * 2048 * 128 / share
        assert row.modelled == pytest.approx(flops / simulate(row.experiment).modelled.seconds)
        assert row.ratio == row.modelled / row.rate


def test_no_gpu_reaches_more_than_its_peak_but_where_that_was_published():
    """A T4 multiplies without tensor cores, a GeForce card's clock is above its data sheet's."""
    for key, gpu in GPUS.items():
        share = gpu.reached.matrix
        assert share <= 1.0 or key in ("rtx4090", "rtx5090")
    assert GPUS["t4"].reached.matrix * 65.1 < 8.1
