"""What each special case of the model is worth: `python -m tests.ablate [CASE ...] [--list] [--sample N]`.

Prints the error of the model by kind of recorded call and algorithm, on each GPU, in the median and at the
95th percentile. Then it takes each case out in turn and prints which errors that changes. Not part of CI.
"""

import argparse
import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from types import ModuleType

import numpy as np

from engine.problem.hardware import GPUS
from engine.recordings.file import recordings
from engine.studies.model_errors import held_calls

# a case: names of a module and its attribute (of what a GPU reaches, its name), and the neutral value
# that takes its place everywhere
CASES: dict[str, dict[str, object]] = {
    # time: shares of peaks and waits that could be equal
    "waits alone": {"rates:WAITS_ALONE": 0.0},
    "in step": {"visit:IN_STEP": 0.0},
    "full registers": {"visit:FULL_REGISTERS": 0.0},
    "under products": {"visit:UNDER_PRODUCTS": 1.0},
    "cold block": {"block_seconds:COLD_BLOCK": 0.0},
    "first loads of all at once": {"block_seconds:_asked_at_once": lambda blocks, places: 0.0},
    "buffer of Q": {"block_seconds:waits_for_buffer": lambda launch, kernel: False},
    "instructions around visits": {"block_seconds:block_instructions": lambda launch, phase: 0.0},
    "mask instructions": {"visit:MASK_INSTRUCTIONS": 0.0},
    "padded rows": {"visit:PADDED_INSTRUCTIONS": 0.0},
    "sustained clock": {"reached:sustained_clock": 1.0},
    "power": {"reached:power_slope": 0.0},
    "at work": {"visit:AT_WORK": 1.0},
    "between two events": {"reached:between_events": 0.0},
    "reads faster than copies": {"reached:reads": 0.89},
    "exponentials under a product": {"visit:HIDDEN": 0.0},
    "scores that two groups compute": {"visit:_times_computed": lambda launch, phase: 1},
    "rows that move without waiting": {"visit:RETURNED_NUMBER": 0.0},
    "S with few keys": {"visit:_narrow": lambda gpu, keys: 1.0},
    "two queues": {"placement:in_two_queues": lambda seconds, memory, copies: max(seconds, memory)},
    "numbers that move by themselves": {"unfused:APART_NUMBER": 0.0, "unfused:APART_CLOCKS": 0.0},
    # bytes
    "registers loaded again": {"occupancy:LOADED_AGAIN": (0, 0)},
    "registers spilled": {"occupancy:spilled_words": lambda algorithm, schedule, phase: 0},
    "registers put aside": {"occupancy:PUT_ASIDE": 0},
    "registers for edges": {"occupancy:EDGE": 0},
    "registers for windows": {"occupancy:WINDOW": 0},
    "sums held twice": {"occupancy:RETURNING": 0, "occupancy:MASKED_RETURNING": 0},
    "SMs apart": {"l2:APART": 0.0},
    "blocks spread on their SM": {"l2:SPREADING": 0.0},
    "last tiles end early": {"l2:ROWS_SHARE": 0.0},
    "rows that are rewritten": {"l2:REWRITTEN": 1.0},
    "sets that fill unevenly": {"l2:UNEVEN": 0.01},
    "L1 shared with what passes": {"l1:PASSING": 0.0},
    "L1 beside narrow blocks": {"l1:ROOMY": 0},
    "tiles stray from their turn": {"l1:STRAY": 1e-3},
    "edges of sectors": {"l1:_split_sectors": lambda launch, kernel: 0.0},
}
SHARES = 50, 95  # percentiles
WORTH_A_LINE = 0.0005  # a change of an error, as a share
Row = tuple[str, str, str]  # GPU, kind, algorithm; "" for all of them together
Errors = dict[Row, tuple[int, float, float]]


def errors(sample: int = 1) -> Errors:
    """Rows, median and 95th percentile of each kind, from every `sample`-th row."""
    found: dict[Row, list[float]] = defaultdict(list)
    for recording in recordings():
        for one in held_calls(recording)[::sample]:
            for algorithm in ("", one.experiment.algorithm):
                found[one.experiment.hardware, one.kind, algorithm].append(one.off)
    return {row: (len(off), *np.percentile(off, SHARES)) for row, off in sorted(found.items())}


def take_out(replaced: dict[str, object]) -> None:
    """Put neutral values in the place of attributes of engine.model, wherever they were imported."""
    for name, neutral in replaced.items():
        path, attribute = name.split(":")
        if path == "reached":
            for gpu in GPUS.values():
                object.__setattr__(gpu, path, replace(gpu.reached, **{attribute: neutral}))
            continue
        original = getattr(importlib.import_module(f"engine.model.{path}"), attribute)
        for module in _modules():
            if getattr(module, attribute, None) is original:
                setattr(module, attribute, neutral)


def clear() -> None:
    """Forget what was computed before."""
    for module in _modules():
        for value in vars(module).values():
            if isinstance(forget := getattr(value, "cache_clear", None), Callable) and not isinstance(
                value, type
            ):
                forget()


def _modules() -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if name.startswith("engine.")]


def without(case: str | None, sample: int) -> Errors:
    """Errors with a case taken out, in a process of its own."""
    if case is not None:
        take_out(CASES[case])
        clear()
    return errors(sample)


def main(arguments: Iterable[str] | None = None) -> None:
    """Print the errors, then what changes without each case."""
    parser = argparse.ArgumentParser("python -m tests.ablate", description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="cases to take out; all by default")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    parser.add_argument("--base", action="store_true", help="print the errors as they are, and end")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="take every N-th row")
    chosen = parser.parse_args(arguments)
    if unknown := [case for case in chosen.cases if case not in CASES]:
        parser.error(f"CASE is {unknown[0]!r}; it must be one of: {', '.join(CASES)}")
    if chosen.list:
        print(*CASES, sep="\n")
        return
    cases = [None, *([] if chosen.base else chosen.cases or CASES)]
    with ProcessPoolExecutor(2, get_context("spawn"), max_tasks_per_child=1) as pool:
        results = pool.map(without, cases, [chosen.sample] * len(cases))
        base = next(results)
        for row, (count, *shares) in base.items():
            print(f"{_name(row):40}{count:6}" + "".join(f"{share:9.2%}" for share in shares))
        for case, found in zip(cases[1:], results, strict=True):
            print(f"\nwithout {case}")
            changed = [row for row in base if _differs(base[row], found[row])]
            for row in changed:
                moves = zip(base[row][1:], found[row][1:], strict=True)
                print(f"  {_name(row):38}" + "".join(f"{a:9.2%} ->{b:7.2%}" for a, b in moves))
            if not changed:
                print("  no error changes")


def _name(row: Row) -> str:
    return " ".join(part or "all" for part in row)


def _differs(one: tuple, other: tuple) -> bool:
    return any(abs(a - b) > WORTH_A_LINE for a, b in zip(one[1:], other[1:], strict=True))


if __name__ == "__main__":
    main()
