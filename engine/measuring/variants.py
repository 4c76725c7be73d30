"""What masks, terms of the scores and V of another head dim cost flash2: in turns with the plain kernel.

Imports torch and kernels when called.
"""

from collections.abc import Sequence

from engine.measuring import clock
from engine.measuring.implementations import implementations
from engine.measuring.scenarios import together
from engine.measuring.trial import Checked, Trial, attempt, in_turns
from engine.recordings.timing import VariantTiming
from engine.studies.masks import beside


def timed(rows: Sequence[VariantTiming], repeats: clock.Repeats, cuda: bool) -> list[VariantTiming]:
    """The rows with their times, each result held against float64 first; or with why there is none."""
    return in_turns({row: _checked(row, cuda) for row in rows}, repeats, cuda)


def line(row: VariantTiming, plain: VariantTiming) -> str:
    """A row as the command line prints it: its time, its rate, and that rate over the plain one's."""
    name = row.problem.mask.text
    name += f", prefix {row.prefix:,}" if row.prefix else ""
    name += f", {row.term}" if row.term else ""
    name += f", d {row.problem.head_dim}/{row.v_dim}" if row.v_dim else ""
    if row.times is None:
        return f"{row.direction:<8} {name:<46} {row.skipped}"
    over = f"{row.tflops / plain.tflops:.2f} of plain" if plain.tflops else ""
    return f"{row.direction:<8} {name:<46} {row.times.p50 * 1e3:7.3f} ms {row.tflops:4.0f} TFLOP/s  {over}"


def run(repeats: clock.Repeats) -> list[VariantTiming]:
    """Times all of them and prints a line for each."""
    found = []
    for planned in together("variants", "direction"):
        rows = timed(planned, repeats, cuda=True)
        found += rows
        for row in rows:
            print(line(row, beside(row, rows)), flush=True)
    return found


def _checked(row: VariantTiming, cuda: bool) -> Checked | str:
    trial, reason = attempt(lambda: Trial.of(row.whole, cuda, row.direction), cuda)
    return reason or trial.checked(implementations()[row.provider].prepare)
