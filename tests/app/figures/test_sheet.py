"""Tables as files hold them: raw numbers, and each unit once."""

import json
import re
from html import unescape

import pytest

from app.figures.tables import sheet
from app.figures.units import bytes_text, scaled, seconds_text, share_text
from engine import Experiment, simulate
from tests.app.worker_page import html, opened


def test_a_columns_unit_stands_in_its_head_and_numbers_are_not_rounded():
    rows = [["a", bytes_text(2_110_499), seconds_text(1.23456e-5), "1,024"], ["b", bytes_text(7), "", "-"]]
    assert sheet(["mask", "bytes", "time", "N"], rows) == [
        ["mask", "bytes (B)", "time (s)", "N"],
        ["a", 2_110_499, 1.23456e-5, 1024],
        ["b", 7, "", "-"],
    ]


def test_units_of_several_stand_behind_their_numbers():
    rows = [["kept", bytes_text(4096)], ["work", scaled(5e9, "FLOP")], ["ratio", "−0.19"], ["of", "64×64"]]
    assert sheet(["", "P stored"], rows)[1:] == [
        ["kept", "4096 B"], ["work", "5000000000.0 FLOP"], ["ratio", "−0.19"], ["of", "64×64"],
    ]  # fmt: skip
    assert sheet(["", "x"], [["a", share_text(0.12345)]]) == [["", "x (%)"], ["a", pytest.approx(12.345)]]


def test_a_pages_table_carries_the_engines_bytes():
    told = r"data-title='Bytes by algorithm and level' data-sheet='([^']*)'"
    head, _, requested, *_ = json.loads(unescape(re.search(told, html(opened("traffic")))[1]))
    assert head[1:] == ["Standard", "Flash 1", "Flash 2"]
    for algorithm, cell in zip(("standard", "flash1", "flash2"), requested[1:], strict=True):
        assert cell == f"{simulate(Experiment.of(algorithm=algorithm)).traffic.requested.total} B"
    assert requested[0] == "requested from L2"
