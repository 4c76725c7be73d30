"""What a report is made of: nothing of another shape is taken for one, whoever has written it."""

from math import isfinite
from typing import Any

LARGEST = 2**63
NUMBERS, ROWS = [int], [[int]]
FINDING = {
    "kind": str, "sentence": str, "line": (int, None), "program": (NUMBERS, None), "tensor": (str, None)
}  # fmt: skip
STEPS = {"kinds": [str], "tensors": [str], "programs": ROWS, "rows": ROWS, "whole": bool}
PROGRAM = {
    "launch": str, "program": NUMBERS, "moved": {str: NUMBERS}, "head": (int, None),
    "query_block": (int, None), "flash2": {str: NUMBERS}, "bytes": int, "flash2_bytes": (int, None),
}  # fmt: skip
REPORT = {
    "right": bool, "largest_error": (float, None), "tolerance": float, "read_bytes": {str: int},
    "written_bytes": {str: int}, "flash2_read_bytes": {str: int}, "flash2_written_bytes": {str: int},
    "launches": [str], "steps": STEPS, "notes": [str], "findings": [FINDING], "heads": int, "head": int,
    "block_q": int, "block_kv": int, "visits": ROWS, "extra_tiles": ROWS, "missing_tiles": ROWS,
    "repeated_tiles": ROWS, "tiles_of_all_heads": int, "by_program": [PROGRAM], "flash2_steps": ROWS,
}  # fmt: skip
STEP = 7  # numbers of a step, see `engine.watch.steps.of_head`


def is_report(value: Any) -> bool:
    """Whether something is a report on an attention, as far as its shape tells."""
    if not fits(value, REPORT):
        return False
    steps = value["steps"]
    named = len(steps["kinds"]), len(steps["tensors"]), LARGEST, len(steps["programs"])
    return all(
        len(row) == STEP and all(-1 <= number < most for number, most in zip(row, named, strict=False))
        for row in steps["rows"]
    )


def fits(value: Any, shape: Any) -> bool:
    """Whether a value of JSON has a shape: a type, a list of one, an object, or one of several."""
    if isinstance(shape, tuple):
        return any(fits(value, each) for each in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict) or not (str in shape or value.keys() == shape.keys()):
            return False
        return all(fits(each, shape.get(str) or shape[name]) for name, each in value.items())
    if shape is float:
        return type(value) in (int, float) and isfinite(value)
    if shape is int:
        return type(value) is int and abs(value) < LARGEST
    return value is None if shape is None else type(value) is shape
