"""The command line: python -m engine kernel FILE, and what it prints."""

import json
from pathlib import Path
from typing import Any

from engine.experiment import Experiment
from engine.parser import Parser
from engine.watch.process import Limits, run

DEFAULTS = {"seq": 256, "heads": 2, "head_dim": 32, "block_q": 64, "block_kv": 64}
FILE_VALUES = (  # what a file is asked for
    "batch", "heads", "kv_heads", "seq", "seq_kv", "head_dim", "dtype", "causal", "block_q", "block_kv"
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """0 without findings, 1 with; SystemExit(2) and one line for a file or argument that cannot be served."""
    parser = Parser("engine kernel", "Run a kernel of yours in Triton's interpreter, watched.")
    parser.add_argument(
        "file", type=Path, help="defines attention(q, k, v, scale, block_q, block_kv, causal)"
    )
    parser.scenario((*FILE_VALUES, "inputs"))
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    given = vars(parser.parse_args(arguments))
    file, as_json = given.pop("file"), given.pop("json")
    chosen = {name: value for name, value in given.items() if value is not None}
    sizes = {} if "inputs" in chosen else DEFAULTS  # heads have their own
    report = run(file, Experiment.of(**{**sizes, **chosen}), Limits())
    print(json.dumps(report) if as_json else lines(report))
    return int(bool(report["findings"]))


def lines(report: dict[str, Any]) -> str:
    """A report for reading: whether it is right, bytes beside FlashAttention-2's, tiles, findings."""
    error = report["largest_error"]
    shown = "is not a number somewhere" if error is None else f"is off by at most {error:.2g}"
    found = [f"O {shown}; {report['tolerance']:.2g} is rounding. {'Right.' if report['right'] else 'Wrong.'}"]
    found.append(
        f"{'':<10}{'read, bytes':>16}{'written, bytes':>16}{'FlashAttention-2, read and written':>38}"
    )
    for name in dict.fromkeys([*report["read_bytes"], *report["written_bytes"]]):
        model = [report[f"flash2_{way}_bytes"].get(name) for way in ("read", "written")]
        beside = "" if None in model else f"{model[0]:,} and {model[1]:,}"
        counted = [report[f"{way}_bytes"].get(name, 0) for way in ("read", "written")]
        found.append(f"{name:<10}{counted[0]:>16,}{counted[1]:>16,}{beside:>38}  counted")
    found.append(
        f"{report['tiles_of_all_heads']:,} tiles of {report['block_q']} by {report['block_kv']} visited."
    )
    found += report["notes"] + [finding["sentence"] for finding in report["findings"]]
    return "\n".join(found if report["findings"] else [*found, "No findings."])
