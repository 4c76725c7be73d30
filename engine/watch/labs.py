"""Kernels that the command line names: one's own, watched, and labs, checked by rules.

Labs are kernels of `assets/labs` with a hole each; a hint is given when it is asked for.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.experiment import Experiment
from engine.parser import Parser, whole
from engine.root import ROOT
from engine.watch.process import Limits, run

FOLDER = ROOT / "assets" / "labs"
COMPARED = ("Q", "K", "V", "O")
ONLY_SHOWN = "It is right for the numbers that the file was shown, and wrong for others."
SAID = ("SCENARIO", "HINTS", "COMPARED", "FUNCTION")


@dataclass(frozen=True)
class Lab:
    """One lab, read from its file without running it."""

    # number, file: its place in the ladder, and where it stands
    number: int
    file: Path
    # title, task: of its docstring
    title: str
    task: str
    # experiment, stretch: what it is run on, and what Q is multiplied by
    experiment: Experiment
    stretch: float
    hints: tuple[str, ...]  # the last one is the answer
    # tensors of which no more bytes may move than FlashAttention-2 moves
    compared: tuple[str, ...] = COMPARED
    function: str = "attention"  # that the file defines: attention, or delta

    @classmethod
    def read(cls, file: Path) -> Lab:
        """A lab from its file, whose name begins with its number."""
        tree = ast.parse(file.read_text(encoding="utf-8"))
        title, task = ast.get_docstring(tree).split("\n", 1)
        said = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and node.targets[0].id in SAID
        }
        number, stretch = int(file.stem.split("_")[0]), said["SCENARIO"].pop("stretch", 1.0)
        asked = Experiment.of(**said["SCENARIO"]), stretch, said["HINTS"]
        optional = said.get("COMPARED", COMPARED), said.get("FUNCTION", "attention")
        return cls(number, file, title, task.strip(), *asked, *optional)

    def check(self, file: Path, limits: Limits) -> dict[str, Any]:
        """Whether a file passes, and else why not; raises FailedError where it cannot be run."""
        report = run(file, self.experiment, limits, self.stretch, self.function, judge=True)
        on_others = report.pop("right_on_others")
        reason = broken_rule(report, self.compared) or (None if on_others else ONLY_SHOWN)
        return {"lab": self.number, "title": self.title, "passed": reason is None, "reason": reason, **report}


def labs() -> dict[int, Lab]:
    """All labs by number."""
    found = (Lab.read(file) for file in FOLDER.glob("*.py"))
    return {lab.number: lab for lab in sorted(found, key=lambda lab: lab.number)}


def broken_rule(report: dict[str, Any], compared: tuple[str, ...] = COMPARED) -> str | None:
    """The first rule that a report breaks, as a sentence: no finding, right, no more bytes than enough."""
    if report["findings"]:
        return report["findings"][0]["sentence"]
    if not report["right"]:
        return "O is not what float64 gives."
    for way, verb in (("read", "are read"), ("written", "are written")):
        for tensor in compared:
            bytes_, most = (report[f"{whose}{way}_bytes"][tensor] for whose in ("", "flash2_"))
            if bytes_ > most:
                return f"{bytes_:,} bytes of {tensor} {verb}, where {most:,} are enough."
    return None


def main(arguments: list[str]) -> int:
    """0 if the file passes or none was given, 1 if not; SystemExit(2) for what cannot be served."""
    ladder = labs()
    parser = Parser("engine lab", "Show a lab's task or a hint, or check a solution of it.")
    parser.add_argument("number", type=whole, choices=ladder, help="of the lab")
    parser.add_argument("file", type=Path, nargs="?", help="your copy; without one, the task is shown")
    parser.add_argument("--hint", type=whole, metavar="N", help="show hint N; the last one is the answer")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a sentence")
    given = parser.parse_args(arguments)
    lab = ladder[given.number]
    if given.hint is not None:
        if not 1 <= given.hint <= len(lab.hints):
            parser.error(f"hint is {given.hint}; it must be from 1 to {len(lab.hints)}")
        print(lab.hints[given.hint - 1])
        return 0
    if given.file is None:
        print(
            f"Lab {lab.number}: {lab.title}\n\n{lab.task}\n\nCopy {lab.file}. It has {len(lab.hints)} hints."
        )
        return 0
    found = lab.check(given.file, Limits())
    said = "Passed." if found["passed"] else found["reason"]
    print(json.dumps(found) if given.json else f"Lab {lab.number}, {lab.title}: {said}")
    return int(not found["passed"])


DEFAULTS = {"seq": 256, "heads": 2, "head_dim": 32, "block_q": 64, "block_kv": 64}
FILE_VALUES = (  # what a file is asked for
    "batch", "heads", "kv_heads", "seq", "seq_kv", "head_dim", "dtype", "causal", "block_q", "block_kv"
)  # fmt: skip


def watch(arguments: list[str]) -> int:
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
