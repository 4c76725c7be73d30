"""Tables as files hold them: raw numbers, and each unit once."""

import json
import re
from html import unescape

import pytest

from app.figures.tables import sheet
from app.figures.units import bytes_text, scaled, seconds_text, share_text, times_text
from engine import Experiment, simulate
from tests.app.worker_page import html, opened


def test_a_columns_unit_stands_in_its_head_and_numbers_are_not_rounded():
    rows = [["a", bytes_text(2_110_499), seconds_text(1.23456e-5), "1,024"], ["b", bytes_text(7), "", "-"]]
    assert sheet(["mask", "bytes", "time", "N"], rows) == [
        ["mask", "bytes (B)", "time (s)", "N"],
        ["a", 2_110_499, 1.23456e-5, 1024],
        ["b", 7, "", "-"],
    ]


def test_a_rows_unit_stands_in_its_name_where_columns_have_several():
    rows = [["kept", bytes_text(4096), bytes_text(12)], ["work", scaled(5e9, "FLOP"), scaled(7e9, "FLOP")]]
    rows.append(["both", bytes_text(1), scaled(2, "FLOP")])
    assert sheet(["", "P stored", "recomputed"], rows) == [
        ["", "P stored", "recomputed"],
        ["kept (B)", 4096, 12],
        ["work (FLOP)", 5e9, 7e9],
        ["both", "1 B", "2 FLOP"],
    ]


@pytest.mark.parametrize(
    ("text", "head", "value"),
    [
        (share_text(0.12345), "x (%)", 12.345),
        (times_text(10, 4), "x (×)", 2.5),
        ("1.2e-05", "x", 1.2e-05),
        ("−0.19", "x", -0.19),
        ("512.3 TFLOP/s", "x (TFLOP/s)", 512.3),
        ("64×64", "x", "64×64"),
        ("H200, 3", "x", "H200, 3"),
    ],
)
def test_what_a_cell_says_is_read_as_a_number_or_left_as_words(text, head, value):
    assert sheet(["", "x"], [["row", text]]) == [["", head], ["row", pytest.approx(value)]]


def test_a_pages_table_carries_the_engines_bytes():
    sheets = re.findall(
        r"data-title='Bytes by algorithm and level' data-sheet='([^']*)'", html(opened("traffic"))
    )
    head, requested, *_ = json.loads(unescape(sheets[0]))
    assert head[1:] == ["Standard", "Flash 1", "Flash 2"]
    expected = [
        simulate(Experiment.of(algorithm=name)).traffic.requested.total
        for name in ("standard", "flash1", "flash2")
    ]
    assert requested == ["requested from L2 (B)", *expected]
