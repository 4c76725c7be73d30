"""Error over speed: every mark is its row, and names stand beside the marks of their numbers."""

import math

from plotly.graph_objects import Figure

from app.figures.colours import DARK
from app.figures.flash3 import INPUTS, NAMES, error_by_speed
from engine.problem.problem import Mask, Problem
from engine.recordings.timing import Fp8Timing, Times

PROBLEM = Problem(1, 16, 16, 4096, 4096, 128, "float16", Mask())
FLOPS = 4 * 16 * 4096**2 * 128


def row(number, kind, tflops, error):
    times = Times(*[FLOPS / tflops / 1e12] * 3, 5)
    given = {"numbers": number, "inputs": kind, "relative_error": error}
    return Fp8Timing("fp8", "FP8", "forward", PROBLEM, times, **given)


ROWS = [
    row(number, kind, 700.0 + 50 * place, 0.0003 * 10 ** (bool(place) + (kind == "outliers") / 3))
    for place, number in enumerate(NAMES)
    for kind in INPUTS
]


def test_every_mark_is_a_row_and_its_words_say_so():
    figure = Figure(error_by_speed(ROWS, "recorded on a GPU", DARK))
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    assert [trace.name for trace in marks] == ["normal inputs", "inputs with outliers"]
    for trace, kind in zip(marks, INPUTS, strict=True):
        wanted = [each for each in ROWS if each.inputs == kind]
        assert list(zip(trace.x, trace.y, strict=True)) == [
            (each.tflops, each.relative_error) for each in wanted
        ]
        assert [words[0] for words in trace.customdata] == [NAMES[each.numbers] for each in wanted]
        assert "recorded on a GPU" in trace.hovertemplate


def test_shares_on_the_axis_have_no_needless_noughts():
    axis = Figure(error_by_speed(ROWS, "recorded", DARK)).layout.yaxis
    assert list(axis.ticktext)[:4] == ["0.01%", "0.03%", "0.1%", "0.3%"]
    assert [float(text[:-1]) / 100 for text in axis.ticktext] == [round(tick, 9) for tick in axis.tickvals]


def test_names_stand_beside_a_mark_of_their_numbers_inside_the_axes():
    figure = Figure(error_by_speed(ROWS, "recorded", DARK))
    low, high = figure.layout.yaxis.range
    for note, number in zip(figure.layout.annotations, NAMES, strict=True):
        marks = [(each.tflops, math.log10(each.relative_error)) for each in ROWS if each.numbers == number]
        assert (note.x, note.y) in marks
        assert note.text == NAMES[number]
        assert low < note.y < high


def test_what_has_no_time_is_left_out():
    skipped = Fp8Timing("fp8", "FP8", "forward", PROBLEM, skipped="no", numbers="tensor")
    figure = Figure(error_by_speed([skipped, *ROWS[-2:]], "recorded", DARK))
    assert sum(len(trace.x) for trace in figure.data if trace.mode == "markers") == 2
