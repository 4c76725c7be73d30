"""The command line: python -m engine and one of COMMANDS."""

import json
import sys
from importlib import import_module

from engine.experiment import Experiment
from engine.model.simulated_timeline import simulate_timeline
from engine.model.simulation import Simulation, simulate
from engine.parser import Parser, ended, to_write
from engine.problem.hardware import REFUSED
from engine.recordings.file import write_whole
from engine.root import Refusal
from engine.studies.timeline_files import chrome_trace

WIDTH = 30  # of a column of numbers: those of the largest problem
COMMANDS = {  # where the main of each stands
    "simulate": (__name__, "_simulate"),
    "trace": (__name__, "_trace"),
    "model": ("engine.layers.phase", "main"),
    "measure": ("engine.measuring.measure", "main"),
    "bench": ("engine.measuring.bench_model", "main"),
    "bench-kernels": ("engine.measuring.bench_kernels", "main"),
    "record": ("engine.measuring.record", "main"),
    "merge": ("engine.recordings.merge", "main"),
    "calibrate": ("engine.measuring.calibrate", "main"),
    "kernel": ("engine.watch.labs", "watch"),
    "lab": ("engine.watch.labs", "main"),
    "train-heads": ("engine.measuring.train_heads", "main"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code, raises SystemExit(2) on a bad value."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = Parser("engine", __doc__)
    parser.add_argument(
        "command",
        choices=COMMANDS,
        help="model attention, export a timeline, model a whole model, time kernels, time the model, compare "
        "on a GPU, record or calibrate one, merge recordings, watch a kernel of yours, check a lab, or train "
        "the model of the pages' heads",
    )
    command = parser.parse_args(arguments[:1]).command
    module, name = COMMANDS[command]
    for sentence in REFUSED.values():  # a calibration that is named, or lies among the others
        print(sentence, file=sys.stderr)
    try:
        return getattr(import_module(module), name)(arguments[1:]) or 0
    except Refusal as refusal:
        Parser(f"engine {command}", None).error(str(refusal))


def _trace(arguments: list[str]) -> None:
    parser = Parser(
        "engine trace", "Which SM runs each block of threads, and when, modelled: a Perfetto file."
    )
    parser.scenario()
    parser.add_argument("--out", type=to_write, required=True, help="file to write")
    given = vars(parser.parse_args(arguments))
    out, experiment = given.pop("out"), Experiment.of(**given)
    found = simulate_timeline(experiment)
    write_whole(out, chrome_trace(found).encode())
    launched = simulate(experiment).modelled.seconds
    said = f"{len(found):,} blocks, {found.seconds * 1e6:,.1f} us; {launched * 1e6:,.1f} us with their launch"
    print(f"{out}: {said}, {found.origin}")


def _simulate(arguments: list[str]) -> None:
    parser = Parser("engine simulate", "What the model says about one attention problem.")
    parser.scenario()
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--own-blocks", action="store_true", help="those that the kernel takes if given none")
    given = vars(parser.parse_args(arguments))
    as_json, own = given.pop("json"), given.pop("own_blocks")
    experiment = Experiment.of(**given)
    simulation = simulate(experiment.in_own_tiling() if own else experiment)
    print(json.dumps(simulation.summary()) if as_json else table(simulation))


def table(simulation: Simulation) -> str:
    lines = [f"{'':<14}  {'read, bytes':>{WIDTH}}  {'written, bytes':>{WIDTH}}"]
    for name, *values, origin in simulation.told():
        lines.append("  ".join([f"{name:<14}", *(f"{value:>{WIDTH}}" for value in values), origin]))
    return "\n".join([*lines, simulation.footprint.sentence])


if __name__ == "__main__":
    sys.exit(ended(main))
