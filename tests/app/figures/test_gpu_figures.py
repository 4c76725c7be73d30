"""Every figure of a GPU is shown with its unit and its source."""

from app.figures.hardware import figures_lines
from engine.problem.hardware import GPUS


def test_an_h200s_figures_by_hand():
    words = {group: text for group, text, _ in figures_lines(GPUS["h200"])}
    assert words["SMs, clock, peaks, bandwidth"] == (
        "132 SMs at 1.83 GHz; 989 TFLOP/s in float16, 66.9 TFLOP/s in float32; 4.8 TB/s of memory; 16 "
        "exponentials per clock and SM"
    )
    assert words["blocks and shared memory"] == (
        "227 KiB per block, 228 KiB per SM; 256 KiB of registers and 32 blocks per SM"
    )
    assert words["memory"] == "150 GB"
    assert words["L2 to SMs"] == "13.5 TB/s, 7,377 B per clock"
    assert words["L2 for what all SMs share"] == "30 of 60 MiB"
