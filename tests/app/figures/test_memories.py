"""The memories in HTML: areas are as bytes, ways as thick as they are fast, and what has no room says so."""

import re

import pytest

from app.figures.colours import DARK
from app.figures.memories import growth, memories
from engine.experiment import Experiment
from engine.problem.hardware import GPUS
from engine.studies.calibrated import memories as memories_of


def test_areas_are_as_bytes_and_ways_as_thick_as_they_are_fast():
    gpu = GPUS["h200"]
    *on_chip, hbm = memories_of(gpu)
    drawn = memories(gpu, DARK)
    whole, dot, *sides = map(float, re.findall(r"--side: ([\d.]+)rem", drawn))
    assert dot**2 / whole**2 == pytest.approx(on_chip[-1].bytes / hbm.bytes, rel=0.05)
    shares = [memory.bytes / on_chip[-1].bytes for memory in on_chip[::-1]]
    assert [each**2 / sides[0] ** 2 for each in sides] == pytest.approx(shares, rel=0.01)
    thick = list(map(float, re.findall(r"--thick: ([\d.]+)rem", drawn)))
    rates = [memory.bytes_per_second for memory in (hbm, *on_chip[:0:-1])]
    assert [each / thick[0] for each in thick] == pytest.approx([each / rates[0] for each in rates], rel=0.02)
    assert f"HBM is {hbm.bytes / on_chip[-1].bytes:,.0f} times as large as L2" in drawn


@pytest.mark.parametrize(
    ("values", "said", "area"),
    [
        ({}, "takes 0.1% of the memory.", 4 * 16 * 1024**2 / 150e9),
        ({"seq": 2**17, "heads": 32}, "does not fit: it takes 14.7 times the", 4 * 32 * 2**34 / 150e9),
        ({"seq": 1, "seq_kv": 2**20}, "of the memory.", 4 * 16 * 2**20 / 150e9),
    ],
)
def test_a_matrix_has_its_share_of_the_memorys_area_and_lies_within_it_where_it_fits(values, said, area):
    drawn = growth(Experiment.of(**values), DARK)
    assert said in drawn
    sizes = re.findall(r"width: ([\d.]+)%; height: ([\d.]+)%", drawn)
    width, height = map(float, sizes[0])
    assert width * height / 1e4 == pytest.approx(area, rel=0.06, abs=1e-4)
    assert ("does not fit" in drawn) == (max(width, height) > 100.01)
